"""Blocks of rows whose tables of scores fit the processor's cache and the memory at hand."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from doxa.data.vocabulary import Ids

BLOCK_BYTES, BLOCK_ROWS = 8 * 2**20, 16
"""Size of a table of scores: small enough for the processor's cache, yet at least a few rows."""

SMALL_BYTES = 2**24
"""Size of all tables of a few questions, for which no memory is looked at."""

TABLES = 4
"""Tables of that size that ranking and answering need at a time."""


def row_blocks(count: int, width: int, memory: int = 0) -> Iterator[Ids]:
    """Row numbers 0 … count − 1 in blocks; a block's table of float32 scores has `width` columns.

    `memory` bounds the tables in bytes; 0 stands for a quarter of the free memory, which small tables need not ask for.
    """
    row = 4 * width
    size = max(BLOCK_ROWS, BLOCK_BYTES // row)
    if memory or min(size, count) * TABLES * row > SMALL_BYTES:
        size = max(1, min(size, (memory or free_memory() // 4) // (TABLES * row)))
    return (np.arange(start, min(start + size, count)) for start in range(0, count, size))


def free_memory() -> int:
    """Bytes that are available without swapping; 2 GB where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 2 * 2**30
