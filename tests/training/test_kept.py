"""A run that fails keeps its checkpoint and says how to go on, unless it would fail again."""

import pytest

from doxa.data.beliefs import Beliefs
from doxa.errors import BadModel, DoxaError
from doxa.storage import models as store
from doxa.storage.folders import CHECKPOINT
from doxa.systems import recipe
from doxa.training.fit import fit_to_folder
from doxa.training.steps import DIVERGED, Steps
from tests.worlds import board

VALUES = {"score": "translation", "dimension": 4, "epochs": 2, "batch_size": 16, "threads": 1}


def run(folder, resume=False):
    settings = recipe(VALUES | {"checkpoint_seconds": 0.0})
    return fit_to_folder(Beliefs.from_frame(board(4, words=False)), None, folder, settings=settings, resume=resume)


def test_a_full_disk_at_the_end_keeps_the_run(tmp_path, monkeypatch):
    def full(*_, **__):
        raise BadModel("cannot write the model: No space left on device")

    monkeypatch.setattr(store, "write", full)
    with pytest.raises(DoxaError, match=r"No space left on device\n  what is trained so far is kept") as refusal:
        run(tmp_path / "m")
    assert refusal.value.remedy == "resume_failed"
    assert (tmp_path / "m" / CHECKPOINT).exists()
    monkeypatch.undo()
    assert run(tmp_path / "m", resume=True).origin["epochs"] == 2
    assert not (tmp_path / "m" / CHECKPOINT).exists()


def test_memory_that_runs_out_keeps_the_run(tmp_path, monkeypatch):
    real = Steps.take

    def take(self, number, fraction):
        if number == 2:
            raise MemoryError
        return real(self, number, fraction)

    monkeypatch.setattr(Steps, "take", take)
    with pytest.raises(DoxaError, match="memory ran out"):
        run(tmp_path / "m")
    monkeypatch.undo()
    assert run(tmp_path / "m", resume=True).origin["epochs"] == 2


def test_a_run_that_diverges_leaves_nothing(tmp_path, monkeypatch):
    real = Steps.take

    def take(self, number, fraction):
        if number == 2:
            raise DoxaError("the loss became nan", remedy=DIVERGED)
        return real(self, number, fraction)

    monkeypatch.setattr(Steps, "take", take)
    with pytest.raises(DoxaError, match="the loss became nan"):
        run(tmp_path / "m")
    assert not (tmp_path / "m").exists()
