"""Relations as matrices: each relation has its own, one row of a table, and maps vectors with it.

Questions that share a relation share its matrix, so they are mapped together: one matrix product per distinct relation
instead of one copy of the matrix per question. Where almost every question has a relation of its own, the copies are
cheaper than the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

FEW = 8
"""Questions per distinct relation from which on mapping them together pays."""

BLOCK_NUMBERS = 2**21
"""Numbers held at once between the vectors and the scores when nothing is being learnt (8 MiB)."""

Form = Callable[[Tensor], Tensor]
"""Rows of a table, (n, numbers), as matrices, (n, m, d)."""


def plain(width: int) -> Form:
    """A row is its matrix, row by row: (n, m · d) → (n, m, d)."""
    return lambda flat: flat.view(len(flat), flat.shape[1] // width, width)


def turned(width: int) -> Form:
    """A row is k square matrices, each to be taken the other way round: (n, k · d · d) → (n, k · d, d)."""
    return lambda flat: plain(width)(flat.view(-1, width, width).transpose(1, 2).reshape(flat.shape))


def mapped(vectors: Tensor, relation: Tensor, maps: nn.Embedding, form: Form | None = None) -> Tensor:
    """W_r x for every vector and its relation, (B, d), (B,) → (B, m)."""
    form = form or plain(vectors.shape[1])
    if len(torch.unique(relation)) * FEW > len(relation):
        return torch.bmm(form(maps(relation)), vectors[:, :, None]).squeeze(2)
    return by_relation(relation, maps, form, lambda matrix, own: own @ matrix.T, vectors)


def by_relation(
    relation: Tensor, maps: nn.Embedding, form: Form, answer: Callable[..., Tensor], *columns: Tensor
) -> Tensor:
    """`answer(matrix, *columns)` of the questions of each distinct relation, put back into the questions' order.

    The matrices are looked up once for all, and the columns, (B, …), sorted once and split: a look-up for each relation
    would give each a gradient as large as the whole table.
    """
    order = relation.argsort(stable=True)
    distinct, counts = torch.unique_consecutive(relation[order], return_counts=True)
    if not len(relation):  # any relation will do: the shape is right, and there is nothing in it
        distinct, counts = relation.new_zeros(1), relation.new_zeros(1)
    shares = (torch.split(column[order], counts.tolist()) for column in columns)
    parts = [answer(*share) for share in zip(form(maps(distinct)).unbind(0), *shares, strict=True)]
    return torch.cat(parts)[order.argsort()]


def identity(maps: nn.Embedding, width: int) -> None:
    """Make every relation's matrix the identity."""
    with torch.no_grad():
        maps.weight.view(-1, width, width).copy_(torch.eye(width))


def tiled(questions: int, candidates: int, depth: int, answer: Callable[[slice, slice], Tensor]) -> Tensor:
    """`answer(rows, columns)` over a whole table, (questions, candidates), in tiles of bounded memory.

    Each score of a tile takes `depth` numbers on the way. While gradients are kept they are all needed: one tile.
    """
    width = candidates if torch.is_grad_enabled() else min(candidates, max(1, BLOCK_NUMBERS // depth))
    height = questions if torch.is_grad_enabled() else max(1, BLOCK_NUMBERS // max(1, depth * width))
    strips = [torch.cat([answer(some, these) for these in _slices(candidates, width)], dim=1)
              for some in _slices(questions, height)]  # fmt: skip
    return torch.cat(strips)


def _slices(count: int, size: int) -> Iterator[slice]:
    """All of `count` in slices of at most `size`; one empty slice of nothing."""
    return (slice(start, min(start + size, count)) for start in range(0, max(count, 1), max(size, 1)))


def outer(left: Tensor, right: Tensor) -> Tensor:
    """All products of a coordinate of the one with a coordinate of the other, (B, d), (B, d) → (B, d · d)."""
    return (left[:, :, None] * right[:, None, :]).flatten(1)
