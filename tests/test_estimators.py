"""Estimators against the reference and finite differences: softmax, margin ranking, negative sampling (Eqs 13–18)."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from doxa.data.batch import Batch
from doxa.data.triples import TripleIndex
from doxa.estimators import (
    Candidates,
    Term,
    Vectors,
    WeightedSum,
    estimate,
    estimated_log_credence,
    find,
    fused_softmax,
    log_logistic,
    margin_ranking,
    negative_sampling,
    softmax,
    terms,
)
from doxa.scores.pairwise import Distances, Places, Products
from doxa.slots import Slot
from doxa.systems import recipe
from tests import reference
from tests.worlds import batch_of, beliefs, random_beliefs, random_pbe, row_of, settings_of

ENTITIES, RELATIONS = 7, 4
HEADS, LINKS, TAILS = [0, 2, 4, 6], [0, 1, 3], [1, 2, 5, 6]
ROWS = [(0, 0, 1, [0, 2]), (5, 3, 6, []), (2, 1, 2, [4]), (3, 2, 1, [0, 1, 2, 3])]
CONFIDENCE = [0.9, 0.3, float("nan"), 1.0]
NOWHERE = Places(*torch.zeros(2, 0, dtype=torch.int64))
STEP = 1e-6
RULES = {
    "softmax": softmax,
    "margin": partial(margin_ranking, margin=1.7),
    "negative": partial(negative_sampling, weight=3, floor=1e-3),
    "negative without floor": partial(negative_sampling, weight=3, floor=0.0),
    "label": partial(negative_sampling, weight=3, floor=1e-3, label=torch.tensor([0.2, 1.0, 0.0, 0.7]).double()),
}


def candidates():
    return Candidates(*(torch.tensor(ids) for ids in (HEADS, LINKS, TAILS)))


def table_of(others, truth, left_out):
    """One belief: its truth, its candidates' scores, and the places of true candidates."""
    columns = torch.tensor(sorted(x for x in left_out if x < len(others)), dtype=torch.int64)
    table, value = torch.tensor([others], dtype=torch.float64), torch.tensor([truth], dtype=torch.float64)
    return value, table, Places(torch.zeros_like(columns), columns)


SCORES = st.lists(st.floats(-3, 3), min_size=1, max_size=8)
LEFT_OUT = st.sets(st.integers(0, 7))


@given(SCORES, st.floats(-3, 3), LEFT_OUT, st.floats(0, 2), st.floats(0, 1), st.sampled_from([0.0, 1e-6, 0.1]))
def test_every_estimate_equals_the_reference(others, truth, left_out, margin, label, floor):
    value, table, true = table_of(others, truth, left_out)
    false = [x for i, x in enumerate(others) if i not in left_out]
    soft = torch.tensor([label], dtype=torch.float64)
    expected = {
        softmax: math.log(reference.softmax_share(truth, [truth, *false])),
        partial(margin_ranking, margin=margin): reference.hinge(truth, false, margin),
        partial(negative_sampling, weight=3, floor=floor): reference.negative_log(truth, false, 3, floor),
        partial(negative_sampling, weight=3, floor=floor, label=soft): reference.negative_log(
            truth, false, 3, floor, label
        ),
    }
    for rule, number in expected.items():
        assert rule(value, table.clone(), true).value.item() == pytest.approx(number)


def derivative(value, tensor):
    """Central differences of the sum of `value(tensor)` by every number of the tensor."""
    slopes = torch.zeros_like(tensor)
    for place in np.ndindex(*tensor.shape):
        above, below = tensor.clone(), tensor.clone()
        above[place] += STEP
        below[place] -= STEP
        slopes[place] = (value(above) - value(below)).sum() / (2 * STEP)
    return slopes


def random_scores(seed, beliefs=4, count=6):
    generator = torch.Generator().manual_seed(seed)
    truth = 2 * torch.randn(beliefs, dtype=torch.float64, generator=generator)
    table = 2 * torch.randn(beliefs, count, dtype=torch.float64, generator=generator)
    return truth, table, Places(torch.tensor([0, 0, 2]), torch.tensor([1, 4, 5]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RULES)
def test_derivatives_equal_finite_differences(name, seed):
    rule, (truth, table, true) = RULES[name], random_scores(seed)
    result = rule(truth, table.clone(), true)
    by_truth = derivative(lambda x: rule(x, table.clone(), true).value, truth)
    by_scores = derivative(lambda x: rule(truth, x.clone(), true).value, table)
    assert torch.allclose(result.by_truth, by_truth, atol=1e-6)
    assert torch.allclose(result.factor * result.weights, by_scores, atol=1e-6)
    assert (by_scores[true.rows, true.columns] == 0).all()


@pytest.mark.parametrize("floor", [0.0, 1e-6, 0.1])
def test_the_derivative_of_the_logistic_equals_finite_differences(floor):
    logits = torch.linspace(-6, 6, 41, dtype=torch.float64)
    _, slope = log_logistic(logits, floor)
    assert torch.allclose(slope, derivative(lambda x: log_logistic(x, floor)[0], logits), atol=1e-6)


def test_the_logistic_has_a_floor_and_is_at_most_one():
    logits = torch.tensor([-50.0, 0.0, 50.0], dtype=torch.float64)
    value, slope = log_logistic(logits, 1e-6)
    assert value.tolist() == pytest.approx([math.log(1e-6), math.log(0.5 + 1e-6), 0.0])
    assert slope.tolist() == pytest.approx([0.0, 0.5 * 0.5 / (0.5 + 1e-6), 0.0])
    value, slope = log_logistic(logits, 0.0)
    assert value.tolist() == pytest.approx([-50.0, math.log(0.5), 0.0])
    assert slope.tolist() == pytest.approx([1.0, 0.5, 0.0])


def test_a_true_candidate_may_score_as_high_as_it_likes():
    """Only the other candidate remains beside the truth."""
    first = Places(torch.tensor([0]), torch.tensor([0]))
    for height in (0.0, 50.0, 500.0):
        result = softmax(torch.tensor([1.0]), torch.tensor([[height, 0.0]]), first)
        assert result.value.item() == pytest.approx(-np.log(1 + np.exp(-1)), rel=1e-5)


def test_no_negative_within_the_margin_costs_nothing():
    result = margin_ranking(torch.zeros(2), torch.tensor([[-1.0, -2.0], [0.5, -2.0]]), NOWHERE, 1.0)
    assert result.value.tolist() == [0.0, -0.75]
    assert result.by_truth.tolist() == [0.0, 0.5]


@pytest.mark.parametrize("name", RULES)
def test_a_belief_without_negatives_has_finite_estimates(name):
    truth, table, _ = random_scores(5)
    every = Places(torch.arange(4).repeat_interleave(6), torch.arange(6).repeat(4))
    for scores, true in ((table, every), (table[:, :0], NOWHERE)):
        result = RULES[name](truth, scores.clone(), true)
        assert torch.isfinite(result.value).all()
        assert torch.isfinite(result.by_truth).all()
        assert (result.factor * result.weights == 0).all()


@pytest.mark.parametrize("estimator", ["sampled", "negative", "margin"])
def test_an_estimate_leaves_the_table_of_scores_as_it_was(estimator):
    truth, table, true = random_scores(6)
    before = table.clone()
    how = {"objective": "margin"} if estimator == "margin" else {"estimator": estimator}
    estimate(Term("tail", 1.0, truth, table, true, 1e-6), batch_of(ROWS), settings_of(**how))
    assert torch.equal(table, before)


@pytest.mark.parametrize("gap", [-300.0, -80.0, 0.0, 60.0, 90.0, 2000.0])
def test_the_softmax_is_exact_however_far_the_truth_lies_from_the_others(gap):
    result = softmax(torch.zeros(1), torch.tensor([[gap, gap - 1.0]]), NOWHERE)
    whole = np.logaddexp(0.0, np.logaddexp(gap, gap - 1))
    assert result.value.item() == pytest.approx(-whole, rel=1e-6)
    assert result.by_truth.item() == pytest.approx(1 - np.exp(-whole), abs=1e-6)
    by_scores = (result.factor * result.weights)[0].tolist()
    assert by_scores == pytest.approx([-np.exp(gap - whole), -np.exp(gap - 1 - whole)], abs=1e-6)


def random_pairs(kind, seed, slope=None):
    generator = torch.Generator().manual_seed(seed)
    points, others = (torch.randn(count, 3, dtype=torch.float64, generator=generator) for count in (4, 6))
    slope = slope or (-1.5 if kind is Distances else 1.5)
    return kind(points, others, slope, torch.tensor(0.8, dtype=torch.float64))


def weighted_sum(term, rule, weights):
    return WeightedSum.apply(*term.inputs, rule, weights)


@pytest.mark.parametrize("kind", [Products, Distances])
@pytest.mark.parametrize("seed", range(3))
def test_the_fused_softmax_equals_the_softmax(kind, seed):
    scores, (truth, _, true) = random_pairs(kind, seed), random_scores(seed)
    plain, fused = softmax(truth, scores.table(), true), fused_softmax(truth, scores, true)
    assert torch.allclose(fused.value, plain.value)
    assert torch.allclose(fused.by_truth, plain.by_truth)
    values = scores.values(scores.points, scores.candidates)
    expected = scores.weights(plain.factor * plain.weights, values)
    assert torch.allclose(fused.factor * fused.weights, expected)


def test_the_fused_softmax_gives_way_where_exponentials_overflow():
    scores = random_pairs(Products, 0, slope=1e4)
    assert fused_softmax(torch.zeros(4, dtype=torch.float64), scores, NOWHERE) is None
    scores = random_pairs(Products, 0)
    assert fused_softmax(torch.zeros(4, dtype=torch.float64), scores, NOWHERE) is not None


@pytest.mark.parametrize(
    ("kind", "name", "slope"),
    [*((kind, name, None) for kind in (Products, Distances) for name in RULES), (Products, "softmax", 1e3)],
)
def test_the_gradient_of_a_weighted_sum_equals_finite_differences(kind, name, slope):
    """By the truth, by the vectors on both sides and by the offset; also where exponentials overflow."""
    pairs, (truth, _, true) = random_pairs(kind, 1, slope), random_scores(1)
    weights = torch.tensor([0.5, -1.0, 0.0, 2.0], dtype=torch.float64)
    inputs = [truth, pairs.points, pairs.candidates, pairs.offset]

    def total(truth, points, candidates, offset):
        scores = kind(points, candidates, pairs.slope, offset)
        return weighted_sum(Term("tail", 1.0, truth, scores, true, 0.0), RULES[name], weights)

    assert_gradients(total, inputs)


def assert_gradients(total, inputs):
    """Backpropagate three times the total and compare with central differences by every input."""
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    (3 * total(*leaves)).backward()
    for place, leaf in enumerate(leaves):

        def value(tensor, place=place):
            return 3 * total(*inputs[:place], tensor, *inputs[place + 1 :])

        expected = derivative(value, inputs[place])
        assert torch.allclose(leaf.grad, expected, rtol=1e-5, atol=1e-5), place


@pytest.mark.parametrize("name", RULES)
def test_the_gradient_of_a_weighted_sum_of_a_table_equals_finite_differences(name):
    truth, table, true = random_scores(2)
    weights = torch.tensor([0.5, -1.0, 0.0, 2.0], dtype=torch.float64)
    before = table.clone()

    def total(truth, scores):
        return weighted_sum(Term("tail", 1.0, truth, scores, true, 0.0), RULES[name], weights)

    expected = (RULES[name](truth, table.clone(), true).value * weights).sum().item()
    assert total(truth, table).item() == pytest.approx(expected)
    assert_gradients(total, [truth, table])
    assert torch.equal(table, before)


@pytest.mark.parametrize("estimator", ["sampled", "negative"])
@pytest.mark.parametrize("norm", [1, 2])
def test_vectors_give_the_same_sum_and_gradients_as_ids(estimator, norm):
    """The path that training takes, with α trained: its gradient comes from the truth and from the candidates."""
    s = settings_of(dimension=3, scale=1.5, norm=norm, estimator=estimator, negative_weight=3)
    pbe, _ = random_pbe(21, norm=norm, estimator="negative")
    batch, drawn = batch_of(ROWS, CONFIDENCE), candidates()
    weights = torch.tensor([0.5, 1.0, 0.3, 2.0], dtype=torch.float64)

    def gradients(vectors):
        pbe.zero_grad()
        rule = RULES["softmax"] if estimator == "sampled" else partial(negative_sampling, weight=3, floor=1e-6)
        total = sum(weighted_sum(term, rule, weights) for term in terms(pbe, batch, drawn, s, vectors))
        total.backward()
        return total.item(), {n: p.grad.to_dense().clone() for n, p in pbe.named_parameters() if p.grad is not None}

    entity, relation = pbe.score.entity, pbe.score.relation
    of_batch = entity(batch.head), relation(batch.relation), entity(batch.tail)
    vectors = Vectors(*of_batch, entity(drawn.heads), relation(drawn.relations), entity(drawn.tails))
    total, by_vectors = gradients(vectors)
    expected, by_ids = gradients(None)
    assert total == pytest.approx(expected)
    assert "score.alpha" in by_ids
    assert by_ids.keys() == by_vectors.keys()
    for name, gradient in by_ids.items():
        assert torch.allclose(by_vectors[name], gradient, atol=1e-9), name


def estimates(pbe, batch, drawn, settings):
    """The estimate of every term by name; 0 for the mention term of a belief without mention."""
    values = {term.name: estimate(term, batch, settings) for term in terms(pbe, batch, drawn, settings)}
    if "mention" in values:
        values["mention"] = values["mention"].masked_fill(~batch.mentioned, 0.0)
    return values


def test_with_every_candidate_the_softmax_is_exact():
    pbe, world = random_pbe(11, loops=False)
    settings = settings_of(estimator="exact", dimension=3, scale=1.5)
    values = estimates(pbe, batch_of(ROWS), Candidates.every(pbe), settings)
    for i, (h, r, t, words) in enumerate(ROWS):
        assert values["head"][i].exp().item() == pytest.approx(reference.pr_head(world, h, r, t))
        assert values["relation"][i].exp().item() == pytest.approx(reference.pr_relation(world, h, r, t))
        assert values["tail"][i].exp().item() == pytest.approx(reference.pr_tail(world, h, r, t))
        by_mention = reference.pr_relation_by_mention(world, r, words) if words else 1.0
        assert values["mention"][i].exp().item() == pytest.approx(by_mention)


@given(st.integers(0, 10_000), st.sampled_from(["sampled", "negative"]))
@hypothesis_settings(max_examples=20)
def test_every_estimator_can_leave_known_facts_out(seed, estimator):
    s = settings_of(dimension=3, scale=1.5, estimator=estimator, negative_weight=3)
    pbe, world = random_pbe(seed)
    train, rows = random_beliefs(seed)
    batch = Batch.of(train, rows)
    drawn = candidates().without_known(batch, TripleIndex(train.triples, ENTITIES, RELATIONS))
    values = estimates(pbe, batch, drawn, s)
    known = [tuple(triple) for triple in train.triples.tolist()]
    for i, row in enumerate(rows):
        expected = reference.log_estimates(world, row_of(train, row), (HEADS, LINKS, TAILS), estimator, 3, known=known)
        assert {name: values[name][i].item() if name in values else 0.0 for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("label", [False, True])
def test_the_estimated_log_credence_equals_the_reference(label):
    weights = {"head_weight": 0.7, "relation_weight": 1.3, "tail_weight": 0.9, "mention_weight": 0.4}
    how = {"confidence": "label"} if label else {"estimator": "negative"}
    s = settings_of(dimension=3, scale=1.5, negative_weight=3, epsilon=1e-3, eta=1e-2, **weights, **how)
    pbe, world = random_pbe(22)
    values = estimated_log_credence(pbe, batch_of(ROWS, CONFIDENCE), candidates(), s).tolist()
    by_term = {name.removesuffix("_weight"): weight for name, weight in weights.items()}
    for row, confidence, value in zip(ROWS, CONFIDENCE, values, strict=True):
        soft = confidence if label and not math.isnan(confidence) else 1.0
        parts = reference.log_estimates(world, row, (HEADS, LINKS, TAILS), "negative", 3, 1e-3, 1e-2, label=soft)
        assert value == pytest.approx(reference.log_credence(parts, by_term), abs=1e-9)


def test_jrme_has_a_relation_term_and_a_mention_term_alone():
    """[γ + D(h,r′,t) − D(h,r,t)]₊ and [γ + F(r′,m) − F(r,m)]₊, no head and no tail replaced."""
    settings = recipe({"system": "jrme", "dimension": 3})
    pbe, _ = random_pbe(1)
    train, rows = random_beliefs(1)
    values = estimates(pbe, Batch.of(train, rows), candidates(), settings)
    assert values.keys() == {"relation", "mention"}
    assert (values["relation"] < 0).any()
    assert (values["mention"] < 0).any()
    assert settings.mentions
    assert settings.training_estimator == "margin"


triples = st.lists(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
    min_size=1,
    max_size=30,
)


@given(triples, st.integers(0, 99))
def test_exactly_the_known_candidates_are_left_out(known, seed):
    train = beliefs([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in known])
    random = np.random.default_rng(seed)
    rows = random.integers(0, len(train), 5)
    sizes = len(train.vocabularies.entities), len(train.vocabularies.relations), len(train.vocabularies.entities)
    drawn = Candidates(*(torch.from_numpy(np.flatnonzero(random.random(n) < 0.7)) for n in sizes))
    assume(all(len(drawn.of(slot)) for slot in Slot))
    batch = Batch.of(train, rows)
    filtered = drawn.without_known(batch, TripleIndex(train.triples, sizes[0], sizes[1]))
    facts = set(map(tuple, train.triples.tolist()))
    for slot in Slot:
        expected, itself = set(), set()
        for i, row in enumerate(rows):
            for j, x in enumerate(drawn.of(slot).tolist()):
                triple = train.triples[row].tolist()
                if triple[slot] == x:
                    itself.add((i, j))
                triple[slot] = x
                if tuple(triple) in facts:
                    expected.add((i, j))
        places, alone = filtered.true_places(batch)[slot], drawn.true_places(batch)[slot]
        assert set(zip(*(part.tolist() for part in places), strict=True)) == expected
        assert len(places.rows) == len(expected)
        assert set(zip(*(part.tolist() for part in alone), strict=True)) == itself
        assert torch.equal(filtered.of(slot), drawn.of(slot))


def test_ids_are_located_among_candidates():
    places = find(torch.tensor([4, 1, 9, 4]), torch.tensor([1, 3, 4]))
    assert places.rows.tolist() == [0, 1, 3]
    assert places.columns.tolist() == [2, 0, 2]
