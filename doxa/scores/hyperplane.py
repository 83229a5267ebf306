"""Hyperplane: a relation is a step within its own hyperplane, onto which head and tail are projected first.

    D(h, r, t) = −‖h⊥ + d − t⊥‖²,   x⊥ = x − (w·x) w,   ‖w‖ = 1            (TransH; Wang et al., 2014)

w is normalized when used. With u = h − t every part that depends on a candidate is linear in it or a square: all
candidates are two matrix products. A soft constraint keeps the step d within the hyperplane.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from doxa.config import setting
from doxa.scores.base import Score, ScoreOptions, Sizes, embedding, rows

TOLERANCE = 1e-3
"""ε of the soft constraint: the cosine of d and w that is not penalized (Wang et al., 2014)."""


@dataclass(frozen=True)
class HyperplaneOptions(ScoreOptions):
    """Options of the hyperplane score."""

    orthogonality: float = setting(0.0, "Weight of the soft constraint that steps lie in their hyperplanes.", low=0)


class Hyperplane(Score):
    """D(h, r, t) = −‖h⊥ + d − t⊥‖² with x⊥ = x − (w·x) w."""

    formula = "−‖h⊥ + d_r − t⊥‖²"
    Options = HyperplaneOptions
    relation_tables = ("relation", "normal")
    default_scale = 1.0

    def __init__(self, sizes: Sizes, options: HyperplaneOptions, generator: torch.Generator | None) -> None:
        super().__init__(sizes, options, generator)
        self.orthogonality = options.orthogonality
        self.relation = embedding(sizes.relations, sizes.dimension, generator)
        self.normal = embedding(sizes.relations, sizes.dimension, generator)

    def make_neutral(self) -> None:
        nn.init.zeros_(self.relation.weight)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        step: Tensor = self.relation(relation)
        gap = projected(self.entity(head) - self.entity(tail), self._normals(relation)) + step
        return -(gap * gap).sum(-1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        normals = self._normals(relation)
        points = projected(self.entity(head), normals) + self.relation(relation)
        return self._near(points, normals, rows(self.entity, candidates))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        normals = self._normals(relation)
        points = projected(self.entity(tail), normals) - self.relation(relation)
        return self._near(points, normals, rows(self.entity, candidates))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        """−‖u⊥ + d‖² with ‖u⊥ + d‖² = ‖u‖² − (w·u)² + ‖d‖² + 2 d·u − 2 (w·u)(w·d)."""
        gap: Tensor = self.entity(head) - self.entity(tail)
        steps, normals = rows(self.relation, candidates), self._normals(candidates)
        along = gap @ normals.T
        slants = (steps * normals).sum(-1)
        sizes = (gap * gap).sum(-1, keepdim=True) + (steps * steps).sum(-1)
        return along * (along + 2 * slants) - sizes - 2 * gap @ steps.T

    def penalty(self, relation: Tensor) -> Tensor | None:
        """orthogonality · [cos²(d, w) − ε²]₊: the soft constraint that d lies within the hyperplane."""
        if not self.orthogonality:
            return None
        cosine = (normalize(self.relation(relation), dim=-1) * self._normals(relation)).sum(-1)
        return self.orthogonality * (cosine * cosine - TOLERANCE**2).clamp_min(0)

    def _normals(self, relation: Tensor | None) -> Tensor:
        return normalize(rows(self.normal, relation), dim=-1)

    def _near(self, points: Tensor, normals: Tensor, candidates: Tensor) -> Tensor:
        """−‖p − c⊥‖² = 2 (p·c − (w·c)(p·w)) − ‖p‖² − ‖c‖² + (w·c)² of all pairs."""
        along = normals @ candidates.T
        raised = (points * normals).sum(-1, keepdim=True)
        sizes = (points * points).sum(-1, keepdim=True) + (candidates * candidates).sum(-1)
        return 2 * points @ candidates.T + along * (along - 2 * raised) - sizes


def projected(vectors: Tensor, normals: Tensor) -> Tensor:
    """x⊥ = x − (w·x) w for unit normals w."""
    return vectors - (vectors * normals).sum(-1, keepdim=True) * normals
