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
from doxa.scores.base import ScoreOptions, Sizes, Triple, VectorScore
from doxa.scores.complex import TINY, even, moduli, neutral, product, product_with_conjugate, pull_product
from doxa.scores.pairwise import Scores, Turns, lengths, nearness
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
        return self.alpha - lengths(product(h, self._unit(r), self.training) - t)

    def pairs(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Scores:
        if slot is Slot.RELATION:
            return self._relations(h, t, candidates)
        return nearness(self.target(slot, h, r, t), candidates, 2, self.alpha)

    @property
    def entity_metric(self) -> str:
        return "L2"

    def target(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        match slot:
            case Slot.HEAD:
                return product_with_conjugate(t, self._unit(r), self.training)
            case Slot.RELATION:
                return product_with_conjugate(t, h, self.training)
            case Slot.TAIL:
                return product(h, self._unit(r), self.training)

    def _relations(self, h: Tensor, t: Tensor, relations: Tensor) -> Turns:
        squares = (h * h).sum(-1) + (t * t).sum(-1)
        points = self.target(Slot.RELATION, h, relations, t)
        return Turns(points, self._unit(relations), -1.0, self.alpha, squares=squares)

    def _unit(self, relations: Tensor) -> Tensor:
        """`unit`, compiled in training without autograd."""
        if relations.requires_grad or not self.training:
            return unit(relations)
        from doxa.scores import gradient_kernels

        made, rows = torch.empty_like(relations), relations.numpy()
        gradient_kernels.units(rows, made.numpy(), rows.dtype.type(TINY))
        return made

    @property
    def by_hand(self) -> bool:
        return True

    def pull(self, slot: Slot, vectors: Triple, of_points: Tensor, sums: Triple) -> None:
        pull_product(slot, vectors._replace(relation=self._unit(vectors.relation)), of_points, sums)

    def pull_squares(self, slot: Slot, vectors: Triple, of_half_squares: Tensor, sums: Triple) -> None:
        for side in (Slot.HEAD, Slot.TAIL):
            sums[side].addcmul_(vectors[side], of_half_squares[:, None])

    def pull_relations(self, relations: Tensor, gradient: Tensor) -> Tensor:
        from doxa.scores import gradient_kernels

        arrays = relations.numpy(), gradient.numpy()
        gradient_kernels.pull_units(*arrays, arrays[0].dtype.type(TINY))
        return gradient


def unit(vectors: Tensor) -> Tensor:
    """Every complex coordinate divided by its modulus."""
    return vectors / moduli(vectors).repeat(*[1] * (vectors.dim() - 1), 2)
