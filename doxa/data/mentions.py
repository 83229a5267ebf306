"""Mentions: the words that stated a belief, as φ(m) of Eq. 11."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.forks import distinct, spelled_words


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of differing length: all values end to end, and where each row begins.

    Row i is `values[offsets[i]:offsets[i + 1]]`.
    """

    values: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @classmethod
    def empty(cls, rows: int) -> Ragged:
        return cls(np.zeros(0, np.int64), np.zeros(rows + 1, np.int64))

    @classmethod
    def from_lengths(cls, values: NDArray[np.int64], lengths: NDArray[np.int64]) -> Ragged:
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(values, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of several parts, in order."""
        values, lengths = ([getattr(part, name) for part in parts] for name in ("values", "lengths"))
        return cls.from_lengths(np.concatenate(values), np.concatenate(lengths))

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """These rows, in this order."""
        if not len(self.values):
            return Ragged.empty(len(rows))
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        taken = Ragged.from_lengths(np.zeros(int(lengths.sum()), np.int64), lengths)
        shift = np.repeat(self.offsets[rows] - taken.offsets[:-1], lengths)
        taken.values[:] = self.values[np.arange(len(shift)) + shift]
        return taken

    def mapped(self, new_ids: NDArray[np.int64]) -> Ragged:
        """Every value v replaced by `new_ids[v]`; values that map to -1 drop out."""
        values = new_ids[self.values] if len(self.values) else self.values
        row = np.repeat(np.arange(len(self)), self.lengths)
        kept = values >= 0
        return Ragged.from_lengths(values[kept], np.bincount(row[kept], minlength=len(self)).astype(np.int64))


def words(texts: pl.Series) -> pl.Series:
    """φ(m), the set of lower-cased words of each mention: presence, not counts (Eq. 11).

    Series of texts (null where there is no mention) → series of lists of distinct words.
    """
    return distinct(spelled_words(texts))


def encode_words(bags: pl.Series, ids: Callable[[pl.Series], NDArray[Any]]) -> Ragged:
    """Lists of words as ids; words without one (-1) drop out."""
    lengths = bags.list.len().to_numpy().astype(np.int64)
    flat = bags.explode(empty_as_null=False)
    return Ragged.from_lengths(np.arange(len(flat)), lengths).mapped(ids(flat))
