"""From beliefs to a model: what is trained on, what thresholds and calibration come from."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from doxa.calibration.curves import fit_curve
from doxa.calibration.rules import decision_score, log_terms
from doxa.calibration.thresholds import Thresholds
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.data.splits import split
from doxa.errors import DoxaError
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.inference import judge
from doxa.model import fit
from doxa.pbe import log_credence
from doxa.slots import Slot
from doxa.systems import build
from tests.worlds import board, settings_of

SETTINGS = {"dimension": 8, "epochs": 40, "batch_size": 16, "num_candidates": 16, "learning_rate": 0.5, "threads": 1}


@pytest.fixture(scope="module")
def parts():
    return split(Beliefs.from_frame(board(8)), (0.2,), seed=0)


@pytest.fixture(scope="module")
def model(parts):
    """Joint words, which help so few beliefs to place their relations: its credence separates true from false."""
    return fit(*parts, **SETTINGS, mention_term="joint")


def test_candidates_are_the_entities_seen_in_their_slot():
    beliefs = Beliefs.from_frame(board(3))
    pbe = build(beliefs, settings_of(dimension=2))
    names = beliefs.vocabularies.entities
    assert {names[i] for i in pbe.seen[Slot.HEAD].tolist()} == set(board(3)["head"])
    assert {names[i] for i in pbe.seen[Slot.TAIL].tolist()} == set(board(3)["tail"])
    assert "2,2" not in {names[i] for i in pbe.seen[Slot.HEAD].tolist()}


def test_thresholds_and_calibration_come_from_validation(model, parts):
    labeled = labeled_beliefs(parts[1].encode(model.vocabularies), model.known, model.settings.seed)
    scores = decision_score(model.pbe, labeled, "product")
    expected = Thresholds.fit(scores, labeled.relation, labeled.label, 2)
    assert model.calibration.thresholds.by_relation.tolist() == expected.by_relation.tolist()
    assert model.calibration.thresholds.overall == expected.overall
    inputs = log_credence(log_terms(model.pbe, labeled, model.calibration.mention_exponent))
    fitted = fit_curve(inputs, labeled.relation, labeled.label, 2)
    assert model.calibration.curve.as_dict(str) == fitted.as_dict(str)
    assert model.calibration.curve.kind != "none"


def test_early_stopping_looks_at_head_relation_and_tail(model, parts):
    valid = parts[1].encode(model.vocabularies)
    by_slot = [ranks(model.pbe, slot, valid, model.known) for slot in Slot]
    expected = np.mean([Metrics.of(result.filtered).mrr for result in by_slot])
    best = max(record["metric"] for record in model.curve if record["metric"] is not None)
    assert best == pytest.approx(expected)


def test_credence_depends_on_the_mention_and_the_decision_does_not(model, parts):
    beliefs = parts[1].encode(model.vocabularies)
    silent = beliefs.without_mentions()
    alone, unsaid = (judge(model, one, contradictions=False) for one in (beliefs, silent))
    assert alone.accepted.tolist() == unsaid.accepted.tolist()
    assert not np.allclose(alone.credence, unsaid.credence)
    inputs = log_credence(log_terms(model.pbe, beliefs, model.calibration.mention_exponent))
    expected = model.calibration.curve.probability(inputs, beliefs.relation)
    assert np.allclose(alone.credence, expected)


def with_thresholds(model, thresholds):
    return replace(model, calibration=replace(model.calibration, thresholds=thresholds))


def test_a_belief_right_at_its_threshold_is_accepted(model, parts):
    one = parts[1].encode(model.vocabularies).take(np.array([0]))
    score = float(decision_score(model.pbe, one, "product")[0])
    at = with_thresholds(model, Thresholds(np.full(2, score), score))
    above = with_thresholds(model, Thresholds(np.full(2, np.nextafter(score, 1)), score))
    assert judge(at, one).accepted.tolist() == [True]
    assert judge(above, one).accepted.tolist() == [False]


def test_rows_labeled_false_are_not_trained_on():
    table = board(5)
    wrong = table.with_columns(tail=table["tail"].reverse())
    labeled = Beliefs.from_frame(_labeled(table, 1).vstack(_labeled(wrong, -1)))
    plain, with_negatives = fit(Beliefs.from_frame(table), **SETTINGS), fit(labeled, **SETTINGS)
    assert with_negatives.origin["sha256"] == plain.origin["sha256"]
    assert with_negatives.tails("1,1", "up") == plain.tails("1,1", "up")


def _labeled(table, label):
    return table.with_columns(label=np.full(len(table), label, np.int8))


def test_a_subset_is_trained_in_its_own_vocabularies(parts):
    """Names of the other rows are unknown to the model; validation with them is refused if strict."""
    whole = Beliefs.from_frame(board(8))
    near = np.flatnonzero([int(h[0]) < 4 and int(t[0]) < 4 for h, t in board(8).select("head", "tail").rows()])
    model = fit(whole.take(near), **SETTINGS)
    assert len(model.vocabularies.entities) == 32
    with pytest.raises(DoxaError, match="which training never sees"):
        fit(whole.take(near), whole, strict=True, **SETTINGS)


def test_inputs_other_than_beliefs_are_refused():
    with pytest.raises(DoxaError, match=r"from a str\n  .*doxa\.read reads files"):
        fit("beliefs.tsv")


def test_without_validation_a_share_is_held_out(parts):
    model = fit(parts[0], validation_fraction=0.1, **SETTINGS)
    assert model.origin["beliefs"] + model.origin["validation_beliefs"] == len(parts[0])
    assert 0 < model.origin["validation_beliefs"] <= 0.1 * len(parts[0]) + 1


def test_the_thread_count_of_the_process_is_restored(parts):
    import torch

    torch.set_num_threads(1)
    fit(parts[0], **(SETTINGS | {"threads": 2, "epochs": 1}))
    assert torch.get_num_threads() == 1


def test_mentions_that_mislead_validation_get_a_smaller_exponent():
    table = board(6)
    train, valid = split(Beliefs.from_frame(table), (0.3,), seed=0)
    reversed_mentions = valid.to_frame().with_columns(mention=pl.Series(valid.to_frame()["mention"].to_list()[::-1]))
    settings = {"dimension": 8, "epochs": 30, "batch_size": 16, "learning_rate": 0.5, "patience": 0, "threads": 1}
    right, wrong = (
        fit(train, part, **settings).calibration.mention_exponent
        for part in (valid, Beliefs.from_frame(reversed_mentions))
    )
    assert wrong < right
    assert wrong != 1
