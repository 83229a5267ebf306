"""The judge: everything fitted on validation data, written, read back, grown and refitted."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import doxa
from doxa.calibration import judge as module
from doxa.calibration.judge import Judge, _affordable
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.errors import CannotAnswer, UsageError
from doxa.model import fit
from doxa.systems import build
from tests import reference
from tests.worlds import beliefs, board, model_of_facts, random_model, settings_of

QUICK = {"dimension": 6, "epochs": 3, "batch_size": 16, "num_candidates": 16, "threads": 1}


@pytest.fixture(scope="module")
def parts():
    """Train, and labeled validation with confidence and unseen entities."""
    train, valid = split(Beliefs.from_frame(board(6)), (0.4,), seed=0)
    table = valid.to_frame().with_columns(confidence=pl.Series(np.linspace(0.2, 1.0, len(valid))))
    back = table.with_columns(head="tail", tail="head", confidence=pl.lit(0.5))
    new = table[:8].with_columns(tail=pl.lit("new"))
    labels = [1] * len(table) + [-1] * len(back) + [1, -1] * 4
    return train, Beliefs.from_frame(pl.concat([table, back, new]).with_columns(label=pl.Series(labels, dtype=pl.Int8)))


@pytest.fixture(scope="module", params=["product", "learned", "tail"])
def model(request, parts):
    return fit(*parts, decision_rule=request.param, **QUICK)


def assert_alike(one, other, relations):
    """Two judges with the same content."""
    assert one.to_dict(relations) == other.to_dict(relations)


def test_a_judge_is_read_back_as_it_was_written(model):
    relations = model.vocabularies.relations
    stored = json.loads(json.dumps(model.calibration.to_dict(relations), allow_nan=False))
    again = Judge.from_dict(stored, relations)
    assert_alike(again, model.calibration, relations)
    asked = Beliefs.from_frame(board(6)).encode(model.vocabularies)
    for before, after in zip(
        model.calibration.judge(model.pbe, asked, model.trained_facts),
        again.judge(model.pbe, asked, model.trained_facts),
        strict=True,
    ):
        assert np.array_equal(before, after)
    assert again.unseen is not None
    assert again.expected_confidence is not None


def test_a_relation_that_the_vocabulary_lacks_is_an_error(model):
    stored = model.calibration.to_dict(model.vocabularies.relations)
    stored["thresholds"] = {"overall": 0.0, "by_relation": {"down": 1.0}}
    with pytest.raises(KeyError, match="down"):
        Judge.from_dict(stored, model.vocabularies.relations)


def test_new_relations_use_what_was_fitted_over_all(model):
    judge = model.calibration
    grown = judge.grow(2)
    assert judge.grow(0) is judge
    assert np.isnan(grown.thresholds.by_relation[2:]).all()
    assert grown.thresholds.of(np.array([3])) == judge.thresholds.overall
    assert grown.curve.slopes[2:].tolist() == [judge.curve.slope] * 2
    assert grown.expected_confidence.offsets[2:].tolist() == [judge.expected_confidence.offset] * 2
    assert grown.unseen is None
    if judge.weights is not None:
        assert grown.weights.by_relation[3].tolist() == judge.weights.overall.tolist()


def test_refitting_to_the_validation_labels_changes_nothing(model, parts):
    valid = parts[1].encode(model.vocabularies)
    valid = valid.where(valid.seen)
    again = model.calibration.refit(model.pbe, model.settings, model.trained_facts, valid, model.known)
    assert_alike(again, model.calibration, model.vocabularies.relations)


def test_calibrating_anew_equals_training_with_the_other_rule(model, parts):
    """Judging settings can be changed without training again."""
    other = fit(*parts, decision_rule="entities", base_rate=0.2, **QUICK)
    again = model.calibrate(parts[1], decision_rule="entities", base_rate=0.2)
    assert_alike(again.calibration, other.calibration, model.vocabularies.relations)
    assert again.settings == other.settings
    assert np.array_equal(again.valid, other.valid)
    assert np.array_equal(again.known_confidence, other.known_confidence, equal_nan=True)
    assert np.array_equal(again.credence(parts[1]), other.credence(parts[1]), equal_nan=True)


def test_calibrating_with_new_beliefs_makes_them_known(model):
    step = ("4,4", "up", "1,1", 0.7)
    again = model.calibrate(Beliefs.of([step, ("0,0", "up", "0,1", 0.9)]))
    assert len(again.known) - len(model.known) in (1, 2)
    assert len(again.known_confidence) == len(again.train) + len(again.valid)
    assert {c.name: c.known for c in again.tails("4,4", "up", top=99)}["1,1"]
    assert len(model.known_confidence) == len(model.train) + len(model.valid), "the model itself stays as it was"
    with pytest.raises(UsageError, match="no validation belief"):
        model.calibrate([("a", "up", "b")])


def test_temperatures_are_fitted_with_the_other_answers_of_validation_among_the_candidates():
    """Where the tails of e0 are held out together, only those of train are left out of its candidates."""
    known = {r: (1 + r, 5 + r) for r in range(4)}
    model, world = model_of_facts([(0, r, t) for r, tails in known.items() for t in tails], seed=1)
    valid = Beliefs.from_triples(model.vocabularies, np.array([(0, r, t) for r in known for t in (9, 10, 11)]))
    judge = Judge.fit(model.pbe, model.settings, model.trained_facts, valid, can_classify=False)

    def loss(temperature):
        total = 2 * np.log(temperature) ** 2
        for h, r, t in valid.triples.tolist():
            candidates = [x for x in world.seen_tails if x not in known[r]]
            scores = [reference.score(world, h, r, x) / temperature for x in candidates]
            total -= np.log(reference.softmax_share(scores[candidates.index(t)], scores))
        return total

    best = min(np.exp(np.linspace(-2, 2, 1001)), key=loss)
    assert judge.temperatures.tail == pytest.approx(best, rel=0.005)


def test_more_validation_beliefs_are_used_where_entities_are_few(parts, monkeypatch):
    pbe, random = build(parts[0], settings_of(dimension=2)), np.random.default_rng(0)
    monkeypatch.setattr(module, "MAX_JUDGED", 5)
    monkeypatch.setattr(module, "MAX_SCORED", 90_000)
    assert len(_affordable(pbe, parts[0], random)) == 9
    monkeypatch.setattr(module, "MAX_SCORED", 10_000)
    assert len(_affordable(pbe, parts[0], random)) == 5
    assert len(_affordable(pbe, parts[0].take(np.arange(3)), random)) == 3


def test_a_judgment_is_a_result(model):
    rows = [("0,0", "up", "0,1", "one step up"), ("0,0", "right", "5,5", None), ("0,0", "up", "Mars", None)]
    judgment = model.judge(rows)
    frame = judgment.to_frame()
    assert frame.columns == ["head", "relation", "tail", "mention", "credence", "verdict"]
    assert frame["tail"].to_list() == ["0,1", "5,5", "Mars"]
    assert frame["credence"].null_count() == 1
    assert frame["verdict"].to_list() == judgment.verdict.tolist()
    assert frame["verdict"][2] == "unknown"
    assert set(frame["verdict"][:2]) <= {"true", "false"}
    known = [row | {"known": known} for row, known in zip(frame.to_dicts(), (True, False, False), strict=True)]
    assert judgment.as_dict()["beliefs"] == known
    assert repr(judgment).startswith("Judgment(3 beliefs: ")
    assert "1 unknown" in repr(judgment)


def test_frames_and_tuples_are_judged_alike(model):
    rows = board(6).rows()
    expected = model.credence(Beliefs.from_frame(board(6)))
    assert np.array_equal(model.credence(rows), expected)
    assert np.array_equal(model.credence(board(6)), expected)


def test_what_a_system_cannot_do_is_its_own_error():
    train = beliefs([("a", "r", "b"), ("b", "s", "c"), ("c", "r", "a")])
    model = doxa.fit(train, system="jrme", dimension=2, epochs=1, threads=1)
    with pytest.raises(CannotAnswer, match="cannot answer"):
        model.credence(train)
    other, _ = random_model(0)
    with pytest.raises(CannotAnswer, match="cannot predict confidence"):
        other.confidence([("e1", "r1", "e2")])


def test_info_sums_a_model_up(model):
    info = model.info()
    kept = json.loads(json.dumps(info.as_dict()))
    assert set(kept) == {
        "system", "score", "entities", "relations", "words", "facts", "settings", "training", "calibration",
    }  # fmt: skip
    assert (info.entities, info.relations, info.facts) == (36, 2, len(model.known))
    assert kept["calibration"]["rule"] == model.calibration.rule
    assert set(info.to_frame()["group"]) >= {"model", "training", "calibration"}
    assert repr(model).startswith("Model(pbe on translation, 36 entities, 2 relations")


def test_rules_of_one_model_do_not_touch_another(model):
    """A judge is frozen: what is replaced in a copy stays out of the original."""
    copy = replace(model.calibration, mention_exponent=3.0)
    assert model.calibration.mention_exponent != copy.mention_exponent
