"""Translation: a relation is a step that carries the head to the tail.

D(h, r, t) = α − ‖h + r − t‖                                     (Eq. 7)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from doxa.config import setting
from doxa.scores.base import ScoreOptions, Sizes, Triple, VectorScore
from doxa.scores.pairwise import Scores, lengths, nearness, row_distances
from doxa.slots import Slot


@dataclass(frozen=True)
class TranslationOptions(ScoreOptions):
    """Options of the translation scores."""

    norm: int = setting(2, "Norm of the distance: L1 or L2.", choices=(1, 2))
    alpha: float = setting(4.0, "Bias α of Eq. 7. It cancels in a softmax and matters in logistic estimates.")
    learn_alpha: bool = setting(True, "Train α where it matters: with the negative estimator.")


class Translation(VectorScore):
    """D(h, r, t) = α − ‖h + r − t‖ with the L1 or L2 norm (Eq. 7)."""

    formula = "α − ‖h + r − t‖"
    Options = TranslationOptions

    def __init__(self, sizes: Sizes, options: TranslationOptions, generator: torch.Generator | None) -> None:
        super().__init__(sizes, options, generator)
        self.norm = options.norm
        self.alpha = nn.Parameter(torch.tensor(float(options.alpha)), requires_grad=options.learn_alpha)

    def freeze_bias(self) -> None:
        self.alpha.requires_grad_(False)

    def make_neutral(self) -> None:
        nn.init.zeros_(self.relation.weight)

    def each(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """α − ‖h + r − t‖ row by row (Eq. 7)."""
        gap = h + r - t
        return self.alpha - (lengths(gap) if self.norm == 2 else gap.abs().sum(-1))

    def pairs(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Scores:
        """α − ‖h + r − t‖ with every candidate (Eq. 7): the distance from where the missing vector should lie."""
        return nearness(self.target(slot, h, r, t), candidates, self.norm, self.alpha)

    def each_candidate(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        """α − ‖h + r − t‖ with the candidates of each row, (B, k, d) → (B, k) (Eq. 7)."""
        if self.norm == 2:
            return self.alpha - row_distances(self.target(slot, h, r, t), candidates)
        return super().each_candidate(slot, h, r, t, candidates)

    @property
    def entity_metric(self) -> str:
        return f"L{self.norm}"

    def target(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Where the missing vector should lie, (B, d)."""
        match slot:
            case Slot.HEAD:
                return t - r
            case Slot.RELATION:
                return t - h
            case Slot.TAIL:
                return h + r

    @property
    def by_hand(self) -> bool:
        return self.norm == 2

    def pull(self, slot: Slot, vectors: Triple, of_points: Tensor, sums: Triple) -> None:
        match slot:
            case Slot.HEAD:
                sums.tail.add_(of_points)
                sums.relation.sub_(of_points)
            case Slot.RELATION:
                sums.tail.add_(of_points)
                sums.head.sub_(of_points)
            case Slot.TAIL:
                sums.head.add_(of_points)
                sums.relation.add_(of_points)
