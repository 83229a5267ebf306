"""Blocks of rows cover everything once and keep to the memory limit."""

import numpy as np
import pytest

from doxa.data import blocks as blocks_module
from doxa.data.blocks import BLOCK_BYTES, BLOCK_ROWS, TABLES, free_memory, row_blocks


def test_free_memory_is_positive():
    assert free_memory() > 2**20


@pytest.mark.parametrize(("count", "width", "memory"), [(0, 5, 0), (1, 5, 0), (1000, 7, 0), (50, 120, 4 * 120 * 28)])
def test_blocks_cover_every_row_once_in_order(count, width, memory):
    blocks = list(row_blocks(count, width, memory))
    assert np.array_equal(np.concatenate(blocks or [np.zeros(0)]), np.arange(count))


@pytest.mark.parametrize(("memory", "longest"), [(TABLES * 4 * 120 * 7, 7), (1, 1), (2**40, 300)])
def test_a_smaller_limit_makes_smaller_blocks(memory, longest):
    assert max(len(block) for block in row_blocks(300, 120, memory)) == longest


def test_wide_tables_still_get_a_few_rows():
    assert len(next(row_blocks(100, BLOCK_BYTES, 2**50))) == BLOCK_ROWS


def test_large_tables_ask_for_the_free_memory(monkeypatch):
    monkeypatch.setattr(blocks_module, "free_memory", lambda: 16 * TABLES * 10**7)
    assert [len(block) for block in row_blocks(3, 10**7)] == [1, 1, 1]
    assert [len(block) for block in row_blocks(3, 1000)] == [3]
