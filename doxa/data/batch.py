"""Batch: beliefs as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Ids
from doxa.slots import Slot


@dataclass(frozen=True)
class Batch:
    """Ids (B,), words end to end with B + 1 offsets, confidence (B,), NaN where a belief came without.

    In a query the column of the missing slot holds any id; it is not read.
    """

    head: Tensor
    relation: Tensor
    tail: Tensor
    words: Tensor
    offsets: Tensor
    confidence: Tensor

    @classmethod
    def of(cls, beliefs: Beliefs, rows: Ids | None = None) -> Batch:
        """The beliefs of these rows, all without `rows`."""
        mention = beliefs.mention if rows is None else beliefs.mention.take(rows)
        columns = (beliefs.head, beliefs.relation, beliefs.tail)
        head, relation, tail = (torch.from_numpy(c if rows is None else c[rows]) for c in columns)
        confidence = torch.from_numpy(beliefs.confidence.copy() if rows is None else beliefs.confidence[rows])
        words, offsets = torch.from_numpy(mention.values), torch.from_numpy(mention.offsets)
        return cls(head, relation, tail, words, offsets, confidence)

    @classmethod
    def of_triples(cls, head: Tensor, relation: Tensor, tail: Tensor) -> Batch:
        """Triples of ids without mentions or confidence."""
        count = len(head)
        nothing = torch.zeros(0, dtype=torch.int64)
        return cls(
            head, relation, tail, nothing, torch.zeros(count + 1, dtype=torch.int64), torch.full((count,), torch.nan)
        )

    def __len__(self) -> int:
        return len(self.head)

    def column(self, slot: Slot) -> Tensor:
        """The ids of one slot, (B,)."""
        return (self.head, self.relation, self.tail)[slot]

    @property
    def mentioned(self) -> Tensor:
        """(B,): whether the belief came with at least one known word."""
        return self.offsets[1:] > self.offsets[:-1]
