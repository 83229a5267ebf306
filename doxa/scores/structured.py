"""Structured: each relation looks at head and tail through a matrix of its own for each, and compares what it sees.

    D(h, r, t) = −‖W_rh h − W_rt t‖₁            (structured embedding or distance model; Bordes et al., 2011)

Candidates are mapped once per distinct relation of the questions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.config import Settings
from doxa.scores.base import Score, rows, table
from doxa.scores.matrices import by_relation, identity, mapped, plain, tiled


class Structured(Score):
    """D(h, r, t) = −‖W_rh h − W_rt t‖₁."""

    formula = "−‖W_rh h − W_rt t‖₁"
    relation_tables = ("head_map", "tail_map")
    default_scale = 1.0

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator | None) -> None:
        super().__init__(entities, relations, settings, generator)
        width = settings.dimension
        self.head_map = table(relations, width * width, generator, spread=width**-0.5)
        self.tail_map = table(relations, width * width, generator, spread=width**-0.5)

    def make_neutral(self) -> None:
        identity(self.head_map, self.dimension)
        identity(self.tail_map, self.dimension)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        seen_head = mapped(self.entity(head), relation, self.head_map)
        seen_tail = mapped(self.entity(tail), relation, self.tail_map)
        return -(seen_head - seen_tail).abs().sum(-1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        points = mapped(self.entity(head), relation, self.head_map)
        return self._near(points, relation, self.tail_map, rows(self.entity, candidates))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        points = mapped(self.entity(tail), relation, self.tail_map)
        return self._near(points, relation, self.head_map, rows(self.entity, candidates))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        heads, tails = (plain(self.dimension)(rows(maps, candidates)) for maps in (self.head_map, self.tail_map))

        def near(some: slice, these: slice) -> Tensor:
            gaps: Tensor = h[some] @ heads[these].flatten(0, 1).T - t[some] @ tails[these].flatten(0, 1).T
            return -gaps.abs().view(len(gaps), len(heads[these]), self.dimension).sum(-1)

        return tiled(len(h), len(heads), self.dimension, near)

    def _near(self, points: Tensor, relation: Tensor, maps: nn.Embedding, others: Tensor) -> Tensor:
        def of_relation(matrix: Tensor, own: Tensor) -> Tensor:
            return -torch.cdist(own, others @ matrix.T, p=1)

        return by_relation(relation, maps, plain(self.dimension), of_relation, points)
