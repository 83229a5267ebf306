"""RotatE: a relation turns the head, coordinate by coordinate, onto the tail.

    D(h, r, t) = α − ‖h ∘ r − t‖,   |r| = 1 in every complex coordinate            (Sun et al., 2019)

A relation's row is scaled to unit coordinates when used. Turning keeps lengths: asking for a head turns the tail back,
and ‖h ∘ r − t‖² = ‖h‖² + ‖t‖² − 2 Re ⟨h, r, t̄⟩ is linear in r.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.config import Settings
from doxa.scores.base import VectorScore
from doxa.scores.complex import even, moduli, neutral, product, product_with_conjugate
from doxa.scores.pairwise import ROUNDING, SMALLEST, Scores, lengths, nearness


class Rotate(VectorScore):
    """D(h, r, t) = α − ‖h ∘ r − t‖ with unit complex coordinates of r."""

    formula = "α − ‖h ∘ r − t‖,  |r| = 1"

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator | None) -> None:
        super().__init__(entities, relations, even(settings), generator)
        self.alpha = nn.Parameter(torch.tensor(float(settings.alpha)), requires_grad=settings.learns_alpha)

    def make_neutral(self) -> None:
        neutral(self.relation)

    def each(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return self.alpha - lengths(product(h, unit(r)) - t)

    def with_tails(self, h: Tensor, r: Tensor, tails: Tensor) -> Scores:
        return nearness(product(h, unit(r)), tails, 2, self.alpha)

    def with_heads(self, r: Tensor, t: Tensor, heads: Tensor) -> Scores:
        return nearness(product_with_conjugate(t, unit(r)), heads, 2, self.alpha)

    def with_relations(self, h: Tensor, t: Tensor, relations: Tensor) -> Tensor:
        sizes = (h * h).sum(-1, keepdim=True) + (t * t).sum(-1, keepdim=True)
        squares = sizes - 2 * product_with_conjugate(t, h) @ unit(relations).T
        least = (sizes.detach() * ROUNDING * torch.finfo(sizes.dtype).eps).clamp_min(SMALLEST)
        return self.alpha - torch.maximum(squares, least).sqrt()


def unit(vectors: Tensor) -> Tensor:
    """Every complex coordinate divided by its modulus."""
    return vectors / moduli(vectors).repeat(*[1] * (vectors.dim() - 1), 2)
