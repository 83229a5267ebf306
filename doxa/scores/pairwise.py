"""Comparisons of every point with every candidate, and how a gradient on the table of them pulls both sides.

    product    p · c                 ∂/∂p = c
    distance   ‖p − c‖₂              ∂/∂p = (p − c) / ‖p − c‖₂

A table is one matrix product, ‖p − c‖² = ‖p‖² + ‖c‖² − 2 p · c, and so is the pull on either side. A
`Compared` is a table of scores not yet made: whoever turns it into a loss may do so without keeping the table for its
gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

ROUNDING = 8
"""Squares below this many rounding errors of ‖p‖² + ‖c‖² are noise and count as that much, which also keeps the
gradient no longer than that of a distance, 1."""

SMALLEST = 1e-30
"""Least square where both vectors are zero."""


class Places(NamedTuple):
    """Rows and columns in a table of beliefs by candidates."""

    rows: Tensor
    columns: Tensor


class Comparison(Protocol):
    """One number for a point and a candidate."""

    def each(self, points: Tensor, others: Tensor) -> Tensor:
        """Of every point with the one beside it, (B, d), (B, d) → (B,), with gradients."""
        ...

    def table(self, points: Tensor, candidates: Tensor) -> Tensor:
        """(B, d), (C, d) → (B, C), outside the gradient."""
        ...

    def shares(
        self, points: Tensor, candidates: Tensor, levels: Tensor, slope: float, without: Places
    ) -> tuple[Tensor, Tensor]:
        """e = exp(level + slope · number): weights for `pull`, (B, C), and the sums of e, (B,).

        In some places e is 0. The slope is such that a higher p · c makes a larger e.
        """
        ...

    def weights(self, gradient: Tensor, table: Tensor) -> Tensor:
        """Those of a gradient on the table, which is overwritten, for `pull`."""
        ...

    def pull(self, weights: Tensor, factors: Tensor, points: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of points and candidates when that on the table is the weights' times a factor for each row.

        (B, C), (B, 1), … → (B, d), (C, d).
        """
        ...


class Product:
    """p · c. Weights are the gradient."""

    def each(self, points: Tensor, others: Tensor) -> Tensor:
        return (points * others).sum(-1)

    def table(self, points: Tensor, candidates: Tensor) -> Tensor:
        return points @ candidates.T

    def shares(
        self, points: Tensor, candidates: Tensor, levels: Tensor, slope: float, without: Places
    ) -> tuple[Tensor, Tensor]:
        from doxa.scores import kernels  # slow to load, and for learning alone

        weights, totals = _products(points, candidates, without), torch.empty_like(levels)
        kernels.shares_of_products(*_arrays(weights, levels, slope, totals))
        return weights, totals

    def weights(self, gradient: Tensor, table: Tensor) -> Tensor:
        return gradient

    def pull(self, weights: Tensor, factors: Tensor, points: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        return (weights @ candidates).mul_(factors), weights.T @ (points * factors)


class Distance:
    """d = ‖p − c‖₂. Weights are the gradient over d."""

    def each(self, points: Tensor, others: Tensor) -> Tensor:
        return lengths(points - others)

    def table(self, points: Tensor, candidates: Tensor) -> Tensor:
        near, far = _squares(points), _squares(candidates)
        table = torch.addmm(far[None], points, candidates.T, alpha=-2).add_(near[:, None])
        least = max(float(near.max() + far.max()) * _noise(near), SMALLEST) if len(far) else SMALLEST
        return table.clamp_(min=least).sqrt_()

    def shares(
        self, points: Tensor, candidates: Tensor, levels: Tensor, slope: float, without: Places
    ) -> tuple[Tensor, Tensor]:
        from doxa.scores import kernels

        weights, totals = _products(points, candidates, without), torch.empty_like(levels)
        sides = (points, candidates, _noise(points), SMALLEST)
        kernels.shares_of_distances(*_arrays(weights, *sides, levels, slope, totals))
        return weights, totals

    def weights(self, gradient: Tensor, table: Tensor) -> Tensor:
        return gradient.div_(table)

    def pull(self, weights: Tensor, factors: Tensor, points: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        of_points = (weights @ candidates).addcmul_(points, weights.sum(1, keepdim=True), value=-1).mul_(-factors)
        of_candidates = (weights.T @ (points * -factors)).addcmul_(candidates, weights.T @ factors)
        return of_points, of_candidates


def _products(points: Tensor, candidates: Tensor, without: Places) -> Tensor:
    """p · c, which is as low as can be in some places."""
    products = points @ candidates.T
    products[without.rows, without.columns] = -torch.inf
    return products


def _arrays(table: Tensor, *others: Tensor | float) -> list[Any]:
    """The same as arrays and numbers of one kind."""
    array = table.numpy()
    return [array, *(other.numpy() if isinstance(other, Tensor) else array.dtype.type(other) for other in others)]


def _noise(like: Tensor) -> float:
    """Which part of a sum of squares may be rounding."""
    return ROUNDING * torch.finfo(like.dtype).eps


PRODUCT, DISTANCE = Product(), Distance()


@dataclass(frozen=True, eq=False)
class Compared:
    """Scores offset + slope · comparison(point, candidate), (B, C), of which only the two sides exist yet."""

    points: Tensor
    candidates: Tensor
    comparison: Comparison
    slope: float = 1.0
    offset: Tensor | float = 0.0

    def scaled(self, factor: float) -> Compared:
        return replace(self, slope=self.slope * factor, offset=self.offset * factor)

    def beside(self, others: Tensor) -> Tensor:
        """The score of each point with the one of the same row, (B, d) → (B,)."""
        return self.offset + self.slope * self.comparison.each(self.points, others)

    def table(self) -> Tensor:
        """The scores, with gradients where they are wanted."""
        offset = torch.as_tensor(self.offset, dtype=self.points.dtype)
        if torch.is_grad_enabled():
            made: Tensor = _Table.apply(self.points, self.candidates, self.comparison)  # type: ignore[no-untyped-call]
            return torch.add(offset, made, alpha=self.slope)
        made = self.comparison.table(self.points, self.candidates)
        return made if self.plain else torch.add(offset, made, alpha=self.slope, out=made)

    @property
    def plain(self) -> bool:
        """Whether the comparison is the score."""
        return self.slope == 1 and not isinstance(self.offset, Tensor) and self.offset == 0


Scores = Tensor | Compared
"""A table of scores, made or not."""


def scaled(scores: Scores, factor: float) -> Scores:
    """The scores times a number; a table that takes no part in a gradient is overwritten."""
    if isinstance(scores, Compared):
        return scores.scaled(factor)
    if factor == 1:
        return scores
    return factor * scores if scores.requires_grad or not scores.is_contiguous() else scores.mul_(factor)


def table_of(scores: Scores) -> Tensor:
    """The table itself, (B, C), with gradients."""
    return scores.table() if isinstance(scores, Compared) else scores


def nearness(points: Tensor, candidates: Tensor, norm: int, alpha: Tensor) -> Scores:
    """α − ‖p − c‖ of every pair, L1 or L2, (B, d), (C, d) → (B, C)."""
    if norm == 1:
        return alpha - torch.cdist(points, candidates, p=1)
    return Compared(points, candidates, DISTANCE, -1.0, alpha)


def squared_distance(points: Tensor, candidates: Tensor) -> Tensor:
    """(B, d), (C, d) → (B, C): ‖p − c‖² of every pair, without the root and so without its care for meeting points."""
    near, far = ((vectors * vectors).sum(1, keepdim=True) for vectors in (points, candidates))
    return near + far.T - 2 * points @ candidates.T


class _Table(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, candidates: Tensor, comparison: Comparison) -> Tensor:
        table = comparison.table(points, candidates)
        ctx.comparison = comparison
        ctx.save_for_backward(points, candidates, table)
        return table

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        points, candidates, table = ctx.saved_tensors
        weights = ctx.comparison.weights(gradients[0].clone(), table)
        return *ctx.comparison.pull(weights, points.new_ones(len(points), 1), points, candidates), None


def lengths(vectors: Tensor) -> Tensor:
    """‖x‖₂ of every row, (B, d) → (B,); the gradient of a vector without length is 0."""
    found: Tensor = _Lengths.apply(vectors)  # type: ignore[no-untyped-call]
    return found


class _Lengths(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        found: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
        ctx.save_for_backward(vectors, found)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        vectors, found = ctx.saved_tensors
        pull: Tensor = vectors * (gradients[0] / found.clamp_min(SMALLEST))[..., None]
        return pull


def _squares(vectors: Tensor) -> Tensor:
    """‖x‖² of every row, (B, d) → (B,)."""
    squares: Tensor = torch.linalg.vector_norm(vectors, dim=1).square_()
    return squares
