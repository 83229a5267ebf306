"""Translation: a relation is a step that carries the head to the tail.

D(h, r, t) = α − ‖h + r − t‖                                                        (Eq. 7)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.scores.distance import distance
from doxa.scores.score import Score, rows, table
from doxa.settings import Settings


class Translation(Score):
    """D(h, r, t) = α − ‖h + r − t‖ with the L1 or L2 norm (Eq. 7)."""

    formula = "α − ‖h + r − t‖"

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator) -> None:
        super().__init__(entities, relations, settings, generator)
        self.norm = settings.norm
        self.relation = table(relations, settings.dimension, generator)
        self.alpha = nn.Parameter(torch.tensor(float(settings.alpha)), requires_grad=settings.learns_alpha)

    def make_neutral(self) -> None:
        nn.init.zeros_(self.relation.weight)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        step = self.entity(head) + self.relation(relation) - self.entity(tail)
        length: Tensor = torch.linalg.vector_norm(step, ord=self.norm, dim=-1)
        return self.alpha - length

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._near(self.entity(head) + self.relation(relation), rows(self.entity, candidates))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._near(self.entity(tail) - self.relation(relation), rows(self.entity, candidates))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._near(self.entity(tail) - self.entity(head), rows(self.relation, candidates))

    def _near(self, points: Tensor, candidates: Tensor) -> Tensor:
        """α − ‖point − candidate‖ for every pair, (B, d), (C, d) → (B, C)."""
        return self.alpha - distance(points, candidates, self.norm)
