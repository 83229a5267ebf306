"""Several workers: every step is taken, the world is learnt, and trouble is told."""

import os
import signal

import pytest
import torch

from doxa.data.beliefs import Beliefs
from doxa.errors import DoxaError
from doxa.model import fit
from doxa.systems import build
from doxa.training.checkpoint import Checkpoint
from doxa.training.executors.workers import run_with_workers
from doxa.training.loop import Trainer
from tests.test_toy_world import SETTINGS, withheld
from tests.worlds import board, settings_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _no_longer_than_a_minute():
    """A crew that never ends must fail the test, not hang it."""

    def give_up(*_):
        raise TimeoutError("the workers did not end")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


SMALL = settings_of(dimension=8, epochs=6, batch_size=8, num_candidates=8, checkpoint_seconds=0.0, workers=2)


def trainer(settings=SMALL, **more):
    some = Beliefs.from_frame(board(4))
    return Trainer(build(some, settings), some, settings, **more)


def test_all_steps_are_taken_and_the_loss_falls():
    run = trainer(SMALL.changed(epochs=30, learning_rate=0.5, patience=0), validate=lambda: 0.5)
    memory = run_with_workers(run, 2)
    assert memory.step == memory.epoch * run.steps_per_epoch
    assert [point.epoch for point in memory.curve] == list(range(1, memory.epoch + 1))
    assert memory.curve[-1].loss < memory.curve[0].loss


def test_two_workers_find_the_withheld_step():
    train, (head, relation, tail) = withheld(0)
    model = fit(train, seed=0, workers=2, **SETTINGS)
    assert model.origin["epochs"] == SETTINGS["epochs"]
    assert model.tails(head, relation, top=1)[0].name == tail
    assert model.heads(relation, tail, top=1)[0].name == head


def test_a_time_budget_ends_all_workers():
    memory = run_with_workers(trainer(SMALL.changed(time_budget=0.5, patience=0)), 2)
    assert 0.5 <= memory.seconds < 5
    assert memory.finished


def test_what_stops_a_worker_is_told():
    with pytest.raises(DoxaError, match="the loss became"):
        run_with_workers(trainer(SMALL.changed(optimizer="sgd", learning_rate=1e30)), 2)


def test_ctrl_c_stops_all_workers_with_a_checkpoint(tmp_path):
    path = tmp_path / "c.safetensors"
    run = trainer(SMALL.changed(epochs=100_000, patience=0), checkpoint=path)
    run.report = lambda now: os.kill(os.getpid(), signal.SIGINT) if now.epoch == 3 and not run.interrupted else None
    memory = run_with_workers(run, 2)
    assert run.interrupted
    assert not memory.finished
    assert all(torch.isfinite(tensor).all() for tensor in run.pbe.state_dict().values())
    again = trainer(SMALL.changed(epochs=100_000, patience=0))
    again.resume(Checkpoint.load(path))
    assert again.memory.step == again.memory.epoch * again.steps_per_epoch
