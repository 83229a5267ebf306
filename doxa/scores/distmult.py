"""DistMult: a relation weighs, coordinate by coordinate, how far head and tail agree.

    D(h, r, t) = Σ h · r · t            (Yang et al., 2015)

Symmetric: it cannot tell ⟨h, r, t⟩ from ⟨t, r, h⟩.
"""

from __future__ import annotations

from torch import Tensor, nn

from doxa.scores.base import VectorScore
from doxa.scores.pairwise import PRODUCT, Compared


class DistMult(VectorScore):
    """D(h, r, t) = Σ h · r · t."""

    formula = "Σ h · r · t"
    default_scale = 1.0

    def make_neutral(self) -> None:
        nn.init.ones_(self.relation.weight)

    def each(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return (h * r * t).sum(-1)

    def with_tails(self, h: Tensor, r: Tensor, tails: Tensor) -> Compared:
        return Compared(h * r, tails, PRODUCT)

    def with_heads(self, r: Tensor, t: Tensor, heads: Tensor) -> Compared:
        return Compared(r * t, heads, PRODUCT)

    def with_relations(self, h: Tensor, t: Tensor, relations: Tensor) -> Compared:
        return Compared(h * t, relations, PRODUCT)
