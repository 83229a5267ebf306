"""Calibration curves: worlds whose odds are known, and what is made of them."""

import json

import numpy as np
import pytest

from doxa.calibration.curves import KINDS, PRIOR, Curve, _fit_kind, _isotonic, _newton, fit_curve
from doxa.evaluation.calibration import Reliability


def logistic(x):
    return 1 / (1 + np.exp(-x))


def world(chance, relations=1, count=20_000, seed=0):
    """Inputs, relations and labels drawn from `chance(inputs, relation)`."""
    random = np.random.default_rng(seed)
    inputs = 3 * random.normal(size=count) - 5
    relation = random.integers(0, relations, count)
    true = random.random(count) < chance(inputs, relation)
    return inputs, relation, np.where(true, 1, -1).astype(np.int8)


def gap(curve, chance, relations=1):
    """The largest difference between credence and the odds that made the world, over usual inputs."""
    x = np.linspace(-10, 0, 50)
    return max(np.abs(curve.probability(x, np.full(50, r)) - chance(x, np.full(50, r))).max() for r in range(relations))


def test_odds_that_follow_a_logistic_curve_are_found_again():
    def chance(x, r):
        return logistic(0.7 * x + 3)

    result = fit_curve(*world(chance), relations=1)
    assert gap(result, chance) < 0.04
    assert _fit_kind("platt", *true_labels(world(chance)), 1).slope == pytest.approx(0.7, abs=0.03)


def true_labels(data):
    """The same with labels as shares of truth."""
    inputs, relation, label = data
    return inputs, relation, (label == 1).astype(float)


def test_relations_that_differ_get_curves_of_their_own():
    def chance(x, r):
        return logistic(np.where(r == 0, 0.5, 2.0) * (x + np.where(r == 0, 3, 7)))

    result = fit_curve(*world(chance, relations=2), relations=2)
    assert "by relation" in result.kind
    assert gap(result, chance, relations=2) < 0.06
    alike = _fit_kind("platt", *true_labels(world(chance, relations=2)), 2)
    assert gap(alike, chance, relations=2) > 0.2


def test_steps_are_found_where_no_logistic_curve_fits():
    def chance(x, r):
        return np.where(x < -7, 0.1, np.where(x < -3, 0.5, 0.8))

    result = fit_curve(*world(chance), relations=1)
    assert result.kind.startswith("isotonic")
    x = np.array([-9.0, -5.0, -1.0])
    assert result.probability(x, np.zeros(3, int)).tolist() == pytest.approx([0.1, 0.5, 0.8], abs=0.04)


@pytest.mark.parametrize(
    ("label", "heights"),
    [
        ([0, 0, 1, 0, 1, 1, 1], [1 / 4, 0.5, 4 / 5]),  # two zeros, a half, three ones
        ([0, 0, 0, 1, 1, 1, 1, 1, 0, 1], [1 / 5, 5 / 6, 5 / 6]),  # the last step is not below the one before
        ([0, 0, 1, 1], [1 / 4, 3 / 4]),
        ([1, 1, 1], [4 / 5]),
    ],
)
def test_the_ends_of_steps_are_as_certain_as_their_beliefs_are_many(label, heights):
    positions, steps = _isotonic(np.arange(float(len(label))), np.array(label, float))
    assert np.unique(steps).tolist() == pytest.approx(sorted(set(heights)))
    assert (np.diff(positions) > 0).all()
    assert (np.diff(steps) >= 0).all()


def test_a_relation_with_few_labels_stays_near_all_the_others():
    def chance(x, r):
        return logistic(x + 5)

    inputs, relation, label = world(chance, count=5000)
    few = np.array([-5.5, -4.5, -5.2]), np.array([1, 1, 1]), np.array([-1, -1, -1], np.int8)
    data = [np.concatenate(parts) for parts in zip((inputs, relation, label), few, strict=True)]
    result = _fit_kind("platt by relation", data[0], data[1], (data[2] == 1).astype(float), 3)
    x = np.array([-5.0])
    assert result.probability(x, np.array([0]))[0] == pytest.approx(0.5, abs=0.03)
    assert 0.3 < result.probability(x, np.array([1]))[0] < 0.49
    assert result.probability(x, np.array([2]))[0] == pytest.approx(result.probability(x, np.array([-1]))[0])


def test_the_fit_is_the_minimum_of_the_penalised_log_loss():
    inputs, relation, true = true_labels(world(lambda x, r: logistic(x + 4 + r), relations=3, count=300))
    x = (inputs - inputs.mean()) / inputs.std()
    start = np.tile([1.5, 0.2], (3, 1))
    lines = _newton(x, relation, true, 3, start, prior=PRIOR)

    def loss(lines):
        logit = lines[relation, 0] * x + lines[relation, 1]
        return np.logaddexp(0, np.where(true > 0, -logit, logit)).sum() + ((lines - start) ** 2).sum() / (2 * PRIOR**2)

    for r in range(3):
        for k in range(2):
            for step in (-1e-3, 1e-3):
                other = lines.copy()
                other[r, k] += step
                assert loss(other) > loss(lines)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_base_rate_moves_the_odds(rate):
    inputs, relation, label = world(lambda x, r: logistic(x + 6))
    plain, moved = (fit_curve(inputs, relation, label, 1, base_rate=base) for base in (0.0, rate))
    x, r = np.linspace(-8, -2, 20), np.zeros(20, int)
    share = (label == 1).mean()
    before, after = plain.probability(x, r), moved.probability(x, r)
    assert np.allclose(after / (1 - after), before / (1 - before) * (rate / (1 - rate)) / (share / (1 - share)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_curve_is_read_back_as_it_was_written(kind):
    data = true_labels(world(lambda x, r: logistic(x + 4 + r), relations=3, count=500))
    made = _fit_kind(kind, *data, 3)
    stored = json.loads(json.dumps(made.as_dict(lambda number: f"r{number}")))
    result = Curve.from_dict(stored, 3, lambda names: np.array([int(name[1:]) for name in names]))
    x, r = np.linspace(-12, 3, 40), np.arange(40) % 4 - 1
    assert np.array_equal(result.probability(x, r), made.probability(x, r))


def test_the_chosen_kind_is_the_best_on_labels_it_has_not_seen_and_holds_on_new_ones():
    def chance(x, r):
        return logistic((x + 5) * (1 + r))

    result = fit_curve(*world(chance, relations=2, count=2000), relations=2)
    assert result.losses[result.kind] <= min(result.losses.values()) + 0.01
    assert set(result.losses) == set(KINDS)
    inputs, relation, label = world(chance, relations=2, seed=1)
    assert Reliability.of(result.probability(inputs, relation), label == 1).ece < 0.03


def test_where_labels_cannot_tell_credence_keeps_the_order_of_the_input(caplog):
    nothing = np.zeros(40, int)
    too_few = np.array([1.0, 2.0]), nothing[:2], np.array([1, -1], np.int8)
    one_kind = np.arange(30.0), nothing[:30], np.ones(30, np.int8)
    for data, message in (
        (too_few, "too few validation beliefs"),
        (one_kind, "too few validation beliefs"),
    ):
        result = fit_curve(*data, relations=1)
        assert result.kind == "none"
        assert result.probability(np.array([0.0, 2.0]), np.array([0, 0])).tolist() == pytest.approx([0.5, logistic(2)])
        assert message in caplog.text
        caplog.clear()


def test_a_model_that_does_not_separate_true_from_false_has_nearly_the_share_of_true_beliefs(caplog):
    label = np.where(np.arange(60) < 20, 1, -1).astype(np.int8)
    result = fit_curve(np.arange(60.0), np.zeros(60, int), label, relations=1)
    assert "does not separate true from false" in caplog.text
    credence = result.probability(np.arange(60.0), np.zeros(60, int))
    assert np.allclose(credence, 1 / 3, atol=0.01)
    assert (np.diff(credence) > 0).all()
    assert result.base_rate == pytest.approx(1 / 3)


def test_a_simpler_curve_is_kept_where_labels_do_not_show_a_better_one():
    """True odds are Platt's: the other kinds are lower in loss by chance alone."""
    kinds = [fit_curve(*world(lambda x, r: logistic(x + 5), count=300, seed=s), relations=1).kind for s in range(8)]
    assert kinds.count("platt") >= 7


def test_copies_of_a_belief_do_not_make_a_curve_per_relation_look_good():
    """40 relations of 2 beliefs with 12 mentions each: only folds that keep a belief together see the overfitting."""
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(80), 12)
    inputs, relation = random.normal(size=80)[group], group // 2
    label = np.where(random.random(80) < 0.5, 1, -1).astype(np.int8)[group]
    by_rows = fit_curve(inputs, relation, label, 40)
    by_groups = fit_curve(inputs, relation, label, 40, group=group)
    assert by_rows.losses["platt by relation"] < by_rows.losses["platt"]
    assert by_groups.losses["platt by relation"] > by_groups.losses["platt"]
    assert "by relation" not in by_groups.kind


def test_a_small_validation_set_is_warned_of(caplog):
    fit_curve(*world(lambda x, r: logistic(x + 5), count=100), relations=1)
    assert "only 100 labeled validation beliefs" in caplog.text
