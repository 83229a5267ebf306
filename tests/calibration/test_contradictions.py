"""Contradictions: a second answer to a query that rarely has two lowers credence."""

import math
from dataclasses import replace

import numpy as np
import pytest

from doxa.calibration.contradictions import LEAST, Contradictions, fit_contradictions, surprise
from doxa.calibration.curves import Curve
from doxa.calibration.labels import fit_adjustment
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.inference import judge
from doxa.slots import ENTITY_SLOTS, Slot
from tests import reference
from tests.worlds import random_model


def several_share(facts, relation, column):
    """The share of queries of a relation with several answers in that column; one query of each kind is added."""
    answers = {}
    for fact in facts:
        if fact[1] == relation:
            answers.setdefault(fact[2 - column], set()).add(fact[column])
    return (sum(len(group) > 1 for group in answers.values()) + 1) / (len(answers) + 2)


def other_share(facts, relation, column):
    """The share of facts of a relation that only differ from another in that column; one of each kind is added."""
    alike = [fact for fact in facts if fact[1] == relation]
    others = [any(a != b and a[2 - column] == b[2 - column] for b in alike) for a in alike]
    return (sum(others) + 1) / (len(alike) + 2)


def slow_surprise(world, facts, belief):
    """The sum over both queries of − log of the share of facts with another answer, where a known fact contradicts."""
    total = 0.0
    for column in (0, 2):
        others = [fact for fact in facts if fact[1] == belief[1] and fact[2 - column] == belief[2 - column]]
        others = [fact for fact in others if fact != belief]
        if belief in facts:
            others = [f for f in others if reference.belief_score(world, *f) > reference.belief_score(world, *belief)]
        each = -math.log(other_share(facts, belief[1], column))
        total += each if others and each >= LEAST else 0.0
    return total


def few_answers(seed):
    """A random model whose relations have mostly one answer, its world and its facts."""
    model, world = random_model(seed, facts=14)
    facts = {tuple(fact) for fact in model.train.tolist()}
    return model, world, facts


@pytest.mark.parametrize("seed", range(4))
def test_the_surprise_is_that_of_the_twin(seed):
    model, world, facts = few_answers(seed)
    every = [(h, r, t) for h in range(12) for r in range(4) for t in range(12)]
    beliefs = Beliefs.from_triples(model.vocabularies, np.array(every))
    expected = [slow_surprise(world, facts, belief) for belief in every]
    assert surprise(model.pbe, beliefs, model.known).tolist() == pytest.approx(expected)
    assert 0 < np.count_nonzero(expected) < len(every)


@pytest.mark.parametrize("slot", ENTITY_SLOTS)
def test_the_share_of_queries_with_several_answers_is_that_of_the_twin(slot):
    model, _, facts = few_answers(1)
    expected = [several_share(facts, relation, int(slot)) for relation in range(4)]
    assert model.known.several_answers(slot).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("slot", ENTITY_SLOTS)
def test_the_share_of_facts_with_another_answer_is_that_of_the_twin(slot):
    model, _, facts = few_answers(1)
    expected = [other_share(facts, relation, int(slot)) for relation in range(4)]
    assert model.known.facts_with_others(slot).tolist() == pytest.approx(expected)


def test_a_query_with_most_of_the_facts_makes_second_answers_usual():
    """Nine heads have one tail and one head has twenty: a true belief is likely about the latter."""
    rows = [(head, 0, head + 20) for head in range(1, 10)] + [(0, 0, tail) for tail in range(10, 30)]
    index = TripleIndex(np.array(rows), 40, 1)
    assert index.several_answers(Slot.TAIL) == pytest.approx([2 / 12])
    assert index.facts_with_others(Slot.TAIL) == pytest.approx([21 / 31])


def test_where_many_queries_have_several_answers_nothing_is_contradicted():
    facts = np.array([(h, 0, t) for h in range(5) for t in range(5, 10)])
    model, _ = random_model(0)
    beliefs = Beliefs.from_triples(model.vocabularies, np.array([(0, 0, 11), (11, 0, 5)]))
    nothing = surprise(model.pbe, beliefs, TripleIndex(facts, 12, 4))
    assert np.isnan(nothing).all()
    assert Contradictions(shift=2.0).against(nothing).tolist() == [0.0, 0.0]


def test_the_shift_is_the_best_for_beliefs_without_contradiction():
    random = np.random.default_rng(0)
    log_odds = random.normal(size=4000)
    against = np.where(random.random(4000) < 0.3, 2.0, 0.0)
    true = random.random(4000) < 1 / (1 + np.exp(-(log_odds + 0.8)))
    fitted = fit_contradictions(log_odds, against, true)
    assert fitted.shift == pytest.approx(0.8, abs=0.1)
    assert fitted.against(np.array([0.0, 2.0])).tolist() == pytest.approx([-fitted.shift, 2.0 * fitted.scale])
    assert fit_contradictions(log_odds, np.zeros(4000), true) == Contradictions()


@pytest.mark.parametrize("scale", [0.0, 0.3, 0.9, 1.4])
def test_the_scale_is_what_contradictions_are_worth(scale):
    random = np.random.default_rng(1)
    log_odds, against = random.normal(size=4000), np.where(random.random(4000) < 0.5, 2.0, 0.0)
    true = random.random(4000) < 1 / (1 + np.exp(-(log_odds - scale * against)))
    assert fit_contradictions(log_odds, against, true).scale == pytest.approx(scale, abs=0.06)


def test_a_few_beliefs_hardly_move_the_scale():
    log_odds, against = np.zeros(6), np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    fitted = fit_contradictions(log_odds, against, np.array([True, False, True, False, True, False]))
    assert 0.8 < fitted.scale < 1


def calibrated(model):
    """The model with a calibrated curve and a shift of ½."""
    curve = replace(Curve.unfitted(model.pbe.relations), kind="platt", slope=1.0, offset=3.0)
    return replace(model, calibration=replace(model.calibration, curve=curve, contradictions=Contradictions(0.5)))


def test_credence_loses_the_surprise_and_gains_the_shift():
    model, world, facts = few_answers(2)
    model = calibrated(model)
    every = [(h, r, t) for h in range(12) for r in range(4) for t in range(12)]
    beliefs = Beliefs.from_triples(model.vocabularies, np.array(every))
    alone, judged = judge(model, beliefs, contradictions=False), judge(model, beliefs)
    before, after = (np.log(one.credence) - np.log1p(-one.credence) for one in (alone, judged))
    losses = np.array([slow_surprise(world, facts, belief) for belief in every])
    assert np.allclose(before - after, np.where(losses > 0, losses, -0.5))
    refuted = (alone.credence >= 0.5) & (judged.credence < 0.5)
    assert refuted.any()
    assert np.array_equal(judged.accepted, alone.accepted & ~refuted)


def test_verdicts_do_not_depend_on_the_base_rate():
    model, _, _ = few_answers(2)
    model = calibrated(model)
    every = np.array([(h, r, t) for h in range(12) for r in range(4) for t in range(12)])
    beliefs = Beliefs.from_triples(model.vocabularies, every)
    verdicts = [judge(model, beliefs, base_rate=rate).accepted.tolist() for rate in (None, 0.01, 0.5, 0.99)]
    assert all(one == verdicts[0] for one in verdicts)


def test_labels_are_fitted_to_the_credence_with_contradictions():
    model, world, facts = few_answers(2)
    model = calibrated(model)
    every = [(h, r, t) for h in range(12) for r in range(4) for t in range(0, 12, 2)]
    label = np.where(np.arange(len(every)) % 3, -1, 1).astype(np.int8)
    labeled = replace(Beliefs.from_triples(model.vocabularies, np.array(every)), label=label)
    judging = model.calibration
    moved = judging.adjust(model.pbe, model.settings, model.trained_facts, labeled, model.known).curve
    losses = np.array([slow_surprise(world, facts, belief) for belief in every])
    alone = judge(model, labeled, contradictions=False).credence
    log_odds = np.log(alone) - np.log1p(-alone) - np.where(losses > 0, losses, -0.5)
    expected = fit_adjustment(log_odds, labeled.relation, label == 1, 4)
    assert moved.adjustment.scale == pytest.approx(expected.scale)
    assert moved.adjustment.shift == pytest.approx(expected.shift)
    assert moved.adjustment.shifts == pytest.approx(expected.shifts)
    assert moved.base_rate == judging.curve.base_rate


def test_a_curve_that_is_not_calibrated_has_no_contradictions():
    model, _, _ = few_answers(2)
    beliefs = Beliefs.from_triples(model.vocabularies, np.array([(h, 0, t) for h in range(12) for t in range(12)]))
    assert np.array_equal(judge(model, beliefs).credence, judge(model, beliefs, contradictions=False).credence)


def test_the_audit_reports_the_credence_of_judge():
    model, _, _ = few_answers(3)
    model = calibrated(model)
    suspects = model.audit()
    assert np.allclose(suspects.credence, judge(model, suspects.beliefs).credence)
    assert suspects.expected_wrong == pytest.approx((1 - suspects.credence).sum())


def test_a_base_rate_moves_the_odds_of_every_belief_alike():
    model, _, _ = few_answers(3)
    model = calibrated(model)
    beliefs = Beliefs.from_triples(model.vocabularies, model.train)
    half, rare = judge(model, beliefs), judge(model, beliefs, base_rate=0.1)
    odds = [one.credence / (1 - one.credence) for one in (half, rare)]
    assert np.allclose(odds[1] / odds[0], 1 / 9)
    assert (half.base_rate, rare.base_rate) == (0.5, 0.1)
    assert "0.1 of the beliefs are true" in rare.mixture
