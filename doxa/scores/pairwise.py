"""Scores of all pairs of points and candidates: value and gradient side by side.

    product    p · c                 ∂/∂p = c                      ∂/∂c = p
    distance   ‖p − c‖₂              ∂/∂p = (p − c) / ‖p − c‖₂     ∂/∂c = (c − p) / ‖p − c‖₂

All pairs are one matrix product, ‖p − c‖² = ‖p‖² + ‖c‖² − 2 p · c, and so is the gradient of either side. `PairScores`
holds both sides of a table that is not computed yet: an estimator can fuse the table with its loss and its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ROUNDING = 8
"""Squared distances below this many rounding errors of ‖p‖² + ‖c‖² are noise and count as that much. The bound also
keeps the gradient from exceeding 1, that of a distance."""

SMALLEST = 1e-30
"""Least squared distance where both vectors are zero."""


Floats = NDArray[np.floating[Any]]


class Places(NamedTuple):
    """Rows and columns in a table of beliefs by candidates."""

    rows: Tensor
    columns: Tensor


class Exponentials(NamedTuple):
    """A compiled kernel, its arguments, and the two arrays it fills: weights (B, C) and totals (B,)."""

    kernel: Callable[..., None]
    arrays: list[Any]
    weights: Tensor
    totals: Tensor


class Pulled(NamedTuple):
    """A loss over all pairs, and its gradients by points, (B, d), and by ½ `Turns.squares`, (B,)."""

    loss: float
    points: Tensor
    half_squares: Tensor | None = None


@dataclass(frozen=True, eq=False)
class PairScores:
    """Scores offset + slope · f(point, candidate), (B, C), of points (B, d) and candidates (C, d)."""

    points: Tensor
    candidates: Tensor
    slope: float = 1.0
    offset: Tensor | float = 0.0

    def scaled(self, factor: float, shift: float = 0.0) -> PairScores:
        return replace(self, slope=self.slope * factor, offset=self.offset * factor + shift)

    def table(self) -> Tensor:
        """All scores, (B, C), with gradients where they are wanted."""
        if torch.is_grad_enabled():
            values: Tensor = _Table.apply(self.points, self.candidates, type(self))  # type: ignore[no-untyped-call]
            return torch.add(self._offset, values, alpha=self.slope)
        values = self.values(self.points, self.candidates)
        return values if self._plain else torch.add(self._offset, values, alpha=self.slope, out=values)

    @property
    def _offset(self) -> Tensor:
        return torch.as_tensor(self.offset, dtype=self.points.dtype)

    @property
    def _plain(self) -> bool:
        """Whether f itself is the score."""
        return self.slope == 1 and not isinstance(self.offset, Tensor) and self.offset == 0

    @staticmethod
    def values(points: Tensor, candidates: Tensor) -> Tensor:
        """f of all pairs, (B, d), (C, d) → (B, C), outside the gradient."""
        raise NotImplementedError

    def exponentials(self, levels: Tensor, without: Places) -> Exponentials:
        """The kernel of e = exp(level + slope · f): one pass makes weights for `pull`, (B, C), and sums of e, (B,).

        At the places `without`, e is 0. The slope is such that a larger p · c makes a larger e.
        """
        raise NotImplementedError

    def each(self, rows: Tensor) -> Floats:
        """The score of each point with the candidate of its row, (B, d) → (B,). No autograd."""
        raise NotImplementedError

    def pull_each(self, factors: Floats, rows: Tensor, of_points: Tensor, of_rows: Tensor) -> None:
        """Add the gradients of points and rows from the derivative of the loss by f of each, (B,)."""
        raise NotImplementedError

    def log_loss(
        self, truth: Floats, without: Places, weights: Floats, by_truth: Floats, of_candidates: Tensor
    ) -> Pulled:
        """− Σ weight · log p for p = exp(truth) / (exp(truth) + Σ exp(score)), with its gradients. No autograd.

        The gradient of the candidates is written to `of_candidates`, (C, d), and the derivative by the truth's score is
        added to `by_truth`, (B,).
        """
        raise NotImplementedError

    @staticmethod
    def weights(gradient: Tensor, values: Tensor) -> Tensor:
        """Turn the gradient of the table into weights for `pull`, in place."""
        raise NotImplementedError

    @staticmethod
    def pull(weights: Tensor, factors: Tensor, points: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of points and candidates, (B, d) and (C, d), from weights (B, C) times a factor per row (B, 1)."""
        raise NotImplementedError


class Products(PairScores):
    """f = p · c. The weights are the gradient of the table."""

    @staticmethod
    def values(points: Tensor, candidates: Tensor) -> Tensor:
        return points @ candidates.T

    def exponentials(self, levels: Tensor, without: Places) -> Exponentials:
        from doxa.scores import kernels  # slow to load, and for training alone

        weights, totals = _products(self.points, self.candidates, without), torch.empty_like(levels)
        arrays = _arrays(weights, levels, self.slope, totals)
        return Exponentials(kernels.exponentials_of_products, arrays, weights, totals)

    def each(self, rows: Tensor) -> Floats:
        from doxa.scores import gradient_kernels

        return _affine(self, gradient_kernels.products(self.points.numpy(), rows.numpy()))

    def pull_each(self, factors: Floats, rows: Tensor, of_points: Tensor, of_rows: Tensor) -> None:
        from doxa.scores import gradient_kernels

        sides = (each.numpy() for each in (self.points, rows, of_points, of_rows))
        gradient_kernels.add_derivatives_of_products(factors, *sides)

    def log_loss(
        self, truth: Floats, without: Places, weights: Floats, by_truth: Floats, of_candidates: Tensor
    ) -> Pulled:
        from doxa.scores import gradient_kernels

        of_points = torch.empty_like(self.points)
        others = (*without, truth, self.slope, float(self.offset), weights, by_truth, of_points, of_candidates)
        loss = gradient_kernels.softmax_of_products(*_arrays(self.points, self.candidates, *others))
        return Pulled(loss, of_points)

    @staticmethod
    def weights(gradient: Tensor, values: Tensor) -> Tensor:
        return gradient

    @staticmethod
    def pull(weights: Tensor, factors: Tensor, points: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        return (weights @ candidates).mul_(factors), weights.T @ (points * factors)


class Distances(PairScores):
    """f = ‖p − c‖₂. The weights are the gradient of the table divided by the distance."""

    @staticmethod
    def values(points: Tensor, candidates: Tensor) -> Tensor:
        near, far = _squares(points), _squares(candidates)
        table = torch.addmm(far[None], points, candidates.T, alpha=-2).add_(near[:, None])
        least = max(float(near.max() + far.max()) * _noise(near), SMALLEST) if len(far) else SMALLEST
        return table.clamp_(min=least).sqrt_()

    def exponentials(self, levels: Tensor, without: Places) -> Exponentials:
        from doxa.scores import kernels

        weights, totals = _products(self.points, self.candidates, without), torch.empty_like(levels)
        sides = (self.points, self.candidates, _noise(self.points), SMALLEST)
        arrays = _arrays(weights, *sides, levels, self.slope, totals)
        return Exponentials(kernels.exponentials_of_distances, arrays, weights, totals)

    def each(self, rows: Tensor) -> Floats:
        from doxa.scores import gradient_kernels

        return _affine(self, gradient_kernels.distances(self.points.numpy(), rows.numpy()))

    def pull_each(self, factors: Floats, rows: Tensor, of_points: Tensor, of_rows: Tensor) -> None:
        from doxa.scores import gradient_kernels

        sides = (each.numpy() for each in (self.points, rows, of_points, of_rows))
        gradient_kernels.add_derivatives_of_distances(factors, *sides, factors.dtype.type(SMALLEST))

    def log_loss(
        self, truth: Floats, without: Places, weights: Floats, by_truth: Floats, of_candidates: Tensor
    ) -> Pulled:
        from doxa.scores import gradient_kernels

        of_points = torch.empty_like(self.points)
        others = (*without, truth, self.slope, float(self.offset), weights, by_truth, of_points, of_candidates)
        bounds = (_noise(self.points), SMALLEST)
        loss = gradient_kernels.softmax_of_distances(*_arrays(self.points, self.candidates, *others, *bounds))
        return Pulled(loss, of_points)

    @staticmethod
    def weights(gradient: Tensor, values: Tensor) -> Tensor:
        return gradient.div_(values)

    @staticmethod
    def pull(weights: Tensor, factors: Tensor, points: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        of_points = (weights @ candidates).addcmul_(points, weights.sum(1, keepdim=True), value=-1).mul_(-factors)
        of_candidates = (weights.T @ (points * -factors)).addcmul_(candidates, weights.T @ factors)
        return of_points, of_candidates


@dataclass(frozen=True, eq=False)
class Turns(PairScores):
    """f = ‖h ∘ c − t‖₂ for candidates with unit complex coordinates: f² = `squares` − 2 p · c.

    The points are p = t h̄, and `squares` are ‖h‖² + ‖t‖², (B,).
    """

    squares: Tensor = field(kw_only=True)

    def table(self) -> Tensor:
        squares = self.squares[:, None] - 2 * self.points @ self.candidates.T
        least = (self.squares.detach() * _noise(self.squares)).clamp_min(SMALLEST)
        return torch.add(self._offset, torch.maximum(squares, least[:, None]).sqrt(), alpha=self.slope)

    def log_loss(
        self, truth: Floats, without: Places, weights: Floats, by_truth: Floats, of_candidates: Tensor
    ) -> Pulled:
        from doxa.scores import gradient_kernels

        of_points, far = torch.empty_like(self.points), self.points.new_zeros(len(self.candidates))
        others = (*without, truth, self.slope, float(self.offset), weights, by_truth, of_points, of_candidates)
        roots = (self.squares, far, _noise(self.points), SMALLEST)
        arrays = _arrays(self.points, self.candidates, *others, *roots)
        loss, of_squares, _ = gradient_kernels.softmax_of_roots(*arrays)
        return Pulled(loss, of_points, torch.from_numpy(of_squares))


Scores = Tensor | PairScores
"""A table of scores, (B, C), or the two sides it is computed from."""


def scaled(scores: Scores, factor: float) -> Scores:
    """The scores times a number; a table outside the gradient is overwritten."""
    if isinstance(scores, PairScores):
        return scores.scaled(factor)
    if factor == 1:
        return scores
    return factor * scores if scores.requires_grad or not scores.is_contiguous() else scores.mul_(factor)


def shifted(scores: Scores, amount: float) -> Scores:
    """The scores plus a number."""
    if not amount:
        return scores
    return scores.scaled(1.0, amount) if isinstance(scores, PairScores) else scores + amount


def table_of(scores: Scores) -> Tensor:
    """The table itself, (B, C), with gradients."""
    return scores.table() if isinstance(scores, PairScores) else scores


def nearness(points: Tensor, candidates: Tensor, norm: int, alpha: Tensor) -> Scores:
    """α − ‖p − c‖ of all pairs, L1 or L2, (B, d), (C, d) → (B, C)."""
    if norm == 1:
        return alpha - torch.cdist(points, candidates, p=1)
    return Distances(points, candidates, -1.0, alpha)


def squared_distances(points: Tensor, candidates: Tensor) -> Tensor:
    """‖p − c‖² of all pairs, (B, d), (C, d) → (B, C); its gradient needs no care where points meet."""
    near, far = ((vectors * vectors).sum(1, keepdim=True) for vectors in (points, candidates))
    return near + far.T - 2 * points @ candidates.T


def lengths(vectors: Tensor) -> Tensor:
    """‖x‖₂ of every row, (B, d) → (B,); the gradient of a zero vector is 0."""
    norms: Tensor = _Lengths.apply(vectors)  # type: ignore[no-untyped-call]
    return norms


def row_distances(points: Tensor, candidates: Tensor) -> Tensor:
    """‖p − c‖₂ of every point with the candidates of its row, (B, d), (B, k, d) → (B, k)."""
    distances: Tensor = _RowDistances.apply(points, candidates)  # type: ignore[no-untyped-call]
    return distances


class _RowDistances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, candidates: Tensor) -> Tensor:
        from doxa.scores import gradient_kernels  # slow to load, and for training alone

        points, candidates = points.contiguous(), candidates.contiguous()
        distances = points.new_empty(candidates.shape[:2])
        gradient_kernels.row_distances(points.numpy(), candidates.numpy(), distances.numpy())
        ctx.save_for_backward(points, candidates, distances)
        return distances

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        from doxa.scores import gradient_kernels

        points, candidates, distances = ctx.saved_tensors
        weights = torch.where(distances > 0, gradients[0] / distances, 0.0)
        of_points, of_candidates = torch.empty_like(points), torch.empty_like(candidates)
        arrays = [each.numpy() for each in (points, candidates, weights, of_points, of_candidates)]
        gradient_kernels.pull_row_distances(*arrays)
        return of_points, of_candidates


class _Table(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, candidates: Tensor, kind: type[PairScores]) -> Tensor:
        values = kind.values(points, candidates)
        ctx.kind = kind
        ctx.save_for_backward(points, candidates, values)
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        points, candidates, values = ctx.saved_tensors
        weights = ctx.kind.weights(gradients[0].clone(), values)
        return *ctx.kind.pull(weights, points.new_ones(len(points), 1), points, candidates), None


class _Lengths(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
        ctx.save_for_backward(vectors, norms)
        return norms

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        vectors, norms = ctx.saved_tensors
        gradient: Tensor = vectors * (gradients[0] / norms.clamp_min(SMALLEST))[..., None]
        return gradient


def _products(points: Tensor, candidates: Tensor, without: Places) -> Tensor:
    """p · c of all pairs, −∞ at the places left out."""
    products = points @ candidates.T
    products[without.rows, without.columns] = -torch.inf
    return products


def _affine(scores: PairScores, values: Floats) -> Floats:
    """offset + slope · f, in place."""
    values *= scores.slope
    values += float(scores.offset)
    return values


def _arrays(table: Tensor, *others: Tensor | Floats | float) -> list[Any]:
    """Tensors as arrays and numbers in the type of the table, for the kernels."""
    array = table.numpy()
    return [array, *(_argument(other, array.dtype.type) for other in others)]


def _argument(value: Tensor | Floats | float, number: type[Any]) -> Any:
    if isinstance(value, Tensor):
        return value.numpy()
    return value if isinstance(value, np.ndarray) else number(value)


def _noise(like: Tensor) -> float:
    """The share of a sum of squares that may be rounding."""
    return ROUNDING * torch.finfo(like.dtype).eps


def _squares(vectors: Tensor) -> Tensor:
    """‖x‖² of every row, (B, d) → (B,)."""
    squares: Tensor = torch.linalg.vector_norm(vectors, dim=1).square_()
    return squares
