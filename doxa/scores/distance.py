"""Distances of every point to every candidate, with gradients in as few passes over the table as it takes.

    ‖p − c‖₂ = √(‖p‖² + ‖c‖² − 2 p·c),    ∂‖p − c‖₂/∂p = (p − c) / ‖p − c‖₂

The table of squares is one matrix product, (p, ‖p‖², 1) · (−2c, 1, ‖c‖²)ᵀ; with weights w = gradient / distance
the gradients are two more, w (c, 1) and wᵀ (p, 1).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROUNDING = 8
"""Squares below this many rounding errors of ‖p‖² + ‖c‖² are noise and count as that much, which also keeps the
gradient no longer than that of a distance, 1."""

SMALLEST = 1e-30
"""Least square where both vectors are zero."""


def distance(points: Tensor, candidates: Tensor, norm: int) -> Tensor:
    """(B, d), (C, d) → (B, C): L1 or L2 distance of every pair."""
    if norm == 1:
        return torch.cdist(points, candidates, p=1)
    found: Tensor = _Euclidean.apply(points, candidates)  # type: ignore[no-untyped-call]
    return found


def squared_distance(points: Tensor, candidates: Tensor) -> Tensor:
    """(B, d), (C, d) → (B, C): ‖p − c‖² of every pair, without the root and so without its care for meeting points."""
    return _square(points) + _square(candidates).T - 2 * points @ candidates.T


class _Euclidean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, candidates: Tensor) -> Tensor:
        near, far = _square(points), _square(candidates)
        left = torch.cat([points, near, points.new_ones(len(points), 1)], dim=1)
        right = torch.cat([candidates * -2, candidates.new_ones(len(candidates), 1), far], dim=1)
        table = left @ right.T
        least = ((near + far.max()) * (ROUNDING * torch.finfo(table.dtype).eps)).clamp_min(SMALLEST)
        table = torch.maximum(table, least, out=table).sqrt_()
        ctx.save_for_backward(points, candidates, table)
        return table

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        points, candidates, table = ctx.saved_tensors
        weights = gradients[0] / table
        return _pull(weights, points, candidates), _pull(weights.T, candidates, points)


def _square(vectors: Tensor) -> Tensor:
    return (vectors * vectors).sum(1, keepdim=True)


def _pull(weights: Tensor, own: Tensor, others: Tensor) -> Tensor:
    """Σⱼ wᵢⱼ (ownᵢ − otherⱼ), (B, C), (B, d), (C, d) → (B, d)."""
    summed = weights @ torch.cat([others, others.new_ones(len(others), 1)], dim=1)
    return own * summed[:, -1:] - summed[:, :-1]
