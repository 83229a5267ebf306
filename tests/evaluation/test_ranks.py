"""Ranks and the protocol against sorting by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import Answered, ranks
from doxa.evaluation.ranks import Metrics, rank
from doxa.slots import ENTITY_SLOTS, Slot
from tests import reference
from tests.worlds import beliefs, ragged_rows, random_pbe


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_ranks_equal_the_reference_with_ties_and_filters(data):
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 7))
    scores = [[float(data.draw(st.integers(0, 3))) for _ in range(columns)] for _ in range(rows)]
    truth = [data.draw(st.integers(0, columns - 1)) for _ in range(rows)]
    known = [data.draw(st.sets(st.integers(0, columns - 1))) for _ in range(rows)]
    pairs = [(q, a) for q in range(rows) for a in sorted(known[q])]
    question, answer = (np.array([p[i] for p in pairs], np.int64) for i in (0, 1))
    result = rank(torch.tensor(scores), torch.tensor(truth), (question, answer))
    assert result.raw.tolist() == [reference.rank(s, t) for s, t in zip(scores, truth, strict=True)]
    expected = [reference.rank(s, t, drop) for s, t, drop in zip(scores, truth, known, strict=True)]
    assert result.filtered.tolist() == expected


NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def test_a_model_that_scores_all_alike_has_the_middle_rank():
    result = rank(torch.zeros(1, 9), torch.tensor([4]), NOTHING)
    assert result.raw.tolist() == [5.0]


def test_what_is_not_a_number_never_looks_good():
    nan = float("nan")
    result = rank(torch.tensor([[1.0, nan, 0.0], [nan, nan, nan]]), torch.tensor([0, 1]), NOTHING)
    assert result.raw.tolist() == [2.0, 4.0]


def test_metrics_are_what_their_names_say():
    result = Metrics.of(np.array([1.0, 2.0, 4.0, 20.0])).as_dict()
    assert result == {"mr": 6.75, "mrr": pytest.approx(0.45), "hits@1": 0.25, "hits@3": 0.5, "hits@10": 0.75}


ROWS = [(0, 0, 1), (2, 1, 3), (0, 0, 4), (5, 3, 5), (0, 2, 1), (6, 1, 0)]


def world():
    """Six beliefs over seven entities and four relations, each with a mention, in the ids of `random_pbe`."""
    names = [(f"e{i}", f"r{i % 4}", f"e{i}", f"w{i % 5}") for i in range(7)]
    stated = [(f"e{h}", f"r{r}", f"e{t}", f"w{h % 5} w{t % 5}") for h, r, t in ROWS]
    sample = beliefs(names + stated, ("head", "relation", "tail", "mention"))
    return sample.take(np.arange(7, 13))


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_the_protocol_equals_ranking_by_hand(seed):
    pbe, model = random_pbe(seed, loops=False)
    sample = world()
    assert sample.triples.tolist() == [list(row) for row in ROWS]
    facts = TripleIndex(sample.triples, 7, 4)
    heads, relations, tails = (ranks(pbe, slot, sample, facts) for slot in Slot)
    for i, (h, r, t) in enumerate(ROWS):
        scores = [reference.score(model, h, r, x) for x in range(7)]
        assert tails.raw[i] == reference.rank(scores, t)
        assert tails.filtered[i] == reference.rank(scores, t, {z for x, y, z in ROWS if (x, y) == (h, r)})
        scores = [reference.score(model, x, r, t) for x in range(7)]
        assert heads.raw[i] == reference.rank(scores, h)
        assert heads.filtered[i] == reference.rank(scores, h, {x for x, y, z in ROWS if (y, z) == (r, t)})
        word_ids = ragged_rows(sample.mention)[i]
        scores = [reference.pr_relation_with_mention(model, h, x, t, word_ids) for x in model.relations]
        assert relations.raw[i] == reference.rank(scores, r)
        assert relations.filtered[i] == reference.rank(scores, r, {y for x, y, z in ROWS if (x, z) == (h, t)})


def test_relations_by_entities_alone_and_by_words_alone():
    pbe, model = random_pbe(5, loops=False)
    sample, facts = world(), TripleIndex(world().triples, 7, 4)
    pair, mention = (ranks(pbe, Slot.RELATION, sample, facts, use=use) for use in ("pair", "mention"))
    for i, (h, r, t) in enumerate(ROWS):
        assert pair.raw[i] == reference.rank([reference.pr_relation(model, h, x, t) for x in model.relations], r)
        words = ragged_rows(sample.mention)[i]
        assert mention.raw[i] == reference.rank([reference.mention_score(model, x, words) for x in model.relations], r)


@pytest.mark.parametrize("slot", ENTITY_SLOTS)
def test_candidates_of_the_relation_alone(slot):
    pbe, model = random_pbe(7)
    sample, facts = world(), TripleIndex(world().triples, 7, 4)
    result = ranks(pbe, slot, sample, facts, facts.seen(slot))
    for i, (h, r, t) in enumerate(ROWS):
        pool = sorted({row[slot] for row in ROWS if row[1] == r})
        if slot is Slot.TAIL:
            scores, truth = [reference.score(model, h, r, x) for x in pool], pool.index(t)
            drop = {pool.index(z) for x, y, z in ROWS if (x, y) == (h, r)}
        else:
            scores, truth = [reference.score(model, x, r, t) for x in pool], pool.index(h)
            drop = {pool.index(x) for x, y, z in ROWS if (y, z) == (r, t)}
        assert result.raw[i] == reference.rank(scores, truth)
        assert result.filtered[i] == reference.rank(scores, truth, drop)


@pytest.mark.parametrize("slot", ENTITY_SLOTS)
def test_a_truth_outside_the_pool_of_its_relation_is_a_candidate_of_its_own_query_alone(slot):
    """Two beliefs of one query, both with an answer that no training fact of the relation has."""
    pbe, model = random_pbe(7)
    trained = [(2, 0, 1), (3, 0, 4)]
    asked = [(0, 0, 5), (0, 0, 6)] if slot is Slot.TAIL else [(5, 0, 0), (6, 0, 0)]
    sample = Beliefs.from_triples(world().vocabularies, np.array(asked))
    nothing, pool = TripleIndex(np.zeros((0, 3), np.int64), 7, 4), TripleIndex(np.array(trained), 7, 4).seen(slot)
    result = ranks(pbe, slot, sample, nothing, pool).raw
    for i, (h, r, t) in enumerate(asked):
        candidates = [*(row[slot] for row in trained), (h, r, t)[slot]]
        triples = [(h, r, x) if slot is Slot.TAIL else (x, r, t) for x in candidates]
        assert result[i] == reference.rank([reference.score(model, *triple) for triple in triples], truth=2)


@pytest.mark.parametrize("slot", ENTITY_SLOTS)
def test_a_guess_is_among_the_candidates_of_the_relation(slot):
    """Whether or not another belief of the relation has known names; r2 has no facts, and of an unknown relation all
    entities are candidates."""
    pbe, _ = random_pbe(0)
    trained = TripleIndex(np.array([(0, 0, 4), (1, 0, 5), (2, 0, 6), (0, 1, 4), (1, 1, 5)]), 7, 4)
    rows = np.array([(0, 0, 5), (-1, 0, 4), (0, 0, -1), (-1, 1, 4), (0, 2, -1), (0, -1, 4)])
    sample = Beliefs.from_triples(world().vocabularies, rows)
    result = ranks(pbe, slot, sample, trained, trained.seen(slot))
    assert result.raw[1:].tolist() == [2.0, 2.0, 1.5, 1.0, 4.0]
    assert result.filtered[1:].tolist() == [2.0, 2.0, 1.5, 1.0, 4.0]


def test_a_belief_with_an_unseen_name_counts_as_a_guess():
    pbe, _ = random_pbe(0)
    sample = world()
    sample.tail[0] = -1
    facts = TripleIndex(world().triples, 7, 4)
    assert ranks(pbe, Slot.TAIL, sample, facts).raw[0] == 4.0
    assert ranks(pbe, Slot.HEAD, sample, facts).filtered[0] == 4.0
    assert ranks(pbe, Slot.RELATION, sample, facts).raw[0] == 2.5


def test_small_blocks_change_nothing(monkeypatch):
    pbe, _ = random_pbe(3)
    sample, facts = world(), TripleIndex(world().triples, 7, 4)
    whole = ranks(pbe, Slot.TAIL, sample, facts)
    assert ranks(pbe, Slot.TAIL, sample, facts, memory=1).filtered.tolist() == whole.filtered.tolist()
    monkeypatch.setattr("doxa.data.blocks.BLOCK_BYTES", 1)
    monkeypatch.setattr("doxa.data.blocks.BLOCK_ROWS", 1)
    assert ranks(pbe, Slot.TAIL, sample, facts).filtered.tolist() == whole.filtered.tolist()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=30))
def test_mapping_kinds_equal_the_reference(rows):
    result = (TripleIndex(np.array(rows), 6, 3)).mapping_kinds()
    for relation in {r for _, r, _ in rows}:
        assert result[relation] == reference.mapping_kind(rows, relation)


def test_relations_are_ranked_with_words_at_their_share():
    from doxa.calibration.queries import held_out_queries

    pbe, _ = random_pbe(5)
    sample = beliefs([(str(h), str(r), str(t), "w") for h, r, t in ((0, 1, 2), (3, 0, 4), (5, 2, 1), (6, 3, 0))],
                   ("head", "relation", "tail", "mention"))  # fmt: skip
    nothing = TripleIndex(np.zeros((0, 3), np.int64), pbe.entities, pbe.relations)
    result = []
    for share in (1.0, 0.01, 20.0):
        queries = held_out_queries(pbe, sample, nothing, "relation_with_mention", share)
        with torch.no_grad():
            table, truth = queries.log_probabilities(np.arange(4))
        expected = (1 + (table > table.gather(1, truth[:, None])).sum(1)).tolist()
        assert ranks(pbe, Slot.RELATION, sample, nothing, mention_exponent=share).raw.tolist() == expected
        result.append(expected)
    assert result[1] != result[2]


@pytest.mark.parametrize("slot", Slot)
def test_ranks_as_answered_are_those_of_the_answers(slot):
    """Among the entities seen in the slot, by D′; entities that are no answers share the last places."""
    pbe, model = random_pbe(3)
    sample, facts = world(), TripleIndex(world().triples, 7, 4)
    result = ranks(Answered(pbe), slot, sample, facts, use="pair")
    offered = pbe.seen[slot].tolist()
    everything = range(4) if slot is Slot.RELATION else range(7)
    for i, row in enumerate(ROWS):
        scores = [
            reference.belief_score(model, *(x if column == slot else row[column] for column in Slot))
            if x in offered
            else -math.inf
            for x in everything
        ]
        assert result.raw[i] == reference.rank(scores, row[slot])


def test_the_standard_protocol_does_not_know_the_loop_factor():
    pbe, _ = random_pbe(3)
    plain, _ = random_pbe(3, loops=False)
    sample, facts = world(), TripleIndex(world().triples, 7, 4)
    for slot in Slot:
        assert np.array_equal(ranks(pbe, slot, sample, facts).raw, ranks(plain, slot, sample, facts).raw)
    assert not np.array_equal(
        ranks(Answered(pbe), Slot.TAIL, sample, facts).raw, ranks(Answered(plain), Slot.TAIL, sample, facts).raw
    )
