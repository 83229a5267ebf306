"""Structured: each relation maps head and tail with a matrix of its own for each, and compares the images.

    D(h, r, t) = −‖W_rh h − W_rt t‖₁            (structured embedding or distance model; Bordes et al., 2011)

Candidates are mapped once per distinct relation of the queries.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.scores.base import Score, ScoreOptions, Sizes, embedding, rows
from doxa.scores.matrices import as_matrices, by_relation, identity, mapped, tiled


class Structured(Score):
    """D(h, r, t) = −‖W_rh h − W_rt t‖₁."""

    formula = "−‖W_rh h − W_rt t‖₁"
    relation_tables = ("head_map", "tail_map")
    default_scale = 1.0

    def __init__(self, sizes: Sizes, options: ScoreOptions, generator: torch.Generator | None) -> None:
        super().__init__(sizes, options, generator)
        self.head_map = embedding(sizes.relations, self.dimension**2, generator, self.dimension**-0.5)
        self.tail_map = embedding(sizes.relations, self.dimension**2, generator, self.dimension**-0.5)

    def make_neutral(self) -> None:
        identity(self.head_map, self.dimension)
        identity(self.tail_map, self.dimension)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        mapped_head = mapped(self.entity(head), relation, self.head_map)
        mapped_tail = mapped(self.entity(tail), relation, self.tail_map)
        return -(mapped_head - mapped_tail).abs().sum(-1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        points = mapped(self.entity(head), relation, self.head_map)
        return self._near(points, relation, self.tail_map, rows(self.entity, candidates))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        points = mapped(self.entity(tail), relation, self.tail_map)
        return self._near(points, relation, self.head_map, rows(self.entity, candidates))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        heads, tails = (as_matrices(self.dimension)(rows(maps, candidates)) for maps in (self.head_map, self.tail_map))

        def tile(queries: slice, columns: slice) -> Tensor:
            gaps: Tensor = h[queries] @ heads[columns].flatten(0, 1).T - t[queries] @ tails[columns].flatten(0, 1).T
            return -gaps.abs().view(len(gaps), len(heads[columns]), self.dimension).sum(-1)

        return tiled(len(h), len(heads), self.dimension, tile)

    def _near(self, points: Tensor, relation: Tensor, maps: nn.Embedding, candidates: Tensor) -> Tensor:
        def of_relation(matrix: Tensor, targets: Tensor) -> Tensor:
            return -torch.cdist(targets, candidates @ matrix.T, p=1)

        return by_relation(relation, maps, as_matrices(self.dimension), of_relation, points)
