"""Relations as matrices: each relation has its own, one row of a table, and maps vectors with it.

Queries that share a relation share its matrix, so they are mapped together: one matrix product per distinct relation
instead of one copy of the matrix per query. Where almost every query has another relation, the copies are cheaper than
the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

FEW = 8
"""Queries per distinct relation from which on mapping them together pays; measured on 2 cores."""

BLOCK_NUMBERS = 2**21
"""Intermediate numbers between vectors and scores at a time, outside training (8 MiB)."""

Form = Callable[[Tensor], Tensor]
"""Rows of a table, (n, numbers), as matrices, (n, m, d)."""


def as_matrices(width: int) -> Form:
    """A row is its matrix, row by row: (n, m · d) → (n, m, d)."""
    return lambda flat: flat.view(len(flat), flat.shape[1] // width, width)


def transposed(width: int) -> Form:
    """A row is k square matrices, each transposed: (n, k · d · d) → (n, k · d, d)."""
    return lambda flat: as_matrices(width)(flat.view(-1, width, width).transpose(1, 2).reshape(flat.shape))


def mapped(vectors: Tensor, relation: Tensor, maps: nn.Embedding, form: Form | None = None) -> Tensor:
    """W_r x for every vector and its relation, (B, d), (B,) → (B, m)."""
    form = form or as_matrices(vectors.shape[1])
    if len(torch.unique(relation)) * FEW > len(relation):
        return torch.bmm(form(maps(relation)), vectors[:, :, None]).squeeze(2)
    return by_relation(relation, maps, form, lambda matrix, vectors: vectors @ matrix.T, vectors)


def by_relation(
    relation: Tensor, maps: nn.Embedding, form: Form, answer: Callable[..., Tensor], *columns: Tensor
) -> Tensor:
    """`answer(matrix, *columns)` of the queries of each distinct relation, back in the order of the queries.

    The matrices are looked up once for all, and the columns, (B, …), sorted once and split: a look-up per relation
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


def tiled(queries: int, candidates: int, depth: int, tile: Callable[[slice, slice], Tensor]) -> Tensor:
    """`tile(queries, columns)` over a whole table, (queries, candidates), in tiles of bounded memory.

    Each score of a tile takes `depth` intermediate numbers. Gradients need all of them at once: then it is one tile.
    """
    width = candidates if torch.is_grad_enabled() else min(candidates, max(1, BLOCK_NUMBERS // depth))
    height = queries if torch.is_grad_enabled() else max(1, BLOCK_NUMBERS // max(1, depth * width))
    strips = [torch.cat([tile(rows, columns) for columns in _slices(candidates, width)], dim=1)
              for rows in _slices(queries, height)]  # fmt: skip
    return torch.cat(strips)


def _slices(count: int, size: int) -> Iterator[slice]:
    """All of `count` in slices of at most `size`; one empty slice of nothing."""
    return (slice(start, min(start + size, count)) for start in range(0, max(count, 1), max(size, 1)))


def outer(left: Tensor, right: Tensor) -> Tensor:
    """All products of two coordinates, one of each vector, (B, d), (B, d) → (B, d · d)."""
    return (left[:, :, None] * right[:, None, :]).flatten(1)
