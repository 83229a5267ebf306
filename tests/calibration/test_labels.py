"""Labels move the credence of a calibrated model as far as their number carries."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from doxa.calibration.curves import Curve
from doxa.calibration.labels import (
    MIN_ERROR,
    MIN_SCALE,
    PRIOR_LABELS,
    RELATION,
    SPREAD,
    Adjustment,
    fit_adjustment,
    logistic,
)
from doxa.calibration.thresholds import Thresholds
from tests.calibration.test_thresholds import best_threshold

RELATIONS = 10

labels = st.lists(
    st.tuples(st.floats(-9, 9).map(lambda x: round(x, 2)), st.integers(0, 2), st.booleans()), min_size=1, max_size=30
)


def world(count=20_000, seed=0):
    """Log odds of calibrated credences, about half of them high, their relations, and labels drawn from them."""
    random = np.random.default_rng(seed)
    log_odds = random.normal(2, 2, count) * random.choice([-1, 1], count)
    return log_odds, random.integers(0, RELATIONS, count), random.random(count) < logistic(log_odds)


def movement(log_odds, relation, change):
    """The change of the mean credence."""
    return float((logistic(change.apply(log_odds, relation)) - logistic(log_odds)).mean())


def slow_adjustment(log_odds, relation, true, relations):
    """Scale, common shift and shifts of relations with the least log loss and priors, by a general optimizer."""
    chance = [1 / (1 + math.exp(-z)) for z in log_odds]
    squares = [(p - y) ** 2 + 1e-9 for p, y in zip(chance, true, strict=True)]
    center = sum(square * z for square, z in zip(squares, log_odds, strict=True)) / sum(squares)
    strength = PRIOR_LABELS * max(sum(squares) / len(squares), MIN_ERROR)

    def loss(parameters):
        scale, at_center, *further = parameters
        total = strength / 2 * (SPREAD**2 * (scale - 1) ** 2 + at_center**2)
        total += strength / 2 * sum(x**2 for x in further) / RELATION
        for z, r, y in zip(log_odds, relation, true, strict=True):
            new = z + (scale - 1) * (z - center) + at_center + further[r]
            total += np.logaddexp(0, -new if y else new)
        return total

    bounds = [(MIN_SCALE, None)] + [(None, None)] * (1 + relations)
    start = [1.0] + [0.0] * (1 + relations)
    scale, at_center, *further = minimize(loss, start, bounds=bounds, tol=1e-13, options={"maxfun": 10**5}).x
    return scale, at_center - (scale - 1) * center, np.array(further)


@given(labels)
@settings(max_examples=30, deadline=None)
def test_the_adjustment_is_the_minimum_of_log_loss_and_priors(rows):
    log_odds, relation, true = (np.array(column) for column in zip(*rows, strict=True))
    made = fit_adjustment(log_odds, relation, true, 3)
    scale, shift, shifts = slow_adjustment(log_odds.tolist(), relation.tolist(), true.tolist(), 3)
    assert made.scale == pytest.approx(scale, abs=1e-3)
    assert made.apply(log_odds, relation) == pytest.approx(scale * log_odds + shift + shifts[relation], abs=3e-3)


def test_labels_that_turn_the_order_leave_a_small_positive_scale():
    random = np.random.default_rng(0)
    log_odds, relation = random.normal(0, 3, 800), random.integers(0, 3, 800)
    true = random.random(800) < logistic(-log_odds + relation)
    made = fit_adjustment(log_odds, relation, true, 3)
    scale, shift, shifts = slow_adjustment(log_odds, relation, true, 3)
    assert made.scale == pytest.approx(MIN_SCALE)
    assert scale == pytest.approx(MIN_SCALE)
    assert [made.shift, *made.shifts] == pytest.approx([shift, *shifts], abs=5e-3)


def test_no_labels_move_nothing():
    nothing = np.zeros(0)
    made = fit_adjustment(nothing, nothing.astype(int), nothing.astype(bool), 4)
    assert (made.scale, made.shift, made.shifts.tolist()) == (1.0, 0.0, [0.0] * 4)
    thresholds = Thresholds(np.array([1.0, np.nan]), 2.0)
    assert thresholds.adjust(nothing, nothing.astype(int), nothing.astype(np.int8), 150) is thresholds


def test_labels_that_agree_move_little_and_bring_no_certainty():
    log_odds, relation, true = world()
    means = []
    for count in (18, 200, 2000, 10_000):
        moves = []
        for seed in range(20):
            rows = np.random.default_rng(seed).choice(len(true), count, replace=False)
            moves.append(movement(log_odds, relation, fit_adjustment(log_odds[rows], relation[rows], true[rows], 10)))
        assert np.abs(moves).max() < 0.05
        means.append(np.abs(moves).mean())
    assert max(means) < 0.02
    assert means[1] > means[2] > means[3]
    certain = np.full(200, -8.0)
    made = fit_adjustment(certain, np.zeros(200, int), np.zeros(200, bool), RELATIONS)
    assert abs(movement(log_odds, relation, made)) < 0.002


@pytest.mark.parametrize("truth", [False, True])
def test_labels_that_contradict_move_credence_by_their_number(truth):
    """18 labels less than .05, thousands wholly, and in their direction."""
    log_odds, relation, _ = world()
    random, moves = np.random.default_rng(1), []
    believed = np.flatnonzero((log_odds > 0) != truth)
    for count in (18, 100, 1000, 10_000):
        rows = random.choice(believed, count)
        made = fit_adjustment(log_odds[rows], relation[rows], np.full(count, truth), RELATIONS)
        moves.append(movement(log_odds[believed], relation[believed], made) * (1 if truth else -1))
    assert 0 < moves[0] < 0.05
    assert moves == sorted(moves)
    assert moves[1] < 0.3
    assert moves[-1] > 0.75


def test_a_mixture_with_another_share_of_true_beliefs_is_learned_by_thousands_of_labels():
    log_odds, relation, true = world()
    off = log_odds + 2.0
    gaps = []
    for count in (0, 18, 200, 2000, 20_000):
        made = fit_adjustment(off[:count], relation[:count], true[:count], RELATIONS)
        gaps.append(np.abs(logistic(made.apply(off, relation)) - logistic(log_odds)).mean())
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.15
    assert gaps[1] > 0.12
    assert gaps[-1] < 0.01


def test_a_curve_that_is_too_steep_is_flattened():
    log_odds, relation, true = world()
    made = fit_adjustment(2.0 * log_odds, relation, true, RELATIONS)
    assert made.scale == pytest.approx(0.5, abs=0.03)
    alike = fit_adjustment(np.full(50, 7.0), np.zeros(50, int), np.arange(50) < 5, RELATIONS)
    assert alike.scale == pytest.approx(1.0), "labels of equal credence say nothing about the scale"


def test_one_label_far_off_does_not_turn_the_scale():
    log_odds, relation, true = (column[:50] for column in world())
    far, near = (fit_adjustment(np.append(log_odds, x), np.append(relation, 0), np.append(true, True), RELATIONS)
                 for x in (-1000.0, -10.0))  # fmt: skip
    assert far.scale == near.scale
    assert far.scale > 0.8


def test_a_relation_without_labels_moves_by_the_common_part_alone():
    log_odds, relation, _ = world()
    rows = np.flatnonzero((relation == 9) & (log_odds > 0))[:200]
    made = fit_adjustment(log_odds[rows], relation[rows], np.zeros(200, bool), RELATIONS)
    assert np.flatnonzero(made.shifts).tolist() == [9]
    x = np.array([1.0])
    common = made.scale * x + made.shift
    assert made.apply(x, np.array([4])) == common
    assert made.apply(x, np.array([-1])) == common
    assert made.apply(x, np.array([9])) < common - 1
    of_it = relation == 9
    assert movement(log_odds[of_it & (log_odds > 0)], relation[of_it & (log_odds > 0)], made) < -0.4
    assert -0.1 < movement(log_odds[~of_it], relation[~of_it], made) < 0
    rows = np.flatnonzero(of_it)[:400]
    surprise = fit_adjustment(log_odds[rows], relation[rows], np.zeros(400, bool), RELATIONS)
    assert movement(log_odds[of_it], relation[of_it], surprise) < -0.1
    assert -0.06 < movement(log_odds[~of_it], relation[~of_it], surprise) < 0, "the curve shifts and does not turn"


def curve():
    random = np.random.default_rng(3)
    steps = (np.linspace(-4, 4, 9), np.linspace(0.02, 0.97, 9))
    return Curve("isotonic by relation", 1.0, 0.5, random.uniform(0.5, 2, 4), random.normal(size=4), steps, 0.3)


def labeled(seed, count=300):
    random = np.random.default_rng(seed)
    return random.normal(0, 3, count), random.integers(0, 3, count), random.choice([1, -1], count).astype(np.int8)


def test_two_updates_compose_to_one_adjustment():
    first = curve().adjust(*labeled(0))
    second = first.adjust(*labeled(1))
    inputs, relation = np.linspace(-6, 6, 40), np.arange(40) % 5 - 1
    data = labeled(1)
    change = fit_adjustment(first.logit(*data[:2]), data[1], data[2] == 1, 4)
    assert second.logit(inputs, relation) == pytest.approx(change.apply(first.logit(inputs, relation), relation))
    assert np.abs(second.logit(inputs, relation) - first.logit(inputs, relation)).max() > 0.1
    one, other = Adjustment(0.5, 1.0, np.array([2.0])), Adjustment(3.0, -1.0, np.array([0.25]))
    assert other.after(one).apply(np.array([4.0]), np.array([0])) == 3 * (0.5 * 4 + 3) - 1 + 0.25
    assert one.after(None) is one


def test_an_adjusted_curve_is_read_back_grown_and_increasing():
    made = curve().adjust(*labeled(0))
    stored = json.loads(json.dumps(made.as_dict(lambda number: f"r{number}")))
    assert set(stored["adjustment"]["by_relation"]) == {"r0", "r1", "r2"}

    def ids(names):
        return np.array([int(name[1:]) for name in names])

    inputs, relation = np.linspace(-6, 6, 40), np.arange(40) % 5 - 1
    again = Curve.from_dict(stored, 4, ids)
    assert np.array_equal(again.probability(inputs, relation), made.probability(inputs, relation))
    grown = made.grow(2)
    assert np.array_equal(grown.probability(inputs, relation), made.probability(inputs, relation))
    assert np.array_equal(grown.probability(inputs, np.full(40, 5)), made.probability(inputs, np.full(40, -1))), (
        "a new relation has the common part alone"
    )
    for number in range(4):
        assert (np.diff(made.probability(inputs, np.full(40, number))) >= 0).all()
    del stored["adjustment"]
    assert Curve.from_dict(stored, 4, ids).adjustment is None, "folders of earlier versions have no adjustment"


def test_thresholds_move_by_the_number_of_labels():
    random = np.random.default_rng(0)
    scores, relation = random.normal(size=90), np.repeat([0, 1, 1], 30)
    label = np.where(scores > 0.4, 1, -1).astype(np.int8)
    old = Thresholds(np.array([2.0, np.nan, -3.0, np.nan]), 1.0)
    made = old.adjust(scores, relation, label, 150)
    first, second = (best_threshold(scores[relation == number], label[relation == number]) for number in (0, 1))
    assert made.by_relation[0] == pytest.approx(2.0 + 30 / 180 * (first - 2.0))
    assert made.by_relation[1] == pytest.approx(1.0 + 60 / 210 * (second - 1.0)), "from the overall threshold"
    assert made.by_relation[2] == -3.0
    assert np.isnan(made.by_relation[3])
    assert made.overall == pytest.approx(1.0 + 90 / 240 * (best_threshold(scores, label) - 1.0))
