"""RotatE: a relation turns the head, coordinate by coordinate, onto the tail.

    D(h, r, t) = α − ‖h ∘ r − t‖,   |r| = 1 in every complex coordinate            (Sun et al., 2019)

A relation's row is scaled to unit coordinates when used. Turning keeps lengths: asking for a head turns the tail back,
and ‖h ∘ r − t‖² = ‖h‖² + ‖t‖² − 2 Re ⟨h, r, t̄⟩ is linear in r.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.scores.complex import conjugate, even, moduli, neutral, product
from doxa.scores.distance import ROUNDING, SMALLEST, distance
from doxa.scores.score import Score, rows, table
from doxa.settings import Settings


class Rotate(Score):
    """D(h, r, t) = α − ‖h ∘ r − t‖ with unit complex coordinates of r."""

    formula = "α − ‖h ∘ r − t‖,  |r| = 1"

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator) -> None:
        super().__init__(entities, relations, even(settings), generator)
        self.relation = table(relations, settings.dimension, generator)
        self.alpha = nn.Parameter(torch.tensor(float(settings.alpha)), requires_grad=settings.learns_alpha)

    def make_neutral(self) -> None:
        neutral(self.relation)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        gap = product(self.entity(head), unit(self.relation(relation))) - self.entity(tail)
        length: Tensor = torch.linalg.vector_norm(gap, dim=-1)
        return self.alpha - length

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        turned = product(self.entity(head), unit(self.relation(relation)))
        return self.alpha - distance(turned, rows(self.entity, candidates), norm=2)

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        turned_back = product(conjugate(unit(self.relation(relation))), self.entity(tail))
        return self.alpha - distance(turned_back, rows(self.entity, candidates), norm=2)

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        sizes = (h * h).sum(-1, keepdim=True) + (t * t).sum(-1, keepdim=True)
        squares = sizes - 2 * product(conjugate(h), t) @ unit(rows(self.relation, candidates)).T
        least = (sizes.detach() * ROUNDING * torch.finfo(sizes.dtype).eps).clamp_min(SMALLEST)
        return self.alpha - torch.maximum(squares, least).sqrt()


def unit(vectors: Tensor) -> Tensor:
    """Every complex coordinate divided by its modulus."""
    return vectors / moduli(vectors).repeat(*[1] * (vectors.dim() - 1), 2)
