"""ComplEx: DistMult with complex numbers, so that a relation may have a direction.

    D(h, r, t) = Re ⟨h, r, t̄⟩ = Re Σ h · r · t̄            (Trouillon et al., 2016)

A vector holds the real parts and then the imaginary parts. D is linear in each of h, r and t, so all candidates
are one matrix product with a vector made of the other two.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.errors import UsageError
from doxa.scores.score import Score, rows, table
from doxa.settings import Settings


class Complex(Score):
    """D(h, r, t) = Re ⟨h, r, t̄⟩."""

    formula = "Re ⟨h, r, t̄⟩"
    default_scale = 1.0

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator) -> None:
        super().__init__(entities, relations, even(settings), generator)
        self.relation = table(relations, settings.dimension, generator)

    def make_neutral(self) -> None:
        neutral(self.relation)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        turned = product(self.entity(head), self.relation(relation))
        tails: Tensor = self.entity(tail)
        return (turned * tails).sum(-1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        return product(self.entity(head), self.relation(relation)) @ rows(self.entity, candidates).T

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return product(conjugate(self.relation(relation)), self.entity(tail)) @ rows(self.entity, candidates).T

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return product(conjugate(self.entity(head)), self.entity(tail)) @ rows(self.relation, candidates).T

    def sizes(self, vectors: Tensor) -> Tensor:
        return moduli(vectors)


def even(settings: Settings) -> Settings:
    """The settings, whose dimension must hold as many real as imaginary parts."""
    if settings.dimension % 2:
        raise UsageError(f"complex vectors need an even dimension, not {settings.dimension}")
    return settings


def neutral(table: nn.Embedding) -> None:
    """Make every coordinate the number 1."""
    with torch.no_grad():
        real, imaginary = table.weight.chunk(2, -1)
        real.fill_(1.0)
        imaginary.fill_(0.0)


def product(left: Tensor, right: Tensor) -> Tensor:
    """Complex product, coordinate by coordinate."""
    a, b = left.chunk(2, -1)
    c, d = right.chunk(2, -1)
    return torch.cat([a * c - b * d, a * d + b * c], dim=-1)


def conjugate(vectors: Tensor) -> Tensor:
    """x̄: the imaginary parts change sign."""
    real, imaginary = vectors.chunk(2, -1)
    return torch.cat([real, -imaginary], dim=-1)


def moduli(vectors: Tensor) -> Tensor:
    """|x| of every complex coordinate, (…, d) → (…, d / 2)."""
    real, imaginary = vectors.chunk(2, -1)
    return (real * real + imaginary * imaginary + 1e-20).sqrt()
