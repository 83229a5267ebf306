"""ComplEx: DistMult with complex numbers, so that a relation may have a direction.

    D(h, r, t) = Re ⟨h, r, t̄⟩ = Re Σ h · r · t̄            (Trouillon et al., 2016)

A vector holds the real parts and then the imaginary parts. D is linear in each of h, r and t, so all candidates
are one matrix product with a vector made of the other two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from doxa.errors import UsageError
from doxa.scores.base import ScoreOptions, Sizes, Triple, VectorScore
from doxa.scores.pairwise import Products
from doxa.slots import Slot

TINY = 1e-20
"""Added to squared moduli, so that the modulus of 0 has a derivative."""


class Complex(VectorScore):
    """D(h, r, t) = Re ⟨h, r, t̄⟩."""

    formula = "Re ⟨h, r, t̄⟩"
    default_scale = 1.0

    def __init__(self, sizes: Sizes, options: ScoreOptions, generator: torch.Generator | None) -> None:
        super().__init__(even(sizes), options, generator)

    def make_neutral(self) -> None:
        neutral(self.relation)

    def each(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return (product(h, r) * t).sum(-1)

    def pairs(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Products:
        return Products(self.target(slot, h, r, t), candidates)

    @property
    def entity_metric(self) -> str:
        return "product"

    def target(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        match slot:
            case Slot.HEAD:
                return product_with_conjugate(t, r, self.training)
            case Slot.RELATION:
                return product_with_conjugate(t, h, self.training)
            case Slot.TAIL:
                return product(h, r, self.training)

    def end_to_end(self, tables: Sequence[Tensor]) -> Tensor:
        real, imaginary = zip(*(table.chunk(2, 1) for table in tables), strict=True)
        return torch.cat([*real, *imaginary], dim=1)

    @property
    def by_hand(self) -> bool:
        return True

    def pull(self, slot: Slot, vectors: Triple, of_points: Tensor, sums: Triple) -> None:
        pull_product(slot, vectors, of_points, sums)

    def add_cubes(self, vectors: Tensor, factor: float, gradient: Tensor) -> float:
        from doxa.scores import gradient_kernels

        rows, kind = vectors.numpy(), vectors.numpy().dtype.type
        return float(gradient_kernels.add_modulus_cubes(rows, kind(factor), gradient.numpy(), kind(TINY)))

    def cubes(self, rows: Sequence[Tensor]) -> Tensor:
        return torch.stack([modulus_cubes(row) for row in rows]).sum(0)


def even(sizes: Sizes) -> Sizes:
    """The sizes, whose dimension must hold as many real as imaginary parts."""
    if sizes.dimension % 2:
        raise UsageError(f"complex vectors need an even dimension, not {sizes.dimension}")
    return sizes


def neutral(table: nn.Embedding) -> None:
    """Make every coordinate the number 1."""
    with torch.no_grad():
        real, imaginary = table.weight.chunk(2, -1)
        real.fill_(1.0)
        imaginary.fill_(0.0)


def product(left: Tensor, right: Tensor, compiled: bool = False) -> Tensor:
    """x · y, coordinate by coordinate, (B, d), (B, d) → (B, d)."""
    return _product(left, right, 1, compiled)


def product_with_conjugate(left: Tensor, right: Tensor, compiled: bool = False) -> Tensor:
    """x · ȳ, coordinate by coordinate."""
    return _product(left, right, -1, compiled)


def _product(left: Tensor, right: Tensor, sign: int, compiled: bool) -> Tensor:
    """x · y for sign 1, x · ȳ for sign −1; compiled loops are slow to load, and for training alone."""
    if torch.is_grad_enabled() and (left.requires_grad or right.requires_grad):
        made: Tensor = _Product.apply(*torch.broadcast_tensors(left, right), sign)  # type: ignore[no-untyped-call]
        return made
    if compiled:
        return _multiplied(left, right, sign)
    (a, b), (c, d) = left.chunk(2, -1), right.chunk(2, -1)
    return torch.cat([a * c - sign * b * d, b * c + sign * a * d], dim=-1)


def pull_product(slot: Slot, vectors: Triple, of_points: Tensor, sums: Triple) -> None:
    """Add the gradients g ȳ and g x̄ of x · y (tail), g y and x ḡ of x · ȳ (head: x = t, y = r; relation: y = h)."""
    if slot is Slot.TAIL:
        _add_product(of_points, vectors.relation, -1, sums.head)
        _add_product(of_points, vectors.head, -1, sums.relation)
        return
    other = Slot.RELATION if slot is Slot.HEAD else Slot.HEAD
    _add_product(of_points, vectors[other], 1, sums.tail)
    _add_product(vectors.tail, of_points, -1, sums[other])


def _add_product(left: Tensor, right: Tensor, sign: int, sums: Tensor) -> None:
    from doxa.scores import gradient_kernels

    arrays = left.numpy(), right.numpy(), sums.numpy()
    gradient_kernels.add_multiplied(*arrays, arrays[0].dtype.type(sign))


class _Product(torch.autograd.Function):
    """The same with gradients. The gradient g of the product gives g ȳ and g x̄ for x · y, g y and x ḡ for x · ȳ."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, sign: int) -> Tensor:
        ctx.save_for_backward(left, right)
        ctx.sign = sign
        return _multiplied(left, right, sign)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        left, right = ctx.saved_tensors
        gradient, sign = gradients[0], ctx.sign
        if sign > 0:
            return _multiplied(gradient, right, -1), _multiplied(gradient, left, -1), None
        return _multiplied(gradient, right, 1), _multiplied(left, gradient, -1), None


def _multiplied(left: Tensor, right: Tensor, sign: int) -> Tensor:
    from doxa.scores import kernels  # slow to load, and for training alone

    made = torch.empty_like(left, memory_format=torch.contiguous_format)
    x, y, xy = (each.detach().contiguous().view(-1, each.shape[-1]).numpy() for each in (left, right, made))
    kernels.multiply(x, y, xy, xy.dtype.type(sign))
    return made


def moduli(vectors: Tensor) -> Tensor:
    """|x| of every complex coordinate, (…, d) → (…, d / 2)."""
    real, imaginary = vectors.chunk(2, -1)
    return (real * real + imaginary * imaginary + TINY).sqrt()


def modulus_cubes(vectors: Tensor) -> Tensor:
    """Σ |x|³ of every row, (B, d) → (B,)."""
    made: Tensor = _Cubes.apply(vectors)  # type: ignore[no-untyped-call]
    return made


class _Cubes(torch.autograd.Function):
    """Σ |x|³, whose gradient is 3 |x| x."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        sizes = moduli(vectors)
        ctx.save_for_backward(vectors, sizes)
        return (sizes * sizes).mul_(sizes).sum(-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        vectors, sizes = ctx.saved_tensors
        each = sizes * (3 * gradients[0])[..., None]
        gradient: Tensor = vectors * torch.cat([each, each], dim=-1)
        return gradient
