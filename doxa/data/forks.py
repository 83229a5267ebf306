"""Forked processes: they lack the threads that polars and PyTorch compute with, and would wait for them forever.

PyTorch is limited to one thread after a fork. Operations of polars that answering needs and that use threads have a
plain twin here, for forked processes alone. Most operations on a single series use no thread.
"""

from __future__ import annotations

import os
import re
import sys

import numpy as np
import polars as pl
from numpy.typing import NDArray

WORD = r"[\p{L}\p{N}]+"
PLAIN_WORD = re.compile(r"[^\W_]+")
"""The same in Python: letters and numbers of all scripts."""

_forked = False


def is_forked() -> bool:
    """Whether this process was forked from one that had loaded doxa."""
    return _forked


def spelled_words(texts: pl.Series) -> pl.Series:
    """The lower-cased words of each text in order, repeated ones too; null has none."""
    texts = texts.cast(pl.String)
    if _forked:
        words = [PLAIN_WORD.findall((text or "").lower()) for text in texts.to_list()]
        return pl.Series(texts.name, words, dtype=pl.List(pl.String))
    return texts.fill_null("").str.to_lowercase().str.extract_all(WORD)


def distinct(lists: pl.Series) -> pl.Series:
    """The distinct values of each list, in order."""
    if _forked:
        return pl.Series(lists.name, [list(dict.fromkeys(row)) for row in lists.to_list()], dtype=lists.dtype)
    return lists.list.unique(maintain_order=True)


def contains(texts: pl.Series, pattern: str) -> NDArray[np.bool_]:
    """Which texts a pattern occurs in."""
    if _forked:
        return np.array([re.search(pattern, text) is not None for text in texts.to_list()], np.bool_)
    return np.asarray(texts.str.contains(pattern).to_numpy(), np.bool_)


def codes(values: pl.Series, missing: int) -> NDArray[np.int64]:
    """The codes of categories as numbers, `missing` for null."""
    physical = values.to_physical()
    if not physical.null_count():
        return np.asarray(physical.to_numpy(), np.int64)
    return np.asarray(np.nan_to_num(physical.cast(pl.Float64).to_numpy(), nan=missing), np.int64)


def _after_fork() -> None:
    global _forked
    _forked = True
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
