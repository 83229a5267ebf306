"""From beliefs to a model: what is learnt from, what thresholds and calibration come from."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from doxa.calibration.curves import fit_curve
from doxa.calibration.rules import decision_score, log_terms
from doxa.calibration.thresholds import Thresholds
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.data.splits import split
from doxa.errors import DoxaError
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.inference import judge
from doxa.model import fit
from doxa.slots import Slot
from doxa.systems import build
from tests.worlds import board

SETTINGS = {"dimension": 8, "epochs": 40, "batch": 16, "candidates": 16, "learning_rate": 0.5, "threads": 1}


@pytest.fixture(scope="module")
def parts():
    return split(Beliefs.from_frame(board(8)), (0.2,), seed=0)


@pytest.fixture(scope="module")
def model(parts):
    return fit(*parts, **SETTINGS)


def test_candidates_are_the_entities_seen_in_their_position():
    some = Beliefs.from_frame(board(3))
    pbe = build(some, Settings(dimension=2))
    names = some.vocabularies.entities
    assert {names[i] for i in pbe.seen_heads.tolist()} == set(board(3)["head"])
    assert {names[i] for i in pbe.seen_tails.tolist()} == set(board(3)["tail"])
    assert "2,2" not in {names[i] for i in pbe.seen_heads.tolist()}


def test_thresholds_and_calibration_come_from_validation(model, parts):
    labeled = labeled_beliefs(parts[1].encode(model.vocabularies), model.known, model.settings.seed)
    scores = decision_score(model.pbe, labeled, "product")
    expected = Thresholds.fit(scores, labeled.relation, labeled.label, 2)
    assert model.calibration.thresholds.by_relation.tolist() == expected.by_relation.tolist()
    assert model.calibration.thresholds.overall == expected.overall
    inputs = log_terms(model.pbe, labeled).mean(axis=1)
    fitted = fit_curve(inputs, labeled.relation, labeled.label, 2)
    assert model.calibration.curve.as_dict(str) == fitted.as_dict(str)
    assert model.calibration.curve.kind != "none"


def test_early_stopping_looks_at_head_relation_and_tail(model, parts):
    valid = parts[1].encode(model.vocabularies)
    found = [ranks(model.pbe, slot, valid, model.known) for slot in Slot]
    expected = np.mean([Metrics.of(ranks.filtered).mrr for ranks in found])
    best = max(point["quality"] for point in model.curve)
    assert best == pytest.approx(expected)


def test_credence_heeds_the_mention_and_the_verdict_does_not(model, parts):
    some = parts[1].encode(model.vocabularies)
    silent = some.without_mentions()
    assert judge(model, some).accepted.tolist() == judge(model, silent).accepted.tolist()
    assert not np.allclose(judge(model, some).credence, judge(model, silent).credence)
    expected = model.calibration.curve.probability(log_terms(model.pbe, some).mean(axis=1), some.relation)
    assert np.allclose(model.credence(some), expected)


def with_thresholds(model, thresholds):
    return replace(model, calibration=replace(model.calibration, thresholds=thresholds))


def test_a_belief_right_at_its_threshold_is_held_true(model, parts):
    one = parts[1].encode(model.vocabularies).take(np.array([0]))
    score = float(decision_score(model.pbe, one, "product")[0])
    at = with_thresholds(model, Thresholds(np.full(2, score), score))
    above = with_thresholds(model, Thresholds(np.full(2, np.nextafter(score, 1)), score))
    assert judge(at, one).accepted.tolist() == [True]
    assert judge(above, one).accepted.tolist() == [False]


def test_rows_labeled_false_teach_nothing():
    table = board(5)
    wrong = table.with_columns(tail=table["tail"].reverse())
    labeled = Beliefs.from_frame(_labeled(table, 1).vstack(_labeled(wrong, -1)))
    plain, taught = fit(Beliefs.from_frame(table), **SETTINGS), fit(labeled, **SETTINGS)
    assert taught.origin["sha256"] == plain.origin["sha256"]
    assert taught.tails("1,1", "up") == plain.tails("1,1", "up")


def _labeled(table, label):
    return table.with_columns(label=np.full(len(table), label, np.int8))


def test_a_subset_is_learnt_in_its_own_names(parts):
    """Vocabularies that only the left-out rows hold are unknown to the model, and validation with them is refused."""
    whole = Beliefs.from_frame(board(8))
    near = np.flatnonzero([int(h[0]) < 4 and int(t[0]) < 4 for h, t in board(8).select("head", "tail").rows()])
    model = fit(whole.take(near), **SETTINGS)
    assert len(model.vocabularies.entities) == 32
    with pytest.raises(DoxaError, match="which training never sees"):
        fit(whole.take(near), whole, **SETTINGS)


def test_what_is_not_beliefs_is_refused():
    with pytest.raises(DoxaError, match=r"not from a str\n  read a file with doxa\.read"):
        fit("beliefs.tsv")
    with pytest.raises(DoxaError, match="on_error 'ignore'; expected raise or skip"):
        fit(Beliefs.from_frame(board(3)), on_error="ignore")


def test_without_validation_a_share_is_held_out(parts):
    model = fit(parts[0], holdout=0.1, **SETTINGS)
    assert model.origin["beliefs"] + model.origin["validation_beliefs"] == len(parts[0])
    assert 0 < model.origin["validation_beliefs"] <= 0.1 * len(parts[0]) + 1


def test_the_threads_of_the_process_are_left_as_they_were(parts):
    import torch

    torch.set_num_threads(1)
    fit(parts[0], **(SETTINGS | {"threads": 2, "epochs": 1}))
    assert torch.get_num_threads() == 1


def test_words_that_mislead_validation_count_less():
    table = board(6)
    train, valid = split(Beliefs.from_frame(table), (0.3,), seed=0)
    turned = valid.to_frame().with_columns(mention=pl.Series(valid.to_frame()["mention"].to_list()[::-1]))
    settings = {"dimension": 8, "epochs": 30, "batch": 16, "learning_rate": 0.5, "patience": 0, "threads": 1}
    right, wrong = (
        fit(train, part, **settings).calibration.mention_exponent for part in (valid, Beliefs.from_frame(turned))
    )
    assert wrong < right
    assert wrong != 1
