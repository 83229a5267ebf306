"""The dense core of a graph: its size, its degrees, and the same rows as the slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxa.data.core import core_rows, dense_core
from tests import reference_race as reference
from tests.worlds import beliefs

PAIRS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=40)


@given(PAIRS, st.integers(1, 40))
def test_the_core_is_that_of_the_slow_twin(pairs, size):
    head, tail = np.array(pairs).T
    assert core_rows(head, tail, 8, size).tolist() == reference.core_rows(pairs, size)


def clique_with_tail(size=6, length=30):
    """Every pair of a few entities, and a long chain that hangs on one of them."""
    inside = [(f"e{a}", "knows", f"e{b}") for a in range(size) for b in range(size) if a != b]
    chain = [(f"c{place}", "knows", f"c{place + 1}") for place in range(length)]
    return beliefs([*chain, ("c0", "knows", "e0"), *inside])


def test_the_dense_part_remains():
    core = dense_core(clique_with_tail(), 30)
    assert len(core) == 30
    assert set(core.vocabularies.entities.names) == {f"e{number}" for number in range(6)}


def test_a_small_graph_is_its_core():
    world = clique_with_tail()
    assert dense_core(world, len(world)) is world


@pytest.mark.parametrize("size", [1, 5, 20, 31, 45])
def test_the_core_is_about_as_large_as_wanted(size):
    assert 0 < len(dense_core(clique_with_tail(), size)) <= size or size == 1
