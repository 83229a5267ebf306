"""Candidates of completion equal what scoring every pair of entities gives."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from doxa.calibration.candidates import BEST, CandidateTable, Pools, candidates, hidden_candidates
from doxa.data.triples import TripleIndex
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS, Slot
from tests import reference_curation
from tests.worlds import random_model

ENTITIES, RELATIONS = 12, 4
TRIPLES = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))


def index(triples):
    return TripleIndex(np.array(list(triples), np.int64).reshape(-1, 3), ENTITIES, RELATIONS)


def facts_of(triples):
    return set(map(tuple, triples.tolist()))


def sparse_model(seed, facts=40, heads=None):
    """A random model, its world and known facts; `heads` are the entities seen as head, most of them by default.

    Six entities are in no fact of the first two relations, so that the pools of their slots differ.
    """
    model, world = random_model(seed, facts=facts)
    train = model.train[(model.train[:, Slot.RELATION] > 1) | (model.train[:, [0, 2]] < 6).all(axis=1)]
    if heads is not None:
        model.pbe.seen_heads, world.seen_heads = torch.tensor(heads), heads
    return model.pbe, world, index(train.tolist())


def rows_of(table):
    """The table as the twin has it: {triple: (log_pr, ranks, known)}."""
    columns = (table.triples.tolist(), table.log_pr.tolist(), table.ranks.tolist(), table.known.tolist())
    return {tuple(triple): rest for triple, *rest in zip(*columns, strict=True)}


def assert_same(table, expected):
    actual = rows_of(table)
    assert len(actual) == len(table)
    assert set(actual) == set(expected)
    for triple, (log_pr, ranks, known) in expected.items():
        assert actual[triple][0] == pytest.approx(log_pr, abs=1e-9)
        assert (actual[triple][1], actual[triple][2]) == (ranks, known)


@given(st.sets(TRIPLES, max_size=60))
def test_pools_are_the_entities_of_similar_slots(triples):
    pools = Pools(index(triples))
    for relation in range(RELATIONS):
        expected = {slot: sorted(reference_curation.pool(triples, relation, int(slot))) for slot in ENTITY_SLOTS}
        assert {slot: pools.of(relation, slot).tolist() for slot in ENTITY_SLOTS} == expected
        assert pools.cost(relation) == sum(map(len, expected.values()))


def test_a_slot_joins_at_the_share_of_its_entities_and_not_below():
    exactly = {(0, 0, 11)} | {(entity, 1, 11) for entity in (0, 1, 2)}  # a third of 0, 1, 2 is in the slot of 0
    assert Pools(index(exactly)).of(0, Slot.HEAD).tolist() == [0, 1, 2]
    fewer = {(0, 0, 11)} | {(entity, 1, 11) for entity in (0, 1, 2, 3)}
    assert Pools(index(fewer)).of(0, Slot.HEAD).tolist() == [0]
    assert Pools(index(fewer)).of(1, Slot.HEAD).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("heads", [None, [0, 2, 3, 7]], ids=["most heads seen", "few heads seen"])
@pytest.mark.parametrize("seed", range(4))
def test_candidates_are_the_best_answers_of_every_query(seed, heads):
    pbe, world, facts = sparse_model(seed, heads=heads)
    triples, pools = facts_of(facts.triples), Pools(facts)
    count = 0
    for relation in range(RELATIONS):
        expected = reference_curation.candidates(world, triples, triples, relation)
        assert_same(candidates(pbe, facts, pools, relation), expected)
        count += len(expected)
    pairs = [len(pools.of(relation, Slot.HEAD)) * len(pools.of(relation, Slot.TAIL)) for relation in range(RELATIONS)]
    assert 60 < count < sum(pairs) - len(facts)


@pytest.mark.parametrize("seed", range(3))
def test_known_facts_beyond_those_of_the_pools_are_no_candidates(seed):
    pbe, world, facts = sparse_model(seed)
    triples = facts_of(facts.triples)
    more = set(list(reference_curation.candidates(world, triples, triples, 2))[::4])
    table = candidates(pbe, facts.union(np.array(sorted(more))), Pools(facts), 2)
    assert not more & set(rows_of(table))
    assert_same(table, reference_curation.candidates(world, triples, triples | more, 2))


def test_a_relation_without_facts_has_no_candidates():
    pbe, _, facts = sparse_model(0)
    rest = TripleIndex(facts.triples[facts.triples[:, Slot.RELATION] != 3], ENTITIES, RELATIONS)
    table = candidates(pbe, rest, Pools(rest), 3)
    assert len(table) == 0
    assert table.features.shape == (0, 8)


@pytest.mark.parametrize("about", [[3], [0, 11], [5, 7, 8], []])
@pytest.mark.parametrize("relation", [0, 2])
def test_candidates_about_entities_answer_queries_about_them(relation, about):
    pbe, world, facts = sparse_model(5)
    triples = facts_of(facts.triples)
    table = candidates(pbe, facts, Pools(facts), relation, np.array(about, np.int64))
    assert_same(table, reference_curation.candidates(world, triples, triples, relation, about))
    every = rows_of(candidates(pbe, facts, Pools(facts), relation))
    for triple, features in rows_of(table).items():  # asked about an entity or not, the features are the same
        assert features[0] == pytest.approx(every[triple][0])
        assert features[1:] == every[triple][1:]


def test_blocks_of_any_size_give_the_same(monkeypatch):
    pbe, _, facts = sparse_model(1)
    whole = {relation: candidates(pbe, facts, Pools(facts), relation) for relation in range(RELATIONS)}
    blocks = []
    once = PBE.blocks

    def noted(self, count, width=None, memory=0):
        blocks.append(sizes := list(once(self, count, width, memory)))
        return iter(sizes)

    monkeypatch.setattr(PBE, "blocks", noted)
    for memory in (1, 4 * 4 * ENTITIES * 3):
        for relation, table in whole.items():
            assert_same(candidates(pbe, facts, Pools(facts), relation, memory=memory), rows_of(table))
    assert {len(rows) for sizes in blocks for rows in sizes} >= {1, 3}


@pytest.mark.parametrize("heads", [None, [0, 2, 3, 7]], ids=["most heads seen", "few heads seen"])
@pytest.mark.parametrize("seed", range(3))
def test_a_hidden_fact_is_the_candidate_it_would_be_if_it_were_not_known(seed, heads):
    pbe, _, facts = sparse_model(seed, facts=60, heads=heads)
    train = TripleIndex(facts.triples[::2], ENTITIES, RELATIONS)  # pools are of train, known facts are more
    pools, dropped, count = Pools(train), 0, 0
    for relation in np.flatnonzero(facts.counts).tolist():
        of_relation = facts.triples[facts.triples[:, Slot.RELATION] == relation]
        hidden = rows_of(hidden_candidates(pbe, facts, pools, of_relation))
        expected = {}
        for fact in of_relation:
            rows = rows_of(candidates(pbe, facts.without(fact[None]), pools, relation))
            expected |= {triple: rows[triple] for triple in [tuple(fact.tolist())] if triple in rows}
        assert set(hidden) == set(expected)
        for triple, (log_pr, ranks, known) in expected.items():
            assert hidden[triple][0] == pytest.approx(log_pr, abs=1e-9)
            assert hidden[triple][1:] == [ranks, known]
        dropped += len(of_relation) - len(hidden)
        count += len(hidden)
    assert count > 10
    assert dropped > 0


def test_features_are_logarithms_and_whether_no_answer_is_known():
    table = CandidateTable(
        np.array([[1, 0, 2], [3, 1, 4]]), np.array([[-1.0, -2.0], [-3.0, -4.0]]), np.array([[1.0, 2.0], [6.0, 5.0]]),
        np.array([[0, 1], [3, 0]]),
    )  # fmt: skip
    log = np.log
    expected = [[-1, -2, 0, log(2), 0, log(2), 1, 0], [-3, -4, log(6), log(5), log(4), 0, 0, 1]]
    assert np.allclose(table.features, expected)
    assert table.relation.tolist() == [0, 1]
    again = CandidateTable.concat([table.take(np.array([0])), CandidateTable.empty(), table.take(np.array([1]))])
    assert rows_of(again) == rows_of(table)
    assert len(CandidateTable.concat([])) == 0
    assert table.ranks.max() == BEST + 1
