"""Eqs 4, 5 and 13–18 against the slow twin, and the gradient of the whole objective."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from doxa.data.batch import Batch
from doxa.scores.pairwise import Places
from doxa.systems import build
from doxa.training.candidates import Candidates, every_candidate
from doxa.training.gather import SparseStep
from doxa.training.objective import estimates, log_logistic, objective, softmax_estimate
from tests import reference
from tests.test_pbe import batch
from tests.worlds import assert_gradients_equal_finite_differences, beliefs, random_pbe, settings_of

ROWS = [(0, 0, 1, [0, 2]), (5, 3, 6, []), (2, 1, 2, [4]), (3, 2, 1, [0, 1, 2, 3])]
CONFIDENCE = [0.9, 0.3, float("nan"), 1.0]
HEADS, RELATIONS, TAILS = [0, 2, 4], [0, 1, 3], [1, 2, 5, 6]


def candidates():
    return Candidates(torch.tensor(HEADS), torch.tensor(RELATIONS), torch.tensor(TAILS))


def given_batch():
    b = batch(ROWS)
    return type(b)(b.head, b.relation, b.tail, b.words, b.offsets, torch.tensor(CONFIDENCE, dtype=torch.float64))


def weights_of(s):
    return {"head": s.head_weight, "relation": s.relation_weight, "tail": s.tail_weight, "said": s.mention_weight}


@given(
    st.integers(0, 10_000),
    st.sampled_from([("likelihood", "sampled"), ("likelihood", "negative"), ("confidence", "negative")]),
    st.sampled_from([1, 2]),
    st.sampled_from(["weight", "ignore"]),
)
@hypothesis_settings(max_examples=40, deadline=None)
def test_every_objective_equals_the_reference(seed, kind, norm, confidence):
    objective_name, estimator = kind
    s = settings_of(dimension=3, scale=1.5, norm=norm, objective=objective_name, estimator=estimator, negative_weight=3,
                 confidence=confidence, head_weight=0.7, relation_weight=1.3, tail_weight=0.9, mention_weight=0.4,
                 epsilon=1e-3, eta=1e-2)  # fmt: skip
    pbe, world = random_pbe(seed, norm=norm)
    found = objective(pbe, given_batch(), candidates(), s).tolist()
    for row, c, value in zip(ROWS, CONFIDENCE, found, strict=True):
        terms = reference.log_estimates(world, row, (HEADS, RELATIONS, TAILS), estimator, 3, 1e-3, 1e-2)
        if objective_name == "confidence":
            expected = reference.confidence_loss(terms, weights_of(s), c)
        else:
            expected = reference.likelihood_loss(terms, weights_of(s), c, confidence == "weight")
        assert value == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 10_000))
@hypothesis_settings(max_examples=20, deadline=None)
def test_confidence_as_label_equals_the_reference(seed):
    """c · log Pr(1|·) + (1 − c) · log Pr(0|·) in every term; a belief without confidence is wholly true."""
    s = settings_of(dimension=3, scale=1.5, confidence="label", negative_weight=3, epsilon=1e-3, eta=1e-2)
    pbe, world = random_pbe(seed)
    found = objective(pbe, given_batch(), candidates(), s).tolist()
    for row, c, value in zip(ROWS, CONFIDENCE, found, strict=True):
        true = 1.0 if math.isnan(c) else c
        drawn = (HEADS, RELATIONS, TAILS)
        terms = reference.log_estimates(world, row, drawn, "negative", 3, 1e-3, 1e-2, share=true)
        assert value == pytest.approx(reference.likelihood_loss(terms, weights_of(s), 1.0, False), abs=1e-9)


def test_with_every_candidate_the_softmax_estimate_is_exact():
    pbe, world = random_pbe(11)
    found = estimates(pbe, given_batch(), every_candidate(pbe), settings_of(estimator="exact", dimension=3, scale=1.5))
    for i, (h, r, t, words) in enumerate(ROWS):
        assert found.head[i].exp().item() == pytest.approx(reference.pr_head(world, h, r, t))
        assert found.relation[i].exp().item() == pytest.approx(reference.pr_relation(world, h, r, t))
        assert found.tail[i].exp().item() == pytest.approx(reference.pr_tail(world, h, r, t))
        said = reference.pr_relation_said(world, r, words) if words else 1.0
        assert found.said[i].exp().item() == pytest.approx(said)


def test_the_logistic_is_floored_and_never_above_one():
    x = torch.tensor([-50.0, 0.0, 50.0], dtype=torch.float64)
    assert log_logistic(x, 1e-6).tolist() == pytest.approx([math.log(1e-6), math.log(0.5 + 1e-6), 0.0])


@pytest.mark.parametrize(
    ("term", "parameter"),
    [("head_weight", "entity"), ("tail_weight", "entity"), ("relation_weight", "relation"), ("mention_weight", "word")],
)
def test_every_term_of_the_objective_moves_its_vectors(term, parameter):
    """With all other terms off, the one left still has a gradient of its own kind."""
    off = dict.fromkeys(("head_weight", "relation_weight", "tail_weight", "mention_weight"), 0.0)
    s = settings_of(dimension=3, scale=1.5, **(off | {term: 1.0}))
    pbe, world = random_pbe(12)
    loss = objective(pbe, given_batch(), candidates(), s).sum()
    loss.backward()
    table = {"entity": pbe.score.entity, "relation": pbe.score.relation, "word": pbe.mention.word}[parameter]
    assert table.weight.grad.to_dense().abs().sum() > 0.01
    name = {"head_weight": "head", "relation_weight": "relation", "tail_weight": "tail", "mention_weight": "said"}[term]
    expected = 0.0
    for row, c in zip(ROWS, CONFIDENCE, strict=True):
        terms = reference.log_estimates(world, row, (HEADS, RELATIONS, TAILS), "sampled")
        expected -= (1.0 if math.isnan(c) else c) * terms[name] / 3
    assert loss.item() == pytest.approx(expected)


@pytest.mark.parametrize(("kind", "estimator"), [("likelihood", "sampled"), ("likelihood", "negative"),
                                                 ("likelihood", "exact"), ("confidence", "negative")])  # fmt: skip
@pytest.mark.parametrize("norm", [1, 2])
def test_the_gradient_of_the_objective_equals_finite_differences(kind, estimator, norm):
    s = settings_of(dimension=3, scale=1.5, norm=norm, objective=kind, estimator=estimator, negative_weight=3)
    pbe, _ = random_pbe(13, norm=norm, estimator=estimator)
    drawn = every_candidate(pbe) if estimator == "exact" else candidates()

    def value():
        return objective(pbe, given_batch(), drawn, s).sum()

    assert_gradients_equal_finite_differences(value, pbe)


@pytest.mark.parametrize("gap", [-300.0, -80.0, 0.0, 60.0, 90.0, 2000.0])
def test_the_softmax_holds_however_far_the_truth_lies_from_the_others(gap):
    truth, others = torch.zeros(1, requires_grad=True), torch.tensor([[gap, gap - 1.0]], requires_grad=True)
    found = softmax_estimate(truth, others, Places(*torch.zeros(2, 0, dtype=torch.int64)))
    found.sum().backward()
    whole = np.logaddexp(0.0, np.logaddexp(gap, gap - 1))
    assert found.item() == pytest.approx(-whole, rel=1e-6)
    assert truth.grad.item() == pytest.approx(1 - np.exp(-whole), abs=1e-6)
    assert others.grad[0].tolist() == pytest.approx([-np.exp(gap - whole), -np.exp(gap - 1 - whole)], abs=1e-6)


@pytest.mark.parametrize("score", ["translation", "complex"])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_short_way_to_the_sum_equals_the_long_one_at_any_scale(score, scale):
    """Also where exponentials overflow in float32."""
    some = beliefs([("a", "r", "b"), ("b", "s", "c"), ("c", "r", "d"), ("d", "t", "a")])
    s = settings_of(score=score, dimension=4, scale=scale)
    pbe = build(some, s)
    batch, drawn = Batch.of(some), every_candidate(pbe)
    step = SparseStep(pbe, s).loss(batch, drawn)
    step.backward()
    short = pbe.score.entity.weight.grad.to_dense()
    pbe.zero_grad()
    whole = objective(pbe, batch, drawn, s).sum()
    whole.backward()
    assert step.item() == pytest.approx(whole.item(), rel=1e-5)
    assert torch.isfinite(short).all()
    assert torch.allclose(short, pbe.score.entity.weight.grad, rtol=1e-3, atol=1e-4 * scale)
