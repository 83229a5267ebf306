"""Influence: without which training beliefs would an answer change most?

One step of gradient ascent on the log credence of a belief z moves the log credence of the belief in question q by

    push(z) = ∇ log credence(q) · ∇ log credence(z)

to first order and per unit of the step. A belief with a large push holds the answer up; without it credence falls. The
product is the derivative of log credence(z) along the gradient of q, so all z are had from two passes over them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from doxa.calibration.rules import log_terms
from doxa.calibration.thresholds import Numbers
from doxa.curation.bare import precise
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.pbe import PBE

STEP = 1e-4
"""Largest move of a weight by which derivatives along a direction are measured."""


def pushes(pbe: PBE, question: Beliefs, others: Beliefs) -> Numbers:
    """push(z) of every one of the other beliefs on the one in question, (n,)."""
    pbe = precise(pbe)
    gradient = _gradient(pbe, question)
    largest = max(float(part.abs().max()) for part in gradient.values())
    if not largest:
        return np.zeros(len(others))
    step = STEP / largest
    ahead, behind = (_moved(pbe, gradient, factor, others) for factor in (step, -step))
    return (ahead - behind) / (2 * step)


def _gradient(pbe: PBE, question: Beliefs) -> dict[str, Tensor]:
    weights = {name: parameter for name, parameter in pbe.named_parameters() if parameter.requires_grad}
    with torch.enable_grad():
        value = pbe.log_credence(Batch.of(question)).sum()
        found = torch.autograd.grad(value, list(weights.values()), allow_unused=True)
    return {name: part.to_dense() for name, part in zip(weights, found, strict=True) if part is not None}


@torch.no_grad()
def _moved(pbe: PBE, direction: dict[str, Tensor], factor: float, others: Beliefs) -> Numbers:
    """Log credence of beliefs when the weights are moved; they are put back."""
    before = {name: pbe.get_parameter(name).clone() for name in direction}
    try:
        for name, part in direction.items():
            pbe.get_parameter(name).add_(part, alpha=factor)
        return np.asarray(log_terms(pbe, others).mean(axis=1))
    finally:
        for name, kept in before.items():
            pbe.get_parameter(name).copy_(kept)
