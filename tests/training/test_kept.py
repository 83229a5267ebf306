"""A run that fails keeps its checkpoint and says how to go on, unless it would fail again."""

import os
import signal

import pytest

from doxa.data.atomic import Busy
from doxa.data.beliefs import Beliefs
from doxa.errors import BadModel, DoxaError
from doxa.storage import models as store
from doxa.storage.folders import CHECKPOINT
from doxa.systems import recipe
from doxa.training.fit import fit_to_folder
from doxa.training.steps import DIVERGED, Steps
from tests.worlds import board

VALUES = {"score": "translation", "dimension": 4, "epochs": 2, "batch_size": 16, "threads": 1}


def run(folder, resume=False, **options):
    settings = recipe(VALUES | {"checkpoint_seconds": 0.0})
    beliefs = Beliefs.from_frame(board(4, words=False))
    return fit_to_folder(beliefs, None, folder, settings=settings, resume=resume, **options)


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


def test_a_second_run_into_the_same_folder_is_refused(tmp_path):
    refusals = []

    def report(progress):
        if not refusals:
            with pytest.raises(Busy, match="another process is writing to") as refusal:
                run(tmp_path / "m", force=True)
            refusals.append(refusal)

    assert run(tmp_path / "m", report=report).origin["epochs"] == 2
    assert len(refusals) == 1


def test_a_worker_that_is_killed_keeps_the_run(tmp_path, monkeypatch):
    """As the system does when memory runs out."""
    real, leader = Steps.take, os.getpid()

    def take(self, number, fraction):
        if os.getpid() != leader and number >= self.per_epoch:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, number, fraction)

    monkeypatch.setattr(Steps, "take", take)
    monkeypatch.setitem(VALUES, "workers", 2)
    with pytest.raises(DoxaError, match=r"a worker process was killed(.|\n)*what is trained so far is kept"):
        run(tmp_path / "m")
    monkeypatch.undo()
    assert run(tmp_path / "m", resume=True).origin["epochs"] == 2
