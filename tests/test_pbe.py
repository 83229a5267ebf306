"""Eqs 1, 6–12 against the slow twin, in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from tests import reference
from tests.worlds import beliefs, random_pbe

SEEDS = st.integers(0, 10_000)
NORMS = st.sampled_from([1, 2])


def batch(rows):
    """rows of (h, r, t, words) → Batch"""
    h, r, t = (torch.tensor([row[i] for row in rows]) for i in range(3))
    lengths = [len(row[3]) for row in rows]
    words = torch.tensor([w for row in rows for w in row[3]], dtype=torch.long)
    offsets = torch.tensor(np.concatenate([[0], np.cumsum(lengths)]))
    return Batch(h, r, t, words, offsets, torch.full((len(rows),), float("nan"), dtype=torch.float64))


ROWS = [(0, 0, 1, [0, 2]), (5, 3, 6, []), (2, 1, 2, [4]), (3, 2, 1, [0, 1, 2, 3])]


@given(SEEDS, NORMS)
@settings(max_examples=25, deadline=None)
def test_probabilities_equal_the_reference(seed, norm):
    pbe, world = random_pbe(seed, norm=norm)
    b = batch(ROWS)
    tails = pbe.log_tails(b.head, b.relation).exp()
    heads = pbe.log_heads(b.relation, b.tail).exp()
    relations = pbe.log_relations(b.head, b.tail).exp()
    said = pbe.log_relations_said(b.words, b.offsets).exp()
    both = pbe.log_relations_with_mention(b.head, b.tail, b.words, b.offsets).exp()
    for i, (h, r, t, words) in enumerate(ROWS):
        assert np.allclose(tails[i].tolist(), [reference.pr_tail(world, h, r, x) for x in world.seen_tails], atol=1e-9)
        assert np.allclose(heads[i].tolist(), [reference.pr_head(world, x, r, t) for x in world.seen_heads], atol=1e-9)
        assert np.allclose(relations[i].tolist(), [reference.pr_relation(world, h, x, t) for x in world.relations])
        assert np.allclose(said[i].tolist(), [reference.pr_relation_said(world, x, words) for x in world.relations])
        expected = [reference.pr_relation_with_mention(world, h, x, t, words) for x in world.relations]
        assert np.allclose(both[i].tolist(), expected)
    pbe.mention_exponent.fill_(0.3)
    less = pbe.log_relations_with_mention(b.head, b.tail, b.words, b.offsets).exp()
    for i, (h, _, t, words) in enumerate(ROWS):
        expected = [reference.pr_relation_with_mention(world, h, x, t, words, 0.3) for x in world.relations]
        assert np.allclose(less[i].tolist(), expected)


@given(SEEDS, NORMS)
@settings(max_examples=25, deadline=None)
def test_credence_is_the_geometric_mean_of_the_three_terms(seed, norm):
    pbe, world = random_pbe(seed, norm=norm)
    expected = [reference.credence(world, *row) for row in ROWS]
    assert np.allclose(pbe.log_credence(batch(ROWS)).exp().tolist(), expected, atol=1e-9)


def test_each_question_sums_to_one():
    pbe, _ = random_pbe(1)
    b = batch(ROWS)
    for logs in (
        pbe.log_tails(b.head, b.relation),
        pbe.log_heads(b.relation, b.tail),
        pbe.log_relations(b.head, b.tail),
        pbe.log_relations_with_mention(b.head, b.tail, b.words, b.offsets),
    ):
        assert torch.allclose(logs.exp().sum(1), torch.ones(len(b), dtype=torch.float64))


def test_an_entity_never_seen_in_its_position_joins_the_candidates():
    pbe, world = random_pbe(2)
    head, tail = 6, 0  # neither is in E_h, E_t
    b = batch([(head, 1, tail, [])])
    value = reference.score(world, head, 1, tail)
    others = [reference.score(world, head, 1, x) for x in world.seen_tails]
    expected = reference.softmax_share(value, [value, *others])
    assert pbe.log_terms(b)[0, 2].exp().item() == pytest.approx(expected)


def test_without_a_mention_term_words_say_nothing():
    pbe, world = random_pbe(3, mentions=False)
    b = batch(ROWS)
    assert pbe.mention is None
    expected = [reference.credence(world, h, r, t, []) for h, r, t, _ in ROWS]
    assert np.allclose(pbe.log_credence(b).exp().tolist(), expected)


def test_a_batch_is_the_rows_of_the_beliefs():
    some = beliefs([("a", "r", "b", "x y"), ("b", "s", "c", None), ("c", "r", "a", "z y")],
                   ("head", "relation", "tail", "mention"))  # fmt: skip
    b = Batch.of(some, np.array([2, 1]))
    assert isinstance(some, Beliefs)
    assert b.head.tolist() == some.head[[2, 1]].tolist()
    assert [some.vocabularies.words[w] for w in b.words.tolist()] == ["z", "y"]
    assert b.mentioned.tolist() == [True, False]


def test_blocks_cover_every_row_once_within_bounds(monkeypatch):
    pbe, _ = random_pbe(0)
    monkeypatch.setattr("doxa.pbe.BLOCK_BYTES", 4 * 7 * 3)
    monkeypatch.setattr("doxa.pbe.BLOCK_ROWS", 2)
    blocks = list(pbe.blocks(8))
    assert [len(block) for block in blocks] == [3, 3, 2]
    assert np.concatenate(blocks).tolist() == list(range(8))
