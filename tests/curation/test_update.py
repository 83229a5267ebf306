"""Updating: new beliefs are learned, retracted ones unlearned, and the rest stays."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from doxa.calibration.judge import Judge
from doxa.curation.update import _refit_settings, _with_old, update
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.errors import DoxaError, UsageError
from doxa.inference import judge
from doxa.model import Model, fit
from tests.test_toy_world import SETTINGS
from tests.worlds import beliefs, board


def table_without(*squares, size=6):
    table = board(size, words=False)
    about = pl.col("head").is_in(squares) | pl.col("tail").is_in(squares)
    return table.filter(~about), table.filter(about)


@pytest.fixture(scope="module")
def model():
    return fit(Beliefs.from_frame(table_without("5,5", "5,4")[0]), seed=0, threads=1, **SETTINGS)


def test_new_squares_are_learned_and_the_far_ones_do_not_move(model):
    _, steps = table_without("5,5", "5,4")
    before = {name: tensor.clone() for name, tensor in model.pbe.state_dict().items()}
    result = update(model, Beliefs.from_frame(steps), epochs=40)
    assert result.counts["new_entities"] == 2
    assert result.counts["beliefs"] == len(steps)
    for name, tensor in model.pbe.state_dict().items():
        assert (tensor == before[name]).all()
    changed = set(steps["head"]) | set(steps["tail"])
    stay = [n for n, name in enumerate(model.vocabularies.entities.names) if name not in changed]
    assert (result.model.pbe.score.entity.weight[stay] == model.pbe.score.entity.weight[stay]).all()
    assert result.model.tails("5,4", "up", top=1)[0].name == "5,5"
    assert len(result.model.known) == len(model.known) + len(steps)
    assert result.drift.mrr_after > result.drift.mrr_before - 0.1
    assert result.model.origin["updates"][0]["new_entities"] == 2
    assert result.model.origin["sha256"] != model.origin["sha256"]


def test_training_facts_are_not_learned_again(model):
    _, steps = table_without("5,5", "5,4")
    known = Beliefs.from_triples(model.vocabularies, model.train[:7]).to_frame().select("head", "relation", "tail")
    alone, both = (update(model, Beliefs.from_frame(rows)) for rows in (steps, pl.concat([known, steps])))
    assert (both.counts["beliefs"], both.counts["known"]) == (len(steps), 7)
    assert alone.counts["known"] == 0
    assert torch.equal(both.model.pbe.score.entity.weight, alone.model.pbe.score.entity.weight)
    assert len(both.model.train) == len(model.train) + len(steps)
    stated = update(model, Beliefs.from_frame(known.with_columns(confidence=0.5)))
    assert (stated.counts["beliefs"], stated.counts["known"]) == (7, 0)


def test_new_relations_and_words_are_learned():
    table = board(5)
    model = fit(Beliefs.from_frame(table), seed=0, threads=1, **(SETTINGS | {"epochs": 40}))
    back = [(row[2], "left", row[0], "goes back") for row in table.rows() if row[1] == "right"]
    result = update(model, beliefs(back, ("head", "relation", "tail", "mention")), epochs=40)
    assert (result.counts["new_relations"], result.counts["new_words"]) == (1, 2)
    assert result.model.relations("3,1", "2,1", "goes back", top=1)[0].name == "left"
    assert result.model.relations("2,1", "3,1", "one step to the right", top=1)[0].name == "right"


def test_a_retracted_belief_is_unlearned():
    table = board(6, words=False)
    false = beliefs([("2,2", "right", "4,4")])
    model = fit(Beliefs.from_frame(table.vstack(false.to_frame())), seed=0, threads=1, **SETTINGS)
    result = update(model, retracted=false)
    assert result.drift.retracted_after < result.drift.retracted_before
    assert len(result.model.known) == len(model.known) - 1
    assert result.model.tails("2,2", "right", top=1)[0].name == "3,2"
    assert not result.model.tails("2,2", "right", top=30)[20].known
    with pytest.raises(DoxaError, match="1 of 1 beliefs to retract are not known"):
        update(model, retracted=beliefs([("2,2", "right", "5,5")]))


def test_a_retracted_validation_fact_is_no_longer_known():
    train, valid = split(Beliefs.from_frame(board(5, words=False)), (0.2,), seed=0)
    model = fit(train, valid, seed=0, threads=1, **(SETTINGS | {"epochs": 2}))
    retracted = valid.take(np.array([1]))
    updated = update(model, retracted=retracted).model
    assert judge(model, retracted).known.tolist() == [True]
    assert judge(updated, retracted).known.tolist() == [False]
    assert updated.valid.tolist() == np.delete(model.valid, 1, axis=0).tolist()
    assert updated.train.tolist() == model.train.tolist()


def labeled_board(model):
    """The steps of the board with the names of the model, labeled true, and the same turned back, labeled false."""
    known = model.vocabularies.entities.names
    rows = [(h, r, t, 1) for h, r, t in board(6, words=False).rows() if h in known and t in known]
    rows += [(t, r, h, -1) for h, r, t, _ in rows]
    return beliefs(rows, ("head", "relation", "tail", "label"))


def test_labels_calibrate_a_model_that_is_not_calibrated(model):
    labels = labeled_board(model)
    uncalibrated = replace(model, calibration=Judge.unfitted(2, model.calibration.rule))
    result = update(uncalibrated, labels=labels)
    assert result.model.calibration.curve.kind != "none"
    assert result.model.calibration.curve.adjustment is None
    credence = result.model.credence(labels)
    assert credence[labels.label == 1].mean() > credence[labels.label == -1].mean() + 0.3
    learned = replace(uncalibrated, settings=replace(model.settings, decision_rule="learned"))
    again = update(learned, labels=labels).model
    right = judge(again, labels).accepted == (labels.label == 1)
    assert again.calibration.weights.by_relation.shape == (len(model.vocabularies.relations), 4)
    assert right.mean() > 0.8
    few = update(uncalibrated, labels=labels.where(labels.label == 1)).model.calibration.curve
    assert few.kind == "none"
    assert few.adjustment is not None


@pytest.mark.parametrize("rule", ["product", "learned", "tail"])
def test_labels_move_a_calibrated_model_by_their_number(model, rule):
    labels = labeled_board(model)
    calibrated = replace(model, settings=replace(model.settings, decision_rule=rule))
    calibrated = update(replace(calibrated, calibration=Judge.unfitted(2)), labels=labels).model
    before = calibrated.calibration
    assert (before.rule, before.curve.kind == "none") == (rule, False)
    true = labels.where(labels.label == 1)
    rejected = replace(true, label=np.full(len(true), -1, np.int8))
    moves = []
    for times in (0.2, 1, 200):
        rows = np.arange(int(times * len(true))) % len(true)
        result = update(calibrated, labels=rejected.take(rows))
        drift, after = result.drift, result.model.calibration
        assert (drift.true_before, drift.true_after) == (None, None)
        assert drift.false_before == pytest.approx(calibrated.credence(true.take(rows)).mean())
        assert drift.false_after == pytest.approx(result.model.credence(true.take(rows)).mean())
        assert f"beliefs labeled false: mean credence {drift.false_before:.3f} → {drift.false_after:.3f}" in str(drift)
        assert after.weights is before.weights
        assert after.thresholds.overall > before.thresholds.overall
        moves.append(calibrated.credence(true).mean() - result.model.credence(true).mean())
    assert 0 < moves[0] < 0.05
    assert moves[0] < moves[1] < moves[2]
    assert moves[2] > 0.8
    again = update(calibrated, labels=labels)
    both = again.drift
    assert again.model.calibration.curve.adjustment is not None
    assert both.true_after == pytest.approx(both.true_before, abs=0.05)
    assert both.false_after == pytest.approx(both.false_before, abs=0.05)


def test_moved_credence_survives_saving_and_a_second_update(model, tmp_path):
    labels = labeled_board(model)
    labels = replace(labels, label=-labels.label)
    first = update(model, labels=labels.take(np.arange(10))).model
    first.save(tmp_path / "first")
    loaded = Model.load(tmp_path / "first")
    assert np.array_equal(loaded.credence(labels), first.credence(labels))
    second, again = (update(one, labels=labels.take(np.arange(30, 80))).model for one in (first, loaded))
    assert np.array_equal(second.credence(labels), again.credence(labels))
    assert np.abs(second.credence(labels) - first.credence(labels)).max() > 1e-4
    assert len(second.origin["updates"]) == 2


def test_what_makes_no_sense_is_refused(model):
    with pytest.raises(UsageError, match="nothing to update with"):
        update(model)
    with pytest.raises(UsageError, match="no column label"):
        update(model, labels=beliefs([("0,0", "up", "0,1")]))
    with pytest.raises(UsageError, match="none of the 1 labeled beliefs has names that the model knows"):
        update(model, labels=beliefs([("0,0", "up", "Mars", 1)], ("head", "relation", "tail", "label")))


def test_the_same_update_gives_the_same_model(model):
    _, steps = table_without("5,5", "5,4")
    one, two = (update(model, Beliefs.from_frame(steps), epochs=2) for _ in range(2))
    assert (one.model.pbe.score.entity.weight == two.model.pbe.score.entity.weight).all()
    assert replace(one.drift) == two.drift
    assert np.isfinite(one.model.pbe.score.entity.weight.detach().numpy()).all()


def test_the_confidence_of_facts_goes_with_them():
    table = board(5, words=False)
    every = Beliefs.from_frame(table.with_columns(confidence=pl.Series(np.linspace(0.2, 0.9, len(table)))))
    model = fit(
        every.take(np.arange(4, len(every))),
        seed=0,
        threads=1,
        **(SETTINGS | {"epochs": 2, "validation_fraction": 0.2}),
    )
    retracted = every.take(np.array([10]))
    updated = update(model, every.take(np.arange(4)), retracted).model
    vocabularies = updated.vocabularies
    confidence = {
        (vocabularies.entities[h], vocabularies.relations[r], vocabularies.entities[t]): c
        for (h, r, t), c in zip(
            np.concatenate([updated.train, updated.valid]).tolist(), updated.known_confidence, strict=True
        )
    }
    rows = table.with_columns(confidence=every.confidence).rows()
    assert confidence == pytest.approx({row[:3]: row[-1] for place, row in enumerate(rows) if place != 10})
    nothing = every.take(np.zeros(0, np.int64)).encode(vocabularies)
    old = _with_old(updated, every.take(np.arange(4)).encode(vocabularies), nothing).take(np.arange(4, 12))
    assert old.confidence.tolist() == pytest.approx([confidence[row[:3]] for row in old.to_frame().rows()])


def test_beliefs_without_words_do_not_train_the_relation_term_of_a_model_with_words(model):
    with_words = fit(Beliefs.from_frame(board(4)), seed=0, threads=1, **(SETTINGS | {"epochs": 1}))
    plain, with_mentions = (Beliefs.from_frame(board(4, words=words)) for words in (False, True))
    assert _refit_settings(with_words, plain).relation_weight == 0
    assert _refit_settings(with_words, with_mentions).relation_weight == with_words.settings.relation_weight > 0
    assert _refit_settings(model, plain) == model.settings
