"""Thresholds and calibration."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from doxa.calibration.rules import SHRINKAGE, RuleWeights
from doxa.calibration.temperatures import best_mention_exponent, best_temperature
from doxa.calibration.thresholds import BANDWIDTH, PRIOR_BELIEFS, Thresholds
from tests import reference

scored = st.lists(st.tuples(st.integers(-5, 5).map(float), st.sampled_from([1, -1])), min_size=1, max_size=25)


def best_threshold(scores, label):
    """The threshold over all relations."""
    return Thresholds.fit(scores, np.zeros(len(scores), np.int64), label, relations=1).overall


@given(scored)
def test_the_threshold_is_the_best_of_all(rows):
    scores, labels = np.array([s for s, _ in rows]), np.array([label for _, label in rows], np.int8)
    result = best_threshold(scores, labels)
    assert result == pytest.approx(reference.best_threshold(scores.tolist(), labels.tolist(), BANDWIDTH))


def test_the_threshold_does_not_hang_on_where_single_beliefs_lie():
    """Of two kinds that overlap, few seen: thresholds lie nearer the true best, 0, than those most right on the few."""
    random = np.random.default_rng(0)
    blurred, sharp = [], []
    for _ in range(200):
        scores = np.concatenate([random.normal(1, 1, 15), random.normal(-1, 1, 15)])
        labels = np.repeat(np.array([1, -1], np.int8), 15)
        blurred.append(best_threshold(scores, labels))
        sharp.append(reference.best_threshold(scores.tolist(), labels.tolist(), 1e-9))
    assert np.std(blurred) < 0.85 * np.std(sharp)
    assert abs(np.mean(blurred)) < 0.1


def test_a_few_scores_far_off_do_not_blur_the_others():
    scores = np.concatenate([np.linspace(0, 0.2, 10), np.linspace(0.8, 1, 9), [-1000.0]])
    labels = np.repeat(np.array([-1, 1, -1], np.int8), [10, 9, 1])
    assert 0.2 < best_threshold(scores, labels) < 0.8


def test_many_scores_are_parted_about_as_well_as_by_trying_all():
    random = np.random.default_rng(0)
    scores = np.concatenate([random.normal(1, 1, 5000), random.normal(-1, 1, 5000)])
    labels = np.repeat(np.array([1, -1], np.int8), 5000)
    assert best_threshold(scores, labels) == pytest.approx(0.0, abs=0.1)


def test_true_is_at_or_above_the_threshold():
    scores, labels = np.array([-3.0, -2.0, -1.0, 0.0]), np.array([-1, -1, 1, 1], np.int8)
    assert best_threshold(scores, labels) == -1.5
    assert best_threshold(scores, -labels) in (-4.0, 1.0)


def test_relations_without_validation_use_the_overall_threshold():
    scores = np.tile([0.0, 2.0, 10.0, 14.0], 100)
    relation, labels = np.tile([0, 0, 2, 2], 100), np.tile(np.array([-1, 1, -1, 1], np.int8), 100)
    result = Thresholds.fit(scores, relation, labels, relations=3)
    assert result.of(np.array([0, 2])).tolist() == [1.0, 12.0]
    assert np.isnan(result.by_relation[1])
    assert result.of(np.array([1])).tolist() == [result.overall]


@given(
    st.lists(
        st.tuples(st.integers(-5, 5).map(float), st.integers(0, 3), st.sampled_from([1, -1])), min_size=1, max_size=25
    )
)
def test_thresholds_of_relations_are_the_best_for_their_beliefs_and_the_prior(rows):
    scores, relation, label = (np.array(column) for column in zip(*rows, strict=True))
    result = Thresholds.fit(scores, relation, label.astype(np.int8), 5)
    expected = reference.thresholds(scores.tolist(), relation.tolist(), label.tolist(), BANDWIDTH, PRIOR_BELIEFS)
    assert np.flatnonzero(~np.isnan(result.by_relation)).tolist() == sorted(expected)
    for r, threshold in expected.items():
        assert result.by_relation[r] == pytest.approx(threshold)
    assert result.overall == pytest.approx(reference.best_threshold(scores.tolist(), label.tolist(), BANDWIDTH))


def test_relations_with_few_beliefs_lean_on_all_the_others():
    """1,000 relations with a true and a false belief each: their thresholds are nearly as right as the best one, 0."""
    random = np.random.default_rng(0)
    label, relation = np.tile(np.array([1, -1], np.int8), 1000), np.repeat(np.arange(1000), 2)
    valid, test = (2 * label + random.normal(size=2000) for _ in range(2))

    def accuracy(thresholds):
        return ((test >= thresholds) == (label == 1)).mean()

    best = accuracy(0.0)
    assert accuracy(Thresholds.fit(valid, relation, label, 1000).of(relation)) > best - 0.003
    assert accuracy(Thresholds.fit(valid, relation, label, 1000, prior_beliefs=0).of(relation)) < best - 0.015


def test_a_relation_with_many_beliefs_keeps_its_own_threshold():
    """Its scores lie 3 above those of a relation with more beliefs."""
    random = np.random.default_rng(0)
    relation = np.repeat([0, 1], [5000, 1000])
    label = np.tile(np.array([1, -1], np.int8), 3000)
    scores = 2 * label + random.normal(size=6000) + 3 * relation
    result = Thresholds.fit(scores, relation, label, 2)
    for r in range(2):
        assert result.by_relation[r] == pytest.approx(
            best_threshold(scores[relation == r], label[relation == r]), abs=0.1
        )
    assert result.by_relation[1] == pytest.approx(3, abs=0.2)


def test_the_only_relation_has_the_overall_threshold():
    random = np.random.default_rng(0)
    scores, label = random.normal(size=30), random.choice(np.array([1, -1], np.int8), 30)
    result = Thresholds.fit(scores, np.zeros(30, np.int64), label, 1)
    assert result.by_relation[0] == result.overall == best_threshold(scores, label)


def labeled_features(seed, count, weights):
    """Signs on different scales, labels drawn by a logistic of their weighted sum."""
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(count, 2)) * [1.0, 10.0] + [0.0, 5.0]
    chance = 1 / (1 + np.exp(-(inputs - [0.0, 5.0]) @ weights))
    return inputs, np.where(random.random(count) < chance, 1, -1).astype(np.int8)


def test_the_weights_that_made_the_labels_are_found_again():
    inputs, labels = labeled_features(0, 20_000, [2.0, -0.1])
    result = RuleWeights.fit(inputs, np.zeros(20_000, np.int64), labels, relations=2)
    assert result.overall == pytest.approx([2.0, -0.1], rel=0.05)
    assert result.by_relation[0] == pytest.approx([2.0, -0.1], rel=0.05)
    assert result.by_relation[1].tolist() == result.overall.tolist()
    assert result.decision_score(inputs[:3], np.array([0, 1, 0])) == pytest.approx(
        [2.0 * a - 0.1 * b for a, b in inputs[:3]], abs=0.2
    )


def test_a_sign_that_is_always_the_same_does_not_count():
    """Though its deviation is not quite 0 by rounding."""
    inputs, labels = labeled_features(0, 200, [2.0, 0.0])
    labels[:100] = 1
    same = np.column_stack([inputs[:, 0], np.full(200, np.log1p(2))])
    assert same[:, 1].std() > 0
    result = RuleWeights.fit(same, np.zeros(200, np.int64), labels, relations=1)
    assert abs(result.overall[1]) < 1e-6
    assert result.overall[0] > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_those_of_the_slow_regression(seed):
    inputs, labels = labeled_features(seed, 60, [1.0, 0.05])
    relation = np.arange(60) % 2
    result = RuleWeights.fit(inputs, relation, labels, relations=2)
    spread, center = inputs.std(axis=0), inputs.mean(axis=0)
    units = (inputs - center) / spread
    overall = reference.regression(units, labels, [0.0, 0.0, 0.0], SHRINKAGE)
    assert result.overall * spread == pytest.approx(overall[:-1], abs=1e-3)
    for r in range(2):
        mask = reference.regression(units[relation == r], labels[relation == r], overall, SHRINKAGE)
        assert result.by_relation[r] * spread == pytest.approx(mask[:-1], abs=1e-3)


def test_a_relation_with_few_beliefs_hardly_leaves_the_weights_of_all():
    many, labels = labeled_features(0, 5000, [2.0, 0.0])
    few, contrary = labeled_features(1, 500, [-2.0, 0.0])
    for count, turned in ((1, False), (500, True)):
        inputs, of = np.concatenate([many, few[:count]]), np.repeat([0, 1], [5000, count])
        result = RuleWeights.fit(inputs, of, np.concatenate([labels, contrary[:count]]), relations=2)
        assert (result.by_relation[1, 0] < 0) == turned
    grown = result.grow(2)
    assert grown.by_relation[:2].tolist() == result.by_relation.tolist()
    assert grown.by_relation[2:].tolist() == [result.overall.tolist()] * 2


def test_the_temperature_that_made_the_data_is_found_again():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(5000, 6, generator=generator)
    truth = torch.multinomial((logits / 2.5).softmax(1), 1, generator=generator).squeeze(1)
    assert best_temperature(logits, truth) == pytest.approx(2.5, rel=0.05)


def test_a_few_beliefs_cannot_move_the_temperature_far():
    logits, truth = torch.tensor([[0.1, 0.0]] * 10), torch.zeros(10, dtype=torch.long)
    assert 0.7 < best_temperature(logits, truth) < 1
    assert best_temperature(logits[:0], truth[:0]) == pytest.approx(1.0, abs=0.01)


def test_words_count_as_much_as_makes_the_truth_most_likely():
    """Words that know nothing should hardly count, words that know all should; the grid finds nothing better."""
    random = np.random.default_rng(0)
    truth = torch.from_numpy(random.integers(0, 5, 400))
    noise = torch.from_numpy(random.normal(size=(400, 5)) * 3).log_softmax(1)
    telling = (
        5.0 * torch.nn.functional.one_hot(truth, 5) + torch.from_numpy(random.normal(size=(400, 5)))
    ).log_softmax(1)
    assert best_mention_exponent(telling, noise, truth) < 0.2
    assert best_mention_exponent(noise, telling, truth) > 5
    both = best_mention_exponent(telling, telling, truth)
    assert both == pytest.approx(1, abs=0.3)
