"""Candidates for training and negatives for classification."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.data.negatives import corrupt_triples
from doxa.data.triples import TripleIndex
from doxa.estimators import Candidates
from doxa.slots import Slot
from doxa.training.candidates import candidate_pool, draw_candidates
from tests.worlds import beliefs, random_pbe, settings_of


def test_candidates_are_distinct_sorted_and_from_their_slot():
    pbe, _ = random_pbe(0, entities=40, relations=20)
    drawn = draw_candidates(Candidates.every(pbe), 10, np.random.default_rng(0))
    for ids, pool in (
        (drawn.heads, pbe.seen_heads),
        (drawn.tails, pbe.seen_tails),
        (drawn.relations, torch.arange(20)),
    ):
        assert len(ids) == 10
        assert (ids[1:] > ids[:-1]).all()
        assert torch.isin(ids, pool).all()


def test_the_whole_pool_is_drawn_where_it_is_small():
    pbe, _ = random_pbe(0)
    drawn, every = draw_candidates(Candidates.every(pbe), 1000, np.random.default_rng(0)), Candidates.every(pbe)
    assert torch.equal(drawn.heads, every.heads)
    assert torch.equal(drawn.relations, every.relations)


def test_every_candidate_is_equally_likely():
    pbe, _ = random_pbe(0, entities=21)
    random = np.random.default_rng(0)
    counts = torch.zeros(21)
    for _ in range(2000):
        counts[draw_candidates(Candidates.every(pbe), 4, random).heads] += 1
    assert counts[-1] == 0  # never seen as head
    assert (counts[:-1] - 400).abs().max() < 90  # mean 400, standard deviation 18


def test_corrected_candidates_stand_for_the_whole_pool():
    """The sum of a number over the pool is, on average, that of the candidates times what each stands for."""
    pbe, _ = random_pbe(0, entities=21)
    pool, random = Candidates.every(pbe), np.random.default_rng(0)
    numbers = torch.rand(21, generator=torch.Generator().manual_seed(0))
    sums = []
    for _ in range(2000):
        drawn = draw_candidates(pool, 4, random, corrected=True)
        sums.append(math.exp(drawn.log_share[Slot.TAIL]) * float(numbers[drawn.tails].sum()))
    assert np.mean(sums) == pytest.approx(float(numbers[pool.tails].sum()), rel=0.02)
    assert draw_candidates(pool, 4, random).log_share == (0, 0, 0)
    assert draw_candidates(pool, 1000, random, corrected=True).log_share == (0, 0, 0)
    nothing = replace(pool, heads=pool.heads[:0])
    assert draw_candidates(nothing, 4, random, corrected=True).log_share[Slot.HEAD] == 0


def test_the_pool_is_empty_where_no_term_has_a_weight():
    pbe, _ = random_pbe(0)
    pool = candidate_pool(pbe, settings_of(head_weight=0.0))
    assert len(pool.heads) == 0
    assert torch.equal(pool.tails, pbe.seen_tails)
    by_mention = candidate_pool(pbe, settings_of(relation_weight=0.0))
    assert len(by_mention.relations) == pbe.relations  # the mention term needs them
    assert len(candidate_pool(pbe, settings_of(relation_weight=0.0, mention_weight=0.0)).relations) == 0


triples = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=25)


@given(triples, st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_negatives_follow_the_rule_of_the_paper(rows, seed):
    """Head or tail replaced by an entity seen there with that relation; never a known fact; label -1."""
    train = beliefs([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rows])
    known = TripleIndex(train.triples, len(train.vocabularies.entities), len(train.vocabularies.relations))
    false, source = corrupt_triples(train, known, seed)
    true = train.take(source)
    assert not known.contains(false.head, false.relation, false.tail).any()
    assert (false.relation == true.relation).all()
    assert ((false.head != true.head) ^ (false.tail != true.tail)).all()
    assert (false.label == -1).all()
    for h, r, t in false.triples.tolist():
        assert h in train.head[train.relation == r]
        assert t in train.tail[train.relation == r]
    again, _ = corrupt_triples(train, known, seed)
    assert again.triples.tolist() == false.triples.tolist()


def test_heads_and_tails_are_replaced_about_equally_often():
    rows = [(f"h{i}", f"r{i % 2}", f"t{i}") for i in range(400)]
    train = beliefs(rows)
    false, source = corrupt_triples(train, TripleIndex(train.triples, 800, 2), 0)
    assert len(source) == 400
    assert 150 < (false.head != train.head).sum() < 250


def test_when_one_slot_allows_no_negative_the_other_is_corrupted():
    """a r b: every head seen with r goes with b, so only the tail can be replaced."""
    train = beliefs([("a", "r", "b"), ("c", "r", "b"), ("c", "r", "d"), ("x", "s", "y")])
    known = TripleIndex(train.triples, len(train.vocabularies.entities), 2)
    for seed in range(10):
        false, source = corrupt_triples(train, known, seed)
        assert 0 in source
        assert false.to_frame().row(source.tolist().index(0))[:3] == ("a", "r", "d")


def test_a_belief_that_cannot_be_corrupted_has_no_negative():
    train = beliefs([("a", "r", "b"), ("a", "s", "b"), ("a", "s", "c"), ("d", "s", "b")])
    false, source = corrupt_triples(train, TripleIndex(train.triples, 4, 2), 0)
    assert 0 not in source  # r has one head and one tail
    assert set(false.to_frame().select("head", "relation", "tail").rows()) == {("d", "s", "c")}


def test_negatives_from_all_entities_may_be_unseen_in_the_slot_of_the_relation():
    rows = [(f"a{i}", "r", f"b{i}") for i in range(10)] + [(f"c{i}", "s", f"d{i}") for i in range(10)]
    train = beliefs(rows)
    known = TripleIndex(train.triples, len(train.vocabularies.entities), len(train.vocabularies.relations))
    seen = {(r, h) for h, r, _ in train.triples.tolist()} | {(r, t) for _, r, t in train.triples.tolist()}

    def unseen(among):
        false, _ = corrupt_triples(train, known, 0, among)
        assert not known.contains(*false.triples.T).any()
        return sum(not {(r, h), (r, t)} <= seen for h, r, t in false.triples.tolist())

    assert unseen("relation") == 0
    assert unseen("all") > 5


@pytest.mark.parametrize("seed", range(5))
def test_a_belief_with_an_unseen_entity_keeps_it_and_has_the_other_replaced(seed):
    train = beliefs([("a", "r", "x"), ("b", "r", "y"), ("c", "r", "z")])
    test = beliefs([("new", "r", "x"), ("a", "r", "other"), ("a", "s", "x"), ("a", "r", "y")])
    encoded = test.encode(train.vocabularies)
    known = TripleIndex(train.triples, len(train.vocabularies.entities), len(train.vocabularies.relations))
    negatives, source = corrupt_triples(encoded, known, seed)
    assert source.tolist() == [0, 1, 3]  # the relation s is unknown
    assert (negatives.head[0], negatives.tail[1]) == (-1, -1)
    assert negatives.tail[0] not in (-1, encoded.tail[0])
    assert negatives.head[1] not in (-1, encoded.head[1])
