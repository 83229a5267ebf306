"""DistMult: a relation weights, coordinate by coordinate, how far head and tail agree.

    D(h, r, t) = Σ h · r · t            (Yang et al., 2015)

Symmetric: it cannot tell ⟨h, r, t⟩ from ⟨t, r, h⟩.
"""

from __future__ import annotations

from torch import Tensor, nn

from doxa.scores.base import Triple, VectorScore
from doxa.scores.pairwise import Products
from doxa.slots import Slot


class DistMult(VectorScore):
    """D(h, r, t) = Σ h · r · t."""

    formula = "Σ h · r · t"
    default_scale = 1.0

    def make_neutral(self) -> None:
        nn.init.ones_(self.relation.weight)

    def each(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return (h * r * t).sum(-1)

    def pairs(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Products:
        return Products(self.target(slot, h, r, t), candidates)

    @property
    def entity_metric(self) -> str:
        return "product"

    def target(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        match slot:
            case Slot.HEAD:
                return r * t
            case Slot.RELATION:
                return h * t
            case Slot.TAIL:
                return h * r

    @property
    def by_hand(self) -> bool:
        return True

    def pull(self, slot: Slot, vectors: Triple, of_points: Tensor, sums: Triple) -> None:
        first, second = (other for other in Slot if other is not slot)
        sums[first].addcmul_(of_points, vectors[second])
        sums[second].addcmul_(of_points, vectors[first])
