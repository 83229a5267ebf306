"""Eqs 1, 6–12 against the reference, in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.pbe import log_credence
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.systems import assemble
from tests import reference
from tests.worlds import batch_of, beliefs, random_pbe, settings_of

SEEDS = st.integers(0, 10_000)
NORMS = st.sampled_from([1, 2])
ROWS = [(0, 0, 1, [0, 2]), (5, 3, 6, []), (2, 1, 2, [4]), (3, 2, 1, [0, 1, 2, 3])]


def replaced(slot, row, candidate):
    """The ids of a row with a candidate in one slot."""
    return tuple(candidate if slot == column else row[column] for column in Slot)


PROBABILITY = {Slot.HEAD: reference.pr_head, Slot.RELATION: reference.pr_relation, Slot.TAIL: reference.pr_tail}


def probabilities(pbe, slot, batch, **options):
    """Pr of every candidate of a slot, (B, C), in the order of `pbe.seen`; the softmax may have further columns."""
    distribution = pbe.distribution(slot, batch, **options)
    values = distribution.log_probabilities.exp()
    others = ~torch.isin(distribution.columns, pbe.seen[slot])
    assert (values[:, others] == 0).all()
    return values[:, ~others]


@given(SEEDS, NORMS)
@settings(max_examples=25, deadline=None)
def test_probabilities_equal_the_reference(seed, norm):
    pbe, world = random_pbe(seed, norm=norm)
    batch = batch_of(ROWS)
    by_slot = {slot: probabilities(pbe, slot, batch) for slot in Slot}
    by_mention = pbe.mention_distribution(batch).log_probabilities.exp()
    by_both = pbe.relation_distribution(batch).log_probabilities.exp()
    for i, row in enumerate(ROWS):
        h, _, t, words = row
        for slot, expected in PROBABILITY.items():
            values = [expected(world, *replaced(slot, row, x)) for x in pbe.seen[slot].tolist()]
            assert np.allclose(by_slot[slot][i].tolist(), values, atol=1e-9)
        values = [reference.pr_relation_by_mention(world, x, words) for x in world.relations]
        assert np.allclose(by_mention[i].tolist(), values)
        values = [reference.pr_relation_with_mention(world, h, x, t, words) for x in world.relations]
        assert np.allclose(by_both[i].tolist(), values)
    weaker = pbe.relation_distribution(batch, mention_exponent=0.3).log_probabilities.exp()
    for i, (h, _, t, words) in enumerate(ROWS):
        values = [reference.pr_relation_with_mention(world, h, x, t, words, 0.3) for x in world.relations]
        assert np.allclose(weaker[i].tolist(), values)


@given(SEEDS, NORMS)
@settings(max_examples=25, deadline=None)
def test_credence_is_the_geometric_mean_of_the_three_terms(seed, norm):
    pbe, world = random_pbe(seed, norm=norm)
    expected = [reference.credence(world, *row) for row in ROWS]
    terms = pbe.log_terms(batch_of(ROWS))
    assert np.allclose(log_credence(terms).exp().tolist(), expected, atol=1e-9)
    assert np.allclose(np.exp(log_credence(terms.detach().numpy())), expected, atol=1e-9)


def test_the_mention_exponent_reaches_the_terms():
    pbe, world = random_pbe(7)
    terms = pbe.log_terms(batch_of(ROWS), mention_exponent=0.3)
    expected = [reference.pr_relation_with_mention(world, h, r, t, words, 0.3) for h, r, t, words in ROWS]
    assert np.allclose(terms[:, Slot.RELATION].exp().tolist(), expected)


def test_the_logits_of_every_slot_agree_with_the_logit_of_the_belief():
    pbe, world = random_pbe(8)
    batch = batch_of(ROWS)
    truth = pbe.logit(batch)
    assert truth.tolist() == pytest.approx([reference.score(world, h, r, t) for h, r, t, _ in ROWS])
    for slot in Slot:
        every = pbe.logits(slot, batch)
        assert torch.allclose(every.gather(1, batch.column(slot)[:, None]).squeeze(1), truth, atol=1e-6)
        candidates = torch.tensor([3, 0])
        assert torch.allclose(pbe.logits(slot, batch, candidates), every[:, candidates])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 6)), max_size=30))
@settings(max_examples=25, deadline=None)
def test_the_loop_factor_is_the_share_of_self_loops_among_the_facts(rows):
    pbe, _ = random_pbe(0)
    facts = sorted(set(rows))
    pbe.count_loops(TripleIndex(np.array(facts, np.int64).reshape(-1, 3), 7, 4))
    expected = [reference.loop_factor(facts, relation) for relation in range(4)]
    assert pbe.log_loop_factor.exp().tolist() == pytest.approx(expected)


def test_a_relation_without_self_loops_gives_them_about_no_probability():
    """Relation 0 has none among its facts, relation 1 has nothing else."""
    pbe, _ = random_pbe(4)
    facts = [(h, 0, t) for h in range(6) for t in range(1, 7) if h != t] + [(e, 1, e) for e in range(1, 6)]
    pbe.count_loops(TripleIndex(np.array(facts), 7, 4))
    batch = batch_of([(3, 0, 3, []), (3, 1, 3, [])])
    raw, answered = pbe.logits(Slot.TAIL, batch), pbe.answer_logits(Slot.TAIL, batch)
    assert answered[1].tolist() == pytest.approx(raw[1].tolist())
    other = torch.arange(7) != 3
    assert answered[0, other].tolist() == pytest.approx(raw[0, other].tolist())
    assert answered[0, 3].item() == pytest.approx(raw[0, 3].item() + math.log(reference.loop_factor(facts, 0)))
    shares = pbe.distribution(Slot.RELATION, batch).log_probabilities.exp()
    without = pbe.logits(Slot.RELATION, batch).softmax(1)
    assert (shares[:, 0] < without[:, 0]).all()
    assert (shares[:, 1] > without[:, 1]).all()


def test_a_score_without_relations_has_a_logit_of_its_own_for_each_of_them():
    """Its table is one column, expanded; what is added to one relation must not be added to the others."""
    seen = torch.arange(7)
    settings = settings_of(dimension=3, scale=1.0, score="unstructured")
    pbe = assemble(settings, entities=7, relations=4, words=0, seen_heads=seen, seen_tails=seen)
    pbe.log_loop_factor = torch.linspace(-3, 0, 4)
    batch = batch_of([(3, 0, 3, []), (2, 1, 4, [])])
    with torch.no_grad():  # without gradients, tables are changed in place
        raw, answered = pbe.logits(Slot.RELATION, batch), pbe.answer_logits(Slot.RELATION, batch)
    assert torch.allclose(answered[0], raw[0] + pbe.log_loop_factor)
    assert torch.allclose(answered[1], raw[1])


def test_the_loop_factor_leaves_gradients_of_the_terms_right():
    pbe, _ = random_pbe(6)
    batch = batch_of([(3, 0, 3, []), (2, 1, 4, [])])
    weight = pbe.score.entity.weight
    (gradient,) = torch.autograd.grad(pbe.log_terms(batch).sum(), weight)
    step = 1e-6 * torch.ones_like(weight[3])
    with torch.no_grad():
        values = []
        for sign in (1, -1):
            weight[3] += sign * step
            values.append(pbe.log_terms(batch).sum().item())
            weight[3] -= sign * step
    gradient = gradient.to_dense() if gradient.is_sparse else gradient
    assert (values[0] - values[1]) / 2e-6 == pytest.approx(gradient[3].sum().item(), rel=1e-4)


@pytest.mark.parametrize("few", [True, False], ids=["few seen", "most seen"])
def test_each_query_sums_to_one(few):
    """Whether only the candidates are scored, or all entities and the others dropped."""
    pbe, world = random_pbe(1)
    if few:
        pbe.seen_heads, pbe.seen_tails = torch.tensor([1, 4]), torch.tensor([0, 2, 3])
        world.seen_heads, world.seen_tails = [1, 4], [0, 2, 3]
    batch = batch_of(ROWS)
    for slot in Slot:
        values = probabilities(pbe, slot, batch)
        assert values.shape == (len(ROWS), len(pbe.seen[slot]))
        assert torch.allclose(values.sum(1), torch.ones(len(batch), dtype=torch.float64))
    total = pbe.relation_distribution(batch).log_probabilities.exp().sum(1)
    assert torch.allclose(total, torch.ones(len(batch), dtype=torch.float64))
    tails = [[reference.pr_tail(world, h, r, x) for x in world.seen_tails] for h, r, _, _ in ROWS]
    assert np.allclose(probabilities(pbe, Slot.TAIL, batch).tolist(), tails, atol=1e-9)


@pytest.mark.parametrize("slot", Slot)
def test_known_answers_can_be_left_out_of_a_distribution(slot):
    """The others share their probability as a softmax over the candidates that are left."""
    pbe, _ = random_pbe(9)
    batch = batch_of(ROWS)
    known = np.array([0, 0, 2]), np.array([1, 3, 2])
    whole, rest = pbe.distribution(slot, batch), pbe.distribution(slot, batch, without=known)
    for i in range(len(ROWS)):
        dropped = torch.isin(whole.columns, torch.tensor(known[1][known[0] == i]))
        kept = whole.log_probabilities[i].exp().masked_fill(dropped, 0)
        assert torch.allclose(rest.log_probabilities[i].exp(), kept / kept.sum())


@pytest.mark.parametrize("slot", Slot)
def test_a_temperature_flattens_or_sharpens_a_distribution(slot):
    pbe, _ = random_pbe(10)
    batch = batch_of(ROWS)
    plain, flat = probabilities(pbe, slot, batch), probabilities(pbe, slot, batch, temperature=2.5)
    powers = plain ** (1 / 2.5)
    assert torch.allclose(flat, powers / powers.sum(1, keepdim=True))


def test_an_entity_never_seen_in_its_slot_joins_the_candidates():
    pbe, world = random_pbe(2)
    head, tail = 6, 0  # neither is in E_h, E_t
    terms = pbe.log_terms(batch_of([(head, 1, tail, [])]))
    value = reference.belief_score(world, head, 1, tail)
    for slot, seen in zip(ENTITY_SLOTS, (world.seen_heads, world.seen_tails), strict=True):
        others = [reference.belief_score(world, *replaced(slot, (head, 1, tail), x)) for x in seen]
        expected = reference.softmax_share(value, [value, *others])
        assert terms[0, slot].exp().item() == pytest.approx(expected)


@pytest.mark.parametrize("seen", [[1, 4], [0, 1, 3, 4, 5]], ids=["few seen", "most seen"])
def test_an_entity_never_seen_as_head_joins_the_candidates_of_its_own_query_alone(seen):
    """Of two beliefs with the same relation and tail, only the one with the unseen head has one candidate more."""
    pbe, world = random_pbe(4)
    pbe.seen_heads = torch.tensor(seen)
    by_head = {x: reference.score(world, x, 1, 2) for x in (*seen, 6)}
    terms = pbe.log_terms(batch_of([(6, 1, 2, []), (1, 1, 2, [])]))
    expected = [
        reference.softmax_share(by_head[6], list(by_head.values())),
        reference.softmax_share(by_head[1], [by_head[x] for x in seen]),
    ]
    assert terms[:, Slot.HEAD].exp().tolist() == pytest.approx(expected)


def test_candidates_follow_when_the_seen_entities_are_replaced():
    pbe, *_ = random_pbe(0)
    batch = batch_of(ROWS)
    for seen in (torch.arange(pbe.entities), torch.arange(1, pbe.entities)):
        pbe.seen_tails = seen
        assert probabilities(pbe, Slot.TAIL, batch).shape == (len(ROWS), len(seen))


def test_without_a_mention_term_words_change_nothing():
    pbe, world = random_pbe(3, mentions=False)
    assert pbe.mention is None
    expected = [reference.credence(world, h, r, t, []) for h, r, t, _ in ROWS]
    assert np.allclose(log_credence(pbe.log_terms(batch_of(ROWS))).exp().tolist(), expected)


def test_a_batch_is_the_rows_of_the_beliefs():
    train = beliefs([("a", "r", "b", "x y"), ("b", "s", "c", None), ("c", "r", "a", "z y")],
                    ("head", "relation", "tail", "mention"))  # fmt: skip
    batch = Batch.of(train, np.array([2, 1]))
    assert isinstance(train, Beliefs)
    assert batch.head.tolist() == train.head[[2, 1]].tolist()
    assert [train.vocabularies.words[w] for w in batch.words.tolist()] == ["z", "y"]
    assert batch.mentioned.tolist() == [True, False]


def test_blocks_cover_every_row_once_within_bounds(monkeypatch):
    pbe, _ = random_pbe(0)
    monkeypatch.setattr("doxa.data.blocks.BLOCK_BYTES", 4 * 7 * 3)
    monkeypatch.setattr("doxa.data.blocks.BLOCK_ROWS", 2)
    blocks = list(pbe.blocks(8))
    assert [len(block) for block in blocks] == [3, 3, 2]
    assert np.concatenate(blocks).tolist() == list(range(8))
    assert [len(block) for block in pbe.blocks(3, memory=1)] == [1, 1, 1]
