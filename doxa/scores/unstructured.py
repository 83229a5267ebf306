"""Unstructured: entities that occur together lie together, whatever the relation.

    D(h, r, t) = −‖h − t‖²            (Bordes et al., 2012)

Blind to the relation and to its direction.
"""

from __future__ import annotations

from torch import Tensor

from doxa.scores.base import Score, rows
from doxa.scores.pairwise import squared_distances


class Unstructured(Score):
    """D(h, r, t) = −‖h − t‖²."""

    formula = "−‖h − t‖²"
    relation_tables = ()
    default_scale = 1.0
    tells_relations = False

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return self._together(head, tail)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        return -squared_distances(self.entity(head), rows(self.entity, candidates))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        return self.tails(tail, relation, candidates)

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        width = self.relation_count if candidates is None else len(candidates)
        return self._together(head, tail)[:, None].expand(-1, width)

    def _together(self, head: Tensor, tail: Tensor) -> Tensor:
        gap: Tensor = self.entity(head) - self.entity(tail)
        return -(gap * gap).sum(-1)
