"""RotatE: a relation turns the head, coordinate by coordinate, onto the tail.

    D(h, r, t) = α − ‖h ∘ r − t‖,   |r| = 1 in every complex coordinate            (Sun et al., 2019)

A relation's row is scaled to unit coordinates when used. Turning keeps lengths: asking for a head turns the tail back,
and ‖h ∘ r − t‖² = ‖h‖² + ‖t‖² − 2 Re ⟨h, r, t̄⟩ is linear in r.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from doxa.config import setting
from doxa.scores.base import ScoreOptions, Sizes, VectorScore
from doxa.scores.complex import even, moduli, neutral, product, product_with_conjugate
from doxa.scores.pairwise import ROUNDING, SMALLEST, Scores, lengths, nearness
from doxa.slots import Slot


@dataclass(frozen=True)
class RotateOptions(ScoreOptions):
    """Options of the rotation score."""

    alpha: float = setting(4.0, "Bias α of the score. It cancels in a softmax and matters in logistic estimates.")
    learn_alpha: bool = setting(True, "Train α where it matters: with the negative estimator.")


class Rotate(VectorScore):
    """D(h, r, t) = α − ‖h ∘ r − t‖ with unit complex coordinates of r."""

    formula = "α − ‖h ∘ r − t‖,  |r| = 1"
    Options = RotateOptions

    def __init__(self, sizes: Sizes, options: RotateOptions, generator: torch.Generator | None) -> None:
        super().__init__(even(sizes), options, generator)
        self.alpha = nn.Parameter(torch.tensor(float(options.alpha)), requires_grad=options.learn_alpha)

    def freeze_bias(self) -> None:
        self.alpha.requires_grad_(False)

    def make_neutral(self) -> None:
        neutral(self.relation)

    def each(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return self.alpha - lengths(product(h, unit(r)) - t)

    def pairs(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Scores:
        match slot:
            case Slot.HEAD:
                return nearness(product_with_conjugate(t, unit(r)), candidates, 2, self.alpha)
            case Slot.RELATION:
                return self._relations(h, t, candidates)
            case Slot.TAIL:
                return nearness(product(h, unit(r)), candidates, 2, self.alpha)

    def _relations(self, h: Tensor, t: Tensor, relations: Tensor) -> Tensor:
        sizes = (h * h).sum(-1, keepdim=True) + (t * t).sum(-1, keepdim=True)
        squares = sizes - 2 * product_with_conjugate(t, h) @ unit(relations).T
        least = (sizes.detach() * ROUNDING * torch.finfo(sizes.dtype).eps).clamp_min(SMALLEST)
        return self.alpha - torch.maximum(squares, least).sqrt()


def unit(vectors: Tensor) -> Tensor:
    """Every complex coordinate divided by its modulus."""
    return vectors / moduli(vectors).repeat(*[1] * (vectors.dim() - 1), 2)
