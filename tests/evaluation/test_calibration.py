"""Reliability: ECE, Brier and log loss, of credence and of answers, before and after calibration."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxa.calibration.rules import log_terms
from doxa.calibration.temperatures import Temperatures
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.data.splits import split
from doxa.evaluation.calibration import Reliability, answer_reliability, calibration_report, ece_floor, intervals
from doxa.model import fit
from tests import reference
from tests.worlds import beliefs, board, model_of_facts


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 15))
def test_ece_equals_the_reference(rows, bins):
    credence, true = np.array([c for c, _ in rows]), np.array([t for _, t in rows])
    result = Reliability.of(credence, true, bins)
    assert result.ece == pytest.approx(reference.ece(credence.tolist(), true.tolist(), bins), abs=1e-12)
    assert result.count.sum() == len(rows)


@pytest.mark.parametrize(("count", "bins"), [(1, 15), (6, 2), (9, 3), (10, 15)])
def test_the_ece_of_a_perfect_model_is_that_of_the_reference(count, bins):
    """The mean of 200 draws is within 4 standard errors of the expected value; a draw has a deviation below 0.2."""
    credence = np.random.default_rng(count).random(count)
    expected = reference.ece_floor(credence.tolist(), bins)
    assert ece_floor(credence, bins=bins) == pytest.approx(expected, abs=4 * 0.2 / 200**0.5)
    repeated = ece_floor(np.repeat(credence, 4), np.repeat(np.arange(count), 4), bins=min(bins, count))
    assert repeated == pytest.approx(expected, abs=4 * 0.2 / 200**0.5 if count % min(bins, count) == 0 else 0.1)


def test_the_ece_of_a_perfect_model_falls_with_more_beliefs_and_is_0_for_certainty():
    few, many = (ece_floor(np.random.default_rng(0).random(count)) for count in (300, 30_000))
    assert many < few / 5
    assert ece_floor(np.array([0.0, 1.0, 1.0])) == 0
    random = np.random.default_rng(1)
    credence = random.random(2000)
    measured = [Reliability.of(credence, random.random(2000) < credence).ece for _ in range(30)]
    assert ece_floor(credence) == pytest.approx(np.mean(measured), abs=0.003)


def test_brier_and_log_loss():
    result = Reliability.of(np.array([0.9, 0.2]), np.array([True, False]))
    assert result.brier == pytest.approx((0.01 + 0.04) / 2)
    assert result.nll == pytest.approx(-(np.log(0.9) + np.log(0.8)) / 2)


def test_certainty_that_comes_true_is_perfect_and_one_that_does_not_is_finite():
    assert Reliability.of(np.array([1.0, 0.0]), np.array([True, False])).as_dict() == {
        "ece": 0.0,
        "brier": 0.0,
        "nll": pytest.approx(0.0, abs=1e-9),
    }
    assert np.isfinite(Reliability.of(np.array([1.0]), np.array([False])).nll)


def test_intervals_hold_the_figure_and_narrow_with_more_beliefs():
    random = np.random.default_rng(0)
    widths = []
    for count in (200, 20_000):
        credence = random.random(count)
        true = random.random(count) < credence
        ends = intervals(credence, true)
        result = Reliability.of(credence, true).as_dict()
        for name, value in result.items():
            assert ends[name][0] < value < ends[name][1]
        widths.append(ends["brier"][1] - ends["brier"][0])
    assert widths[1] < widths[0] / 5


def test_the_interval_of_a_small_ece_holds_it():
    """Nearly the best labels for these credences: every drawn sample has a larger ECE."""
    credence = (np.arange(300) + 0.5) / 300
    true = np.concatenate([np.arange(len(part)) < round(part.sum()) for part in np.array_split(credence, 15)])
    low, high = intervals(credence, true)["ece"]
    assert 0 <= low <= Reliability.of(credence, true).ece <= high


@pytest.fixture(scope="module")
def model():
    train, valid = split(Beliefs.from_frame(board(6)), (0.2,), seed=0)
    return fit(train, valid, dimension=8, epochs=30, batch_size=16, num_candidates=16, learning_rate=0.5, threads=1)


def test_probabilities_of_answers_are_measured_before_and_after_their_temperature(model):
    sample = Beliefs.from_frame(board(6)).encode(model.vocabularies)
    hot = replace(model, calibration=replace(model.calibration, temperatures=Temperatures(tail=2.0)))
    result = answer_reliability(hot, sample)
    assert set(result) == {"head", "relation", "relation_with_mention", "tail"}
    assert result["head"].nll == result["head"].nll_before
    tails = result["tail"]
    expected_before, expected_after, top, right = [], [], [], []
    for h, r, t in sample.triples.tolist():
        answer = hot.tails(sample.vocabularies.entities[h], sample.vocabularies.relations[r], top=99)
        plain = replace(model, calibration=replace(model.calibration, temperatures=Temperatures())).tails(
            sample.vocabularies.entities[h], sample.vocabularies.relations[r], top=99
        )
        name = sample.vocabularies.entities[t]
        if t not in model.pbe.seen_tails:  # not among the candidates
            continue
        expected_after.append(-np.log({c.name: c.probability for c in answer}[name]))
        expected_before.append(-np.log({c.name: c.probability for c in plain}[name]))
        top.append(answer[0].probability)
        right.append(answer[0].name == name)
    assert tails.nll == pytest.approx(np.mean(expected_after), rel=1e-4)
    assert tails.nll_before == pytest.approx(np.mean(expected_before), rel=1e-4)
    assert tails.ece == pytest.approx(Reliability.of(np.array(top), np.array(right)).ece, abs=1e-4)
    assert tails.temperature == 2.0


def test_the_report_has_eq_1_before_and_credence_after(model):
    sample = labeled_beliefs(Beliefs.from_frame(board(6)).encode(model.vocabularies), model.known, 0)
    result = calibration_report(model, sample, sample.positives())
    plain = np.exp(log_terms(model.pbe, sample, model.calibration.mention_exponent).mean(axis=1))
    assert result.before.brier == pytest.approx(((plain - (sample.label == 1)) ** 2).mean())
    credence = model.credence(sample)
    assert result.after.brier == pytest.approx(((credence - (sample.label == 1)) ** 2).mean())
    assert result.accuracy == pytest.approx(((credence >= 0.5) == (sample.label == 1)).mean())
    plain_dict = result.as_dict()
    assert plain_dict["ece"] == result.after.ece
    assert sum(plain_dict["bins"]["count"]) == len(sample)


def test_answers_known_from_train_or_valid_are_no_candidates():
    """(e0, r0, e11), with one other answer of each query in train and one in valid."""
    model, world = model_of_facts(
        train=[(0, 0, 5), (3, 0, 11), (0, 1, 11)],
        valid=[(0, 0, 6), (4, 0, 11), (0, 2, 11)],
    )
    asked = beliefs([("e0", "r0", "e11")]).encode(model.vocabularies)
    result = answer_reliability(model, asked)
    candidates = {
        "head": [(h, 0, 11) for h in world.seen_heads if h not in (3, 4)],
        "relation": [(0, r, 11) for r in world.relations if r not in (1, 2)],
        "tail": [(0, 0, t) for t in world.seen_tails if t not in (5, 6)],
    }
    true_score = reference.score(world, 0, 0, 11)
    for kind, triples in candidates.items():
        share = reference.softmax_share(true_score, [reference.score(world, *triple) for triple in triples])
        assert result[kind].nll == pytest.approx(-np.log(share)), kind
