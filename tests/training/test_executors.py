"""Executors: one process and several workers run exactly the steps of a range, and failures are reported."""

import os
import signal

import pytest
import torch

from doxa.data.beliefs import Beliefs
from doxa.errors import DoxaError
from doxa.model import fit
from doxa.systems import build
from doxa.training.checkpoint import Checkpoint
from doxa.training.executors.single import SingleProcess
from doxa.training.executors.workers import Workers
from doxa.training.loop import TrainingLoop
from doxa.training.steps import Steps
from tests.test_toy_world import SETTINGS, withheld
from tests.worlds import board, settings_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _no_longer_than_a_minute():
    """Workers that never end must fail the test, not hang it."""

    def give_up(*_):
        raise TimeoutError("the workers did not end")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


SMALL = settings_of(dimension=8, epochs=6, batch_size=8, num_candidates=8, checkpoint_seconds=0.0, workers=2)


def loop_of(settings=SMALL, **more):
    train = Beliefs.from_frame(board(4))
    return TrainingLoop(Steps(build(train, settings), train, settings), **more)


class Recorder:
    """In place of the steps of a run: counts, in memory that processes share, how often each one is taken."""

    per_epoch, in_parts = 20, False

    def __init__(self):
        train = Beliefs.from_frame(board(3))
        steps = Steps(build(train, SMALL), train, SMALL)
        self.pbe, self.optimizer = steps.pbe, steps.optimizer
        self.taken = torch.zeros(60, dtype=torch.int64).share_memory_()

    def warm_up(self, backward=True):
        pass

    def take(self, number, fraction):
        self.taken[number] += 1
        return 1.0 + number + fraction

    def numbers(self):
        return self.taken.nonzero().flatten().tolist()


def never_done(step):
    return 0.0


def single(steps):
    return SingleProcess(steps)


def two_workers(steps):
    return Workers(steps, 2)


def five_workers(steps):
    return Workers(steps, 5)


EXECUTORS = pytest.mark.parametrize("executor", [single, two_workers, five_workers])


@EXECUTORS
def test_an_executor_runs_exactly_the_steps_of_a_range(executor):
    """Whole epochs and parts of them, one call after the other, on the same executor."""
    steps = Recorder()
    runner = executor(steps)
    try:
        for numbers in (range(3, 20), range(20, 40), range(40, 41), range(50, 50)):
            steps.taken.zero_()
            reports = list(runner.run_epoch(numbers, never_done))
            assert steps.numbers() == list(numbers)
            assert steps.taken.max() <= 1
            done = [report.steps for report in reports]
            assert done == sorted(done)
            if numbers:
                assert reports[-1].steps == len(numbers)
                assert reports[-1].loss == pytest.approx(sum(1.0 + number for number in numbers))
    finally:
        runner.close()


@EXECUTORS
def test_an_executor_stops_by_itself_when_the_run_is_done(executor):
    def fraction(step):
        return step / 12

    steps = Recorder()
    runner = executor(steps)
    try:
        reports = list(runner.run_epoch(range(20), fraction))
    finally:
        runner.close()
    assert steps.numbers() == list(range(12))
    assert reports[-1].steps == 12
    assert reports[-1].loss == pytest.approx(sum(1.0 + number + fraction(number) for number in range(12)))


@EXECUTORS
def test_a_stopped_executor_takes_no_further_step(executor):
    steps = Recorder()
    runner = executor(steps)
    try:
        runner.stop()
        list(runner.run_epoch(range(20), never_done))
    finally:
        runner.close()
    assert steps.numbers() == []


def test_there_are_no_more_workers_than_steps():
    steps = Recorder()
    steps.per_epoch = 3
    runner = Workers(steps, 8)
    try:
        list(runner.run_epoch(range(3), never_done))
        assert len(runner._processes) == 3
    finally:
        runner.close()
    assert steps.numbers() == [0, 1, 2]
    assert all(process.exitcode == 0 for process in runner._processes)


def test_workers_take_all_steps_and_the_loss_falls():
    loop = loop_of(SMALL.changed(epochs=30, learning_rate=0.5, patience=0), validate=lambda: 0.5)
    state = loop.run()
    assert state.step == state.epoch * loop.steps.per_epoch
    assert [record.epoch for record in state.curve] == list(range(1, 31))
    assert state.curve[-1].loss < state.curve[0].loss


def test_two_workers_find_the_withheld_step():
    train, (head, relation, tail) = withheld(0)
    model = fit(train, seed=0, workers=2, **SETTINGS)
    assert model.origin["epochs"] == SETTINGS["epochs"]
    assert model.tails(head, relation, top=1)[0].name == tail
    assert model.heads(relation, tail, top=1)[0].name == head


def test_a_time_budget_ends_all_workers():
    state = loop_of(SMALL.changed(time_budget=0.5, patience=0)).run()
    assert state.seconds >= 0.5
    assert state.finished


def test_the_error_of_a_worker_is_reported():
    with pytest.raises(DoxaError, match="the loss became"):
        loop_of(SMALL.changed(optimizer="sgd", learning_rate=1e30)).run()


def test_a_killed_worker_is_reported():
    class Fatal(Recorder):
        def take(self, number, fraction):
            os.kill(os.getpid(), signal.SIGKILL)

    runner = Workers(Fatal(), 2)
    try:
        with pytest.raises(DoxaError, match="a worker process was killed"):
            list(runner.run_epoch(range(20), never_done))
    finally:
        runner.close()


def test_ctrl_c_stops_all_workers_with_a_checkpoint(tmp_path):
    path, settings = tmp_path / "c.safetensors", SMALL.changed(epochs=100_000, patience=0)
    loop = loop_of(settings, checkpoint=path)
    loop.report = lambda now: os.kill(os.getpid(), signal.SIGINT) if now.epoch == 3 and not loop.interrupted else None
    state = loop.run()
    assert loop.interrupted
    assert not state.finished
    assert all(torch.isfinite(tensor).all() for tensor in loop.pbe.state_dict().values())
    again = loop_of(settings)
    again.resume(Checkpoint.load(path))
    assert again.state.step == again.state.epoch * again.steps.per_epoch


def test_workers_resume_a_single_process_in_the_middle_of_an_epoch(tmp_path):
    """A single process is interrupted in step 5 of 3 per epoch; two workers take all steps from there to the end."""
    path = tmp_path / "c.safetensors"
    stopped = loop_of(SMALL.changed(workers=1), checkpoint=path)
    step = stopped.steps.optimizer.step

    def interrupt(rate):
        step(rate)
        if stopped.state.step == 4:
            signal.raise_signal(signal.SIGINT)

    stopped.steps.optimizer.step = interrupt
    stopped.run()
    assert stopped.interrupted
    assert stopped.steps.per_epoch == 3

    resumed = loop_of(SMALL)
    resumed.resume(Checkpoint.load(path))
    assert resumed.state.step == 5
    taken, take = torch.zeros(18, dtype=torch.int64).share_memory_(), resumed.steps.take

    def count(number, fraction):
        taken[number] += 1
        return take(number, fraction)

    resumed.steps.take = count
    state = resumed.run()
    assert taken.tolist() == [0] * 5 + [1] * 13
    assert (state.step, state.epoch, state.finished) == (18, 6, True)
    assert [record.epoch for record in state.curve] == [1, 2, 3, 4, 5, 6]
    assert state.curve[1].loss > stopped.state.epoch_loss / len(stopped.beliefs)
