"""Confidence out: what a belief would be expected to carry, and how well it is predicted."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from doxa.calibration.confidence import expected_log_credence
from doxa.calibration.judge import Judge
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.errors import CannotAnswer
from doxa.evaluation.confidence import ndcg, with_known_tails
from doxa.evaluation.report import evaluate
from doxa.model import Model, fit
from doxa.slots import Slot
from tests.worlds import board

SETTINGS = {"dimension": 8, "epochs": 40, "batch_size": 16, "num_candidates": 16, "learning_rate": 0.3, "threads": 1}


def confident(size=6):
    """Steps to the right are sure, steps up are not."""
    table = board(size, words=False)
    sure = (table["relation"] == "right").to_numpy()
    wobble = np.random.default_rng(0).random(len(table)) * 0.1
    return Beliefs.from_frame(table.with_columns(confidence=np.where(sure, 0.85, 0.25) + wobble))


@pytest.fixture(scope="module", params=["likelihood", "confidence"])
def model(request):
    train, valid = split(confident(), (0.3,), seed=0)
    return fit(train, valid, objective=request.param, **SETTINGS)


def test_the_confidence_of_each_relation_is_predicted(model):
    sample = confident()
    result = model.confidence(sample)
    sure = sample.confidence > 0.5
    assert result[sure].mean() > 1.4 * result[~sure].mean()
    assert ((result >= 0) & (result <= 1)).all()


def test_what_was_never_seen_has_no_confidence(model):
    unseen = Beliefs.from_frame(board(4, words=False)[:1].with_columns(tail=pl.lit("elsewhere"), confidence=0.5))
    assert np.isnan(model.confidence(unseen)).all()


def test_the_report_is_the_error_of_that(model):
    sample = confident()
    result = evaluate(model, sample, ["confidence"]).confidence
    error = model.confidence(sample) - sample.encode(model.vocabularies).confidence
    assert result.mse == pytest.approx(np.mean(error**2))
    assert result.mae == pytest.approx(np.mean(np.abs(error)))
    assert result.spearman > 0.5
    assert set(result.as_dict()) == {"mse", "mae", "spearman", "ndcg", "ndcg_exponential"}


def test_stated_beliefs_are_not_taken_for_negatives():
    """Half of the steps are sure, half are not: the mean of each relation is the best answer. Negatives lower it."""
    sample = confident(12)
    train, valid = split(sample, (0.5,), seed=0)
    model = fit(train, valid, **SETTINGS)
    sure = sample.confidence > 0.5
    stated, mixed = model.confidence(sample), model.confidence(sample, stated=False)
    for rows in (sure, ~sure):
        assert stated[rows].mean() == pytest.approx(sample.confidence[rows].mean(), abs=0.1)
    assert mixed.mean() < 0.9 * sample.confidence.mean()
    assert evaluate(model, sample, ["confidence"]).confidence.mse < 0.2 * np.var(sample.confidence)


def test_a_file_with_negatives_is_a_mixture(model):
    sample = confident()
    refuted = replace(sample, confidence=np.where(np.arange(len(sample)) == 0, 0.0, sample.confidence))
    error = model.confidence(sample, stated=False) - refuted.encode(model.vocabularies).confidence
    assert evaluate(model, refuted, ["confidence"]).confidence.mse == pytest.approx(np.mean(error**2))


def test_validation_beliefs_with_negatives_among_them_are_the_mixture():
    sample = confident()
    refuted = replace(sample, confidence=np.where(np.arange(len(sample)) % 2 == 0, 0.0, sample.confidence))
    model = fit(sample, refuted, **SETTINGS)
    assert model.calibration.stated_confidence is None
    assert np.array_equal(model.confidence(sample), model.confidence(sample, stated=False))


def test_a_saved_model_predicts_the_same(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    for stated in (True, False):
        assert np.array_equal(
            loaded.confidence(confident(), stated=stated), model.confidence(confident(), stated=stated)
        )


def test_a_model_of_an_earlier_version_has_the_curve_of_the_mixture(model):
    stored = model.calibration.to_dict(model.vocabularies.relations)
    del stored["stated_confidence"]
    earlier = replace(model, calibration=Judge.from_dict(stored, model.vocabularies.relations))
    assert np.array_equal(earlier.confidence(confident()), model.confidence(confident(), stated=False))


def test_a_model_that_saw_none_cannot_tell():
    silent = fit(Beliefs.from_frame(board(4, words=False)), **SETTINGS)
    with pytest.raises(CannotAnswer, match="cannot predict confidence"):
        silent.confidence(confident())
    assert "no validation belief" in evaluate(silent, confident(4), ["confidence"]).skipped["confidence"]


def test_ranking_tails_by_confidence_is_measured_by_hand(model):
    names = model.vocabularies
    sample = Beliefs.from_frame(
        pl.DataFrame(
            {
                "head": ["0,0", "0,0", "1,1"],
                "relation": ["up", "up", "right"],
                "tail": ["0,1", "1,0", "2,1"],
                "confidence": [0.9, 0.3, 0.6],
            }
        )
    ).encode(names)
    place = []
    for h, r, t in sample.triples.tolist():
        query = Batch.of_triples(*torch.tensor([[h], [r], [t]]))
        scores = model.pbe.logits(Slot.TAIL, query)[0]
        place.append(1 + int((scores > scores[t]).sum()))
    first = (0.9 / math.log2(1 + place[0]) + 0.3 / math.log2(1 + place[1])) / (0.9 / 1 + 0.3 / math.log2(3))
    assert ndcg(model, sample.triples, sample.confidence) == pytest.approx((first + 1 / math.log2(1 + place[2])) / 2)


def test_the_known_tails_of_a_question_count_in_its_ndcg():
    table = board(4, words=False).with_columns(confidence=pl.Series(np.linspace(0.3, 0.95, 24).tolist()))
    sample = Beliefs.from_frame(table)
    model = fit(sample, validation_fraction=0.0, **SETTINGS)
    assert model.known_confidence == pytest.approx(sample.confidence[np.lexsort(model_order(sample))])
    known = sample.encode(model.vocabularies)
    again, other = known.take(np.array([3])), replace(known.take(np.array([3])), tail=known.head[3:4])
    assert len(with_known_tails(model, again)[0]) == 1, "what is asked about stands there once"
    triples, worth = with_known_tails(model, other)
    assert triples.tolist() == [other.triples[0].tolist(), again.triples[0].tolist()]
    assert worth.tolist() == pytest.approx([known.confidence[3]] * 2)


@pytest.mark.parametrize("objective", ["likelihood", "confidence"])
def test_memory_bounds_the_tables_of_the_confidence_task(objective, memory_limits):
    table = board(6, words=False).with_columns(confidence=pl.Series(np.linspace(0.3, 0.95, 60).tolist()))
    sample = Beliefs.from_frame(table)
    model = fit(sample, valid=sample, objective=objective, **SETTINGS)
    memory_limits.clear()
    model.evaluate(sample, tasks="confidence", memory=12_345)
    assert memory_limits == {12_345}


def model_order(sample):
    """Keys by which facts are sorted, the last first."""
    return sample.tail, sample.relation, sample.head


def test_confidence_0_is_classified_as_false():
    table = board(4, words=False).with_columns(confidence=pl.Series([0.0] + [0.7] * 23))
    sample = Beliefs.from_frame(table)
    assert len(sample.positives()) == 23
    model = fit(sample, objective="confidence", negative_weight=1, validation_fraction=0.0, **SETTINGS)
    assert len(model.train) == 23
    assert np.isfinite(expected_log_credence(model.pbe, model.settings, sample.encode(model.vocabularies))).all()
