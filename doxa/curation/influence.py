"""Influence: which training beliefs change an answer most?

One step of gradient ascent on the log credence of a training belief z changes the log credence of the belief q by

    influence(z) = ∇ log credence(q) · ∇ log credence(z)

to first order and per unit of the step. A positive influence supports q: without z its credence falls. The product is
the derivative of log credence(z) along the gradient of q, so two passes over all z are enough.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from doxa.calibration.rules import log_terms
from doxa.calibration.thresholds import Numbers
from doxa.curation.float64 import float64_copy
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.pbe import PBE, log_credence

STEP = 1e-4
"""Largest move of a weight in the finite differences."""


def influence(pbe: PBE, belief: Beliefs, training: Beliefs, mention_exponent: float = 1.0) -> Numbers:
    """influence(z) of each training belief z on one belief, (n,)."""
    pbe = float64_copy(pbe)
    gradient = _gradient(pbe, belief, mention_exponent)
    largest = max(float(part.abs().max()) for part in gradient.values())
    if not largest:
        return np.zeros(len(training))
    step = STEP / largest
    ahead, behind = (_moved_log_credence(pbe, gradient, factor, training, mention_exponent) for factor in (step, -step))
    return (ahead - behind) / (2 * step)


def _gradient(pbe: PBE, belief: Beliefs, mention_exponent: float) -> dict[str, Tensor]:
    """∇ log credence of one belief, by the name of each parameter."""
    weights = {name: parameter for name, parameter in pbe.named_parameters() if parameter.requires_grad}
    with torch.enable_grad():
        value = log_credence(pbe.log_terms(Batch.of(belief), mention_exponent)).sum()
        parts = torch.autograd.grad(value, list(weights.values()), allow_unused=True)
    return {name: part.to_dense() for name, part in zip(weights, parts, strict=True) if part is not None}


@torch.no_grad()
def _moved_log_credence(
    pbe: PBE, direction: dict[str, Tensor], factor: float, beliefs: Beliefs, mention_exponent: float
) -> Numbers:
    """Log credence of beliefs with weights moved along a direction; the weights are restored."""
    before = {name: pbe.get_parameter(name).clone() for name in direction}
    try:
        for name, part in direction.items():
            pbe.get_parameter(name).add_(part, alpha=factor)
        return log_credence(log_terms(pbe, beliefs, mention_exponent))
    finally:
        for name, weights in before.items():
            pbe.get_parameter(name).copy_(weights)
