"""Forked processes: they lack the threads that polars and PyTorch compute with, and would wait for them forever.

PyTorch is limited to one thread after a fork. Operations of polars that loading and answering need and that use threads
have a plain twin here, for forked processes alone. Most operations on a single series use no thread.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

WORD = r"[\p{L}\p{N}]+"
PLAIN_WORD = re.compile(r"[^\W_]+")
"""The same in Python: letters and numbers of all scripts."""

READ_TEXTS = """
import json, sys
import polars as pl
json.dump([pl.read_parquet(path, glob=False)[sys.argv[1]].to_list() for path in sys.argv[2:]], sys.stdout)
"""
"""Runs in a new process: reads Parquet for a forked one."""

HARMLESS = {"jemalloc_bg_thd", "polars-ooc-clea"}
"""Names of threads that begin with the import of polars; nothing waits for them."""

_forked = _losing = False


def is_forked() -> bool:
    """Whether this process was forked from one whose threads it lacks."""
    return _forked


def spelled_words(texts: pl.Series) -> pl.Series:
    """The lower-cased words of each text in order, repeated ones too; null has none."""
    texts = texts.cast(pl.String)
    if _forked:
        words = [PLAIN_WORD.findall((text or "").lower()) for text in texts.to_list()]
        return pl.Series(texts.name, words, dtype=pl.List(pl.String))
    return texts.fill_null("").str.to_lowercase().str.extract_all(WORD)


def read_texts(paths: Sequence[Path], column: str) -> list[pl.Series]:
    """A column of texts of each of these Parquet files."""
    if not _forked:
        return [pl.read_parquet(path, glob=False)[column] for path in paths]
    run = [sys.executable, "-I", "-c", READ_TEXTS, column, *map(str, paths)]
    ended = subprocess.run(run, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ended.returncode:
        reason = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"cannot read {paths[0]} or beside it: {reason}")
    return [pl.Series(column, texts, dtype=pl.String) for texts in json.loads(ended.stdout)]


def count_distinct(texts: pl.Series) -> int:
    """The number of distinct texts."""
    return len(set(texts.to_list())) if _forked else texts.n_unique()


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


def _has_threads() -> bool:
    """Whether this process has threads that a forked one would lack; yes where the system does not tell."""
    try:
        main = str(os.getpid())
        others = [Path(f"/proc/self/task/{task}/comm") for task in os.listdir("/proc/self/task") if task != main]
        return any(other.read_text().strip() not in HARMLESS for other in others)
    except OSError:
        return True


def _before_fork() -> None:
    global _losing
    _losing = _forked or _has_threads()


def _after_fork() -> None:
    global _forked
    _forked = _losing
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
