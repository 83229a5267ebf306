"""Bilinear: every feature of the head may speak with every feature of the tail.

    D(h, r, t) = hᵀ W_r t            (Nickel et al., 2011; Jenatton et al., 2012)

Linear in each of h, t and W_r: asking for an entity is one product with the question's mapped vector, asking for a
relation one product of the outer products h tᵀ with all matrices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from doxa.config import Settings
from doxa.scores.base import Score, rows, table
from doxa.scores.matrices import identity, mapped, outer, tiled, turned


class Bilinear(Score):
    """D(h, r, t) = hᵀ W_r t."""

    formula = "hᵀ W_r t"
    relation_tables = ("map",)
    default_scale = 1.0

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator | None) -> None:
        super().__init__(entities, relations, settings, generator)
        self.map = table(relations, settings.dimension**2, generator, spread=settings.dimension**-0.5)

    def make_neutral(self) -> None:
        identity(self.map, self.dimension)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        tails: Tensor = self.entity(tail)
        return (self._spoken(head, relation) * tails).sum(-1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._spoken(head, relation) @ rows(self.entity, candidates).T

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return mapped(self.entity(tail), relation, self.map) @ rows(self.entity, candidates).T

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        maps = rows(self.map, candidates)

        def of(some: slice, these: slice) -> Tensor:
            return outer(h[some], t[some]) @ maps[these].T

        return tiled(len(h), len(maps), self.dimension, of)

    def _spoken(self, head: Tensor, relation: Tensor) -> Tensor:
        return mapped(self.entity(head), relation, self.map, turned(self.dimension))
