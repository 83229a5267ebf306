"""The index of known facts against plain sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxa.data.triples import TripleIndex
from doxa.slots import ENTITY_SLOTS, Slot

ENTITIES, RELATIONS = 6, 3
SIZES = (ENTITIES, RELATIONS, ENTITIES)
triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=30)


def index_of(rows):
    return TripleIndex(np.array(rows, np.int64).reshape(-1, 3), ENTITIES, RELATIONS)


def every_query(slot):
    """All pairs of ids in the two other slots; None in the missing one."""
    others = [other for other in Slot if other is not slot]
    grids = np.meshgrid(*(np.arange(SIZES[other]) for other in others), indexing="ij")
    columns = dict(zip(others, (grid.reshape(-1) for grid in grids), strict=True))
    return [columns.get(other) for other in Slot]


@given(triples)
@pytest.mark.parametrize("slot", list(Slot))
def test_answers_of_every_query_equal_those_of_a_set(slot, rows):
    columns, known = every_query(slot), set(rows)
    query, answer = index_of(rows).answers(slot, *columns)
    completed = set()
    for number, value in zip(query.tolist(), answer.tolist(), strict=True):
        completed.add(tuple(value if column is None else int(column[number]) for column in columns))
    assert completed == known
    counts = index_of(rows).count_answers(slot, *columns)
    assert counts.tolist() == np.bincount(query, minlength=len(counts)).tolist()
    assert counts.sum() == len(known)


@given(triples)
def test_membership_equals_that_of_a_set(rows):
    index, known = index_of(rows), set(rows)
    assert len(index) == len(known)
    assert index.contains(*np.array(list(known)).T).all()
    every = np.array([(h, r, t) for h in range(6) for r in range(3) for t in range(6)])
    assert index.contains(*every.T).sum() == len(known)
    assert index.triples[index.rows_of(np.array(rows))].tolist() == [list(row) for row in rows]


@given(triples)
def test_seen_pairs_are_the_entities_of_each_relation(rows):
    for slot in ENTITY_SLOTS:
        relation, entity = index_of(rows).seen(slot)
        assert list(zip(relation.tolist(), entity.tolist(), strict=True)) == sorted({(r[1], r[slot]) for r in rows})


@given(triples, triples)
def test_growth_and_removal_equal_those_of_sets(rows, more):
    grown = index_of(rows).grow(ENTITIES + 2, RELATIONS + 1, np.array(more))
    assert {tuple(triple) for triple in grown.triples.tolist()} == set(rows) | set(more)
    left = index_of(rows).without(np.array(more))
    assert {tuple(triple) for triple in left.triples.tolist()} == set(rows) - set(more)


def test_unknown_ids_are_no_facts_and_unions_join():
    index = index_of([(0, 0, 1), (-1, 0, 2)])
    assert len(index) == 1
    assert not index.contains(np.array([0, 0]), np.array([-1, 0]), np.array([5, -1])).any()
    assert index.union(np.array([[0, 0, 1], [2, 1, 0]])).triples.tolist() == [[0, 0, 1], [2, 1, 0]]


def test_an_empty_index_knows_nothing():
    index = TripleIndex(np.zeros((0, 3), np.int64), 3, 2)
    assert len(index) == 0
    assert index.answers(Slot.TAIL, np.array([0]), np.array([1]), None)[1].tolist() == []
    assert index.contains(np.array([0]), np.array([0]), np.array([0])).tolist() == [False]
