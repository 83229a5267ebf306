"""Bilinear: a matrix per relation weights every product of a head feature and a tail feature.

    D(h, r, t) = hᵀ W_r t            (Nickel et al., 2011; Jenatton et al., 2012)

Linear in each of h, t and W_r: a query for an entity is one product with the mapped query vector, a query for a
relation one product of the outer products h tᵀ with all matrices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from doxa.scores.base import Score, ScoreOptions, Sizes, embedding, rows
from doxa.scores.matrices import identity, mapped, outer, tiled, transposed


class Bilinear(Score):
    """D(h, r, t) = hᵀ W_r t."""

    formula = "hᵀ W_r t"
    relation_tables = ("map",)
    default_scale = 1.0

    def __init__(self, sizes: Sizes, options: ScoreOptions, generator: torch.Generator | None) -> None:
        super().__init__(sizes, options, generator)
        self.map = embedding(sizes.relations, sizes.dimension**2, generator, spread=sizes.dimension**-0.5)

    def make_neutral(self) -> None:
        identity(self.map, self.dimension)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        tails: Tensor = self.entity(tail)
        return (self._mapped_heads(head, relation) * tails).sum(-1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        return self._mapped_heads(head, relation) @ rows(self.entity, candidates).T

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        return mapped(self.entity(tail), relation, self.map) @ rows(self.entity, candidates).T

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        maps = rows(self.map, candidates)

        def tile(queries: slice, columns: slice) -> Tensor:
            return outer(h[queries], t[queries]) @ maps[columns].T

        return tiled(len(h), len(maps), self.dimension, tile)

    def _mapped_heads(self, head: Tensor, relation: Tensor) -> Tensor:
        """W_rᵀ h."""
        return mapped(self.entity(head), relation, self.map, transposed(self.dimension))
