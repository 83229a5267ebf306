"""Known facts against plain sets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from doxa.data.triples import TripleIndex

triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=30)


def facts(rows):
    return TripleIndex(np.array(rows, np.int64).reshape(-1, 3), entities=6, relations=3)


@given(triples)
def test_lookups_equal_sets(rows):
    known, found = set(rows), facts(rows)
    assert len(found) == len(known)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(np.arange(6), np.arange(3), indexing="ij"))
    question, answer = found.tails(a, b)
    assert {(int(a[q]), int(b[q]), int(x)) for q, x in zip(question, answer, strict=True)} == known
    question, answer = found.heads(b, a)
    assert {(int(x), int(b[q]), int(a[q])) for q, x in zip(question, answer, strict=True)} == known
    assert found.tail_counts(a, b).tolist() == [
        sum((h, r) == pair for h, r, _ in known) for pair in zip(a, b, strict=True)
    ]
    assert found.head_counts(b, a).tolist() == [
        sum((t, r) == pair for _, r, t in known) for pair in zip(a, b, strict=True)
    ]
    c, d = (grid.reshape(-1) for grid in np.meshgrid(np.arange(6), np.arange(6), indexing="ij"))
    question, answer = found.links(c, d)
    assert {(int(c[q]), int(x), int(d[q])) for q, x in zip(question, answer, strict=True)} == known
    inside = found.contains(*np.array(list(known)).T)
    assert inside.all()
    every = np.array([(h, r, t) for h in range(6) for r in range(3) for t in range(6)])
    assert found.contains(*every.T).sum() == len(known)


@given(triples)
def test_positions_are_the_entities_seen_there(rows):
    for column in (0, 2):
        relation, entity = facts(rows).positions(column)
        assert list(zip(relation.tolist(), entity.tolist(), strict=True)) == sorted({(r[1], r[column]) for r in rows})


def test_unknown_ids_are_no_facts_and_unions_join():
    some = facts([(0, 0, 1), (-1, 0, 2)])
    assert len(some) == 1
    assert not some.contains(np.array([0, 0]), np.array([-1, 0]), np.array([5, -1])).any()
    assert some.union(np.array([[0, 0, 1], [2, 1, 0]])).triples.tolist() == [[0, 0, 1], [2, 1, 0]]


def test_an_empty_set_knows_nothing():
    none = TripleIndex(np.zeros((0, 3), np.int64), 3, 2)
    assert len(none) == 0
    assert none.tails(np.array([0]), np.array([1]))[1].tolist() == []
    assert none.contains(np.array([0]), np.array([0]), np.array([0])).tolist() == [False]
