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
"""Numbers held at once by a hidden layer when nothing is being learnt (8 MiB)."""


Form = Callable[[Tensor], Tensor]
"""Rows of a table, (n, numbers), as matrices, (n, m, d)."""


def plain(width: int) -> Form:
    """A row is its matrix, row by row: (n, m · d) → (n, m, d)."""
    return lambda flat: flat.view(len(flat), -1, width)


def turned(width: int) -> Form:
    """A row is k square matrices, each to be taken the other way round: (n, k · d · d) → (n, k · d, d)."""
    return lambda flat: flat.view(len(flat), -1, width, width).transpose(2, 3).reshape(len(flat), -1, width)


def mapped(vectors: Tensor, relation: Tensor, maps: nn.Embedding, form: Form | None = None) -> Tensor:
    """W_r x for every vector and its relation, (B, d), (B,) → (B, m)."""
    form = form or plain(vectors.shape[1])
    if len(torch.unique(relation)) * FEW > len(relation):
        return torch.bmm(form(maps(relation)), vectors[:, :, None]).squeeze(2)
    return by_relation(relation, lambda own, r: vectors[own] @ form(maps(r))[0].T)


def identity(maps: nn.Embedding, width: int) -> None:
    """Make every relation's matrix the identity."""
    with torch.no_grad():
        maps.weight.view(-1, width, width).copy_(torch.eye(width))


def by_relation(relation: Tensor, answer: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """`answer(rows, r)` of the questions of each distinct relation r, (1,), put back into the questions' order."""
    if not len(relation):
        return answer(relation, relation.new_zeros(1))  # any relation: the shape is right, and there is nothing in it
    order = relation.argsort(stable=True)
    distinct, counts = torch.unique_consecutive(relation[order], return_counts=True)
    shares = zip(torch.split(order, counts.tolist()), torch.split(distinct, 1), strict=True)
    parts = [answer(own, r) for own, r in shares]
    return torch.cat(parts)[order.argsort()]


def blocks(count: int, numbers_each: int) -> Iterator[slice]:
    """`count` things of `numbers_each` numbers in slices of bounded memory; in one while gradients are kept anyway."""
    size = count if torch.is_grad_enabled() else max(1, BLOCK_NUMBERS // max(1, numbers_each))
    return (slice(start, min(start + size, count)) for start in range(0, max(count, 1), max(size, 1)))


def outer(left: Tensor, right: Tensor) -> Tensor:
    """All products of a coordinate of the one with a coordinate of the other, (B, d), (B, d) → (B, d · d)."""
    return (left[:, :, None] * right[:, None, :]).flatten(1)
