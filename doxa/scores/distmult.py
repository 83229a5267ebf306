"""DistMult: a relation weighs, coordinate by coordinate, how far head and tail agree.

    D(h, r, t) = Σ h · r · t            (Yang et al., 2015)

Symmetric: it cannot tell ⟨h, r, t⟩ from ⟨t, r, h⟩.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.scores.score import Score, rows, table
from doxa.settings import Settings


class DistMult(Score):
    """D(h, r, t) = Σ h · r · t."""

    formula = "Σ h · r · t"
    default_scale = 1.0

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator) -> None:
        super().__init__(entities, relations, settings, generator)
        self.relation = table(relations, settings.dimension, generator)

    def make_neutral(self) -> None:
        nn.init.ones_(self.relation.weight)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        agreement: Tensor = self.entity(head) * self.relation(relation) * self.entity(tail)
        return agreement.sum(-1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        return _each(self.entity(head) * self.relation(relation), rows(self.entity, candidates))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return _each(self.entity(tail) * self.relation(relation), rows(self.entity, candidates))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return _each(self.entity(head) * self.entity(tail), rows(self.relation, candidates))


def _each(pairs: Tensor, candidates: Tensor) -> Tensor:
    """Every pair with every candidate, (B, d), (C, d) → (B, C)."""
    return pairs @ candidates.T
