"""Translation: a relation is a step that carries the head to the tail.

D(h, r, t) = α − ‖h + r − t‖                                                        (Eq. 7)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.config import Settings
from doxa.scores.base import VectorScore
from doxa.scores.pairwise import Scores, lengths, nearness


class Translation(VectorScore):
    """D(h, r, t) = α − ‖h + r − t‖ with the L1 or L2 norm (Eq. 7)."""

    formula = "α − ‖h + r − t‖"

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator | None) -> None:
        super().__init__(entities, relations, settings, generator)
        self.norm = settings.norm
        self.alpha = nn.Parameter(torch.tensor(float(settings.alpha)), requires_grad=settings.learns_alpha)

    def make_neutral(self) -> None:
        nn.init.zeros_(self.relation.weight)

    def each(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        gap = h + r - t
        return self.alpha - (lengths(gap) if self.norm == 2 else gap.abs().sum(-1))

    def with_tails(self, h: Tensor, r: Tensor, tails: Tensor) -> Scores:
        return nearness(h + r, tails, self.norm, self.alpha)

    def with_heads(self, r: Tensor, t: Tensor, heads: Tensor) -> Scores:
        return nearness(t - r, heads, self.norm, self.alpha)

    def with_relations(self, h: Tensor, t: Tensor, relations: Tensor) -> Scores:
        return nearness(t - h, relations, self.norm, self.alpha)
