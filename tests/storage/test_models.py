"""The model folder: whole or refused."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from doxa.calibration.thresholds import Thresholds
from doxa.data.beliefs import Beliefs
from doxa.errors import BadModel, UsageError
from doxa.inference import judge
from doxa.model import Model, fit
from doxa.storage import folders, models
from tests.model_folders import forge, manifest, part
from tests.worlds import beliefs, board, model_of_facts


@pytest.fixture(scope="module")
def model():
    return fit(Beliefs.from_frame(board(4)), dimension=4, epochs=2, batch_size=16, num_candidates=8, threads=1)


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


def test_everything_comes_back(model, folder):
    loaded = Model.load(folder)
    assert loaded.settings == model.settings
    assert loaded.vocabularies.entities.names.to_list() == model.vocabularies.entities.names.to_list()
    assert loaded.vocabularies.words.names.to_list() == model.vocabularies.words.names.to_list()
    assert np.array_equal(loaded.train, model.train)
    assert np.array_equal(loaded.valid, model.valid)
    assert np.array_equal(
        loaded.calibration.thresholds.by_relation, model.calibration.thresholds.by_relation, equal_nan=True
    )
    assert loaded.calibration.thresholds.overall == model.calibration.thresholds.overall
    assert loaded.calibration.curve.as_dict(str) == model.calibration.curve.as_dict(str)
    assert loaded.calibration.temperatures == model.calibration.temperatures
    assert loaded.calibration.weights is None
    assert loaded.origin == model.origin
    assert loaded.curve == model.curve


def test_the_thresholds_of_unseen_names_come_back(tmp_path):
    """Per kind where validation had such beliefs, and over all where it had none."""
    model, _ = model_of_facts([(1, 0, 5), (2, 0, 5), (2, 0, 6), (1, 1, 5)])
    by_kind = np.full(2 * len(model.vocabularies.relations), np.nan)
    by_kind[:2] = np.log1p([5, 1.5])
    model = replace(model, calibration=replace(model.calibration, unseen=Thresholds(by_kind, float(np.log1p(0.5)))))
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    asked = beliefs([("new", "r0", "e5"), ("e1", "r0", "new"), ("e2", "r0", "new"), ("e1", "r1", "new")])
    for one in (model, loaded):
        assert judge(one, asked).accepted.tolist() == [False, False, True, True]
    assert loaded.calibration.unseen.by_relation == pytest.approx(by_kind, nan_ok=True)
    assert loaded.calibration.unseen.overall == pytest.approx(np.log1p(0.5))


def test_the_confidences_of_facts_come_back(tmp_path):
    """In the order of the facts, those of train first; a fact without one keeps none."""
    model, _ = model_of_facts([(1, 0, 5), (2, 0, 5)], valid=[(3, 1, 6), (4, 1, 6)])
    confidence = np.array([0.9, np.nan, 0.25, 0.1])
    replace(model, known_confidence=confidence).save(tmp_path / "with")
    model.save(tmp_path / "without")
    assert Model.load(tmp_path / "with").known_confidence == pytest.approx(confidence, nan_ok=True)
    assert len(Model.load(tmp_path / "without").known_confidence) == 0


def test_the_weights_of_the_learned_rule_comes_back(tmp_path):
    """Also where a relation has the weights of all."""
    sample = Beliefs.from_frame(board(4))
    model = fit(sample, dimension=4, epochs=2, batch_size=16, num_candidates=8, threads=1, decision_rule="learned")
    model.calibration.weights.by_relation[1] = model.calibration.weights.overall
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    assert np.array_equal(loaded.calibration.weights.by_relation, model.calibration.weights.by_relation)
    assert np.array_equal(loaded.calibration.weights.overall, model.calibration.weights.overall)
    assert len({tuple(row) for row in loaded.calibration.weights.by_relation}) == 2
    assert judge(loaded, sample).accepted.tolist() == judge(model, sample).accepted.tolist()


def test_loaded_tensors_are_aligned(folder):
    """Matrix products of unaligned tensors round differently on some processors."""
    tensors = Model.load(folder).pbe.state_dict()
    assert len(tensors) > 3
    assert {name: tensor.data_ptr() % 64 for name, tensor in tensors.items()} == dict.fromkeys(tensors, 0)


def test_the_folder_tells_what_it_was_trained_on(folder):
    origin = json.loads((folder / "model.json").read_text())["origin"]
    assert origin["beliefs"] + origin["validation_beliefs"] == 24
    assert len(origin["sha256"]) == 64
    assert (origin["entities"], origin["relations"], origin["epochs"]) == (16, 2, 2)


def test_an_existing_model_is_replaced_only_by_force(model, folder):
    with pytest.raises(UsageError, match="already holds a model") as refusal:
        model.save(folder)
    assert refusal.value.remedy == "force"
    assert "--" not in str(refusal.value)
    model.save(folder, force=True)
    assert Model.load(folder).settings == model.settings
    assert [path.name for path in folder.parent.iterdir()] == ["m"]


def test_a_panic_of_polars_is_a_damaged_model(folder, monkeypatch):
    def panics(*_):
        raise pl.exceptions.PanicException("range end index 9 out of range")

    monkeypatch.setattr(models, "read_texts", panics)
    with pytest.raises(BadModel, match="not a whole model"):
        Model.load(folder)


def test_a_full_disk_met_by_polars_leaves_the_old_model(model, folder, monkeypatch):
    def full(*_, **__):
        raise pl.exceptions.ComputeError("IO error: No space left on device (os error 28)")

    before = manifest(folder)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(BadModel, match="no space left on device"):
        model.save(folder, force=True)
    assert manifest(folder) == before


@pytest.mark.parametrize("name", ["weights", "facts", "entities"])
def test_a_truncated_or_missing_file_is_refused(folder, name):
    path = part(folder, name)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(BadModel, match=f"{path.name} holds .* bytes where .* were written"):
        Model.load(folder)
    path.unlink()
    with pytest.raises(BadModel, match=f"not a whole model: {path.name} is missing"):
        Model.load(folder)


def test_foreign_folders_are_refused(tmp_path, folder):
    with pytest.raises(BadModel, match="no model folder"):
        Model.load(tmp_path / "none")
    with pytest.raises(BadModel, match=r"holds no model\.json"):
        Model.load(tmp_path)
    written = manifest(folder)
    for change, message in (
        ({"format": "something else"}, "expected a 'doxa model'"),
        ({"version": 99}, "newer than this doxa reads"),
        ({"settings": {"dimension": "red"}}, "dimension"),
        ({"judge": {}}, "not a whole model"),
        ({"files": None}, "not the manifest"),
    ):
        forge(folder, written | change)
        with pytest.raises(BadModel, match=message):
            Model.load(folder)
    (folder / "model.json").write_text("{not json")
    with pytest.raises(BadModel, match="not the manifest"):
        Model.load(folder)


def test_weights_of_another_size_are_refused(folder, tmp_path):
    other = fit(Beliefs.from_frame(board(4)), dimension=5, epochs=1, batch_size=16, num_candidates=8, threads=1)
    other.save(tmp_path / "other")
    weights = part(tmp_path / "other", "weights")
    (folder / weights.name).write_bytes(weights.read_bytes())
    files = manifest(folder)["files"] | {"weights": manifest(tmp_path / "other")["files"]["weights"]}
    forge(folder, manifest(folder) | {"files": files})
    with pytest.raises(BadModel, match="not a whole model"):
        Model.load(folder)


def test_an_unfinished_run_is_recognized(tmp_path):
    (tmp_path / folders.CHECKPOINT).write_bytes(b"x")
    with pytest.raises(BadModel, match="is not finished"):
        Model.load(tmp_path)
    with pytest.raises(UsageError, match="already holds an unfinished run"):
        folders.check_vacant(tmp_path, force=False, resume=False)
    folders.check_vacant(tmp_path, force=False, resume=True)
    with pytest.raises(UsageError, match="no unfinished run to resume"):
        folders.check_vacant(tmp_path / "new", force=False, resume=True)
