"""The loop: repeatable, resumable, stoppable."""

import logging
import signal

import numpy as np
import polars as pl
import pytest
import torch

from doxa.data.beliefs import Beliefs
from doxa.errors import DoxaError
from doxa.systems import build
from doxa.training.checkpoint import Checkpoint
from doxa.training.loop import Trainer
from tests.worlds import board, settings_of

SMALL = settings_of(dimension=8, epochs=6, batch_size=16, num_candidates=8, checkpoint_seconds=0.0)


def trainer(settings=SMALL, **more):
    some = Beliefs.from_frame(board(4))
    return Trainer(build(some, settings), some, settings, **more)


def weights(run):
    return {name: tensor.clone() for name, tensor in run.pbe.state_dict().items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_the_same_seed_gives_the_same_bits():
    one, two, other = trainer(), trainer(), trainer(SMALL.changed(seed=1))
    for run in (one, two, other):
        run.run()
    assert same(weights(one), weights(two))
    assert not same(weights(one), weights(other))


class KilledError(Exception):
    pass


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd"])
@pytest.mark.parametrize("killed_at", [1, 4, 7])
def test_a_run_resumed_from_any_step_ends_with_the_same_bits(tmp_path, killed_at, optimizer):
    settings = SMALL.changed(optimizer=optimizer, learning_rate=0.1 if optimizer == "adagrad" else 0.01, patience=2)
    qualities = [0.1, 0.3, 0.2, 0.25, 0.28, 0.29]

    def fresh(**more):
        run = trainer(settings, **more)
        run.validate = lambda: qualities[run.memory.epoch]
        return run

    never_stopped = fresh()
    never_stopped.run()

    path = tmp_path / "checkpoint.safetensors"
    killed = fresh(checkpoint=path)
    step = killed.step

    def stop_at(*arguments):
        if killed.memory.step == killed_at:
            raise KilledError
        return step(*arguments)

    killed.step = stop_at
    with pytest.raises(KilledError):
        killed.run()
    resumed = fresh(checkpoint=path)
    resumed.resume(Checkpoint.load(path))
    assert resumed.memory.step == killed_at
    resumed.run()
    assert same(weights(resumed), weights(never_stopped))
    assert [p.loss for p in resumed.memory.curve] == [p.loss for p in never_stopped.memory.curve]


def test_training_stops_when_quality_no_longer_rises_and_keeps_the_best():
    run = trainer(SMALL.changed(epochs=50, patience=3))
    seen = []

    def validate():
        seen.append(weights(run))
        return [0.1, 0.5, 0.4, 0.3, 0.2, 0.1][len(seen) - 1]

    run.validate = validate
    run.run()
    assert run.memory.epoch == 5
    assert same(weights(run), seen[1])


def test_a_time_budget_ends_the_run_and_stretches_the_schedule():
    run = trainer(SMALL.changed(time_budget=0.3, epochs=1))
    rates = []
    step = run.optimizer.step
    run.optimizer.step = lambda rate: (rates.append(rate), step(rate))
    memory = run.run()
    assert 0.3 <= memory.seconds < 3
    assert memory.epoch > 1
    assert rates[0] > 0.09
    assert rates[-1] < 0.05
    assert sorted(rates, reverse=True) == rates


def test_the_learning_rate_falls_linearly_or_stays():
    for schedule, expected in (("linear", [0.1 * (1 - i / 18) for i in range(18)]), ("constant", [0.1] * 18)):
        run = trainer(SMALL.changed(schedule=schedule, batch_size=8, epochs=6, learning_rate=0.1))
        rates = []
        step = run.optimizer.step
        run.optimizer.step = lambda rate, step=step, rates=rates: (rates.append(rate), step(rate))
        run.run()
        assert len(rates) == 18
        assert rates == pytest.approx(expected)


def test_a_loss_that_is_not_finite_stops_with_advice():
    run = trainer(SMALL.changed(optimizer="sgd", learning_rate=1e30))
    with pytest.raises(DoxaError, match=r"(?s)the loss became .* try a smaller step: --set learning_rate=1e\+29"):
        run.run()


@pytest.mark.parametrize("moment", ["step", "validation"])
def test_ctrl_c_is_heeded_between_steps_and_resumes_to_the_same_bits(tmp_path, moment):
    """A real SIGINT in the middle of a step or of a validation."""
    path = tmp_path / "c.safetensors"

    def quality(run, interrupting):
        def validate():
            if interrupting and moment == "validation" and run.memory.epoch == 2:
                signal.raise_signal(signal.SIGINT)
            return float(run.memory.epoch)

        return validate

    whole = trainer()
    whole.validate = quality(whole, False)
    whole.run()

    stopped = trainer(checkpoint=path)
    stopped.validate = quality(stopped, True)
    step = stopped.optimizer.step

    def interrupt(rate):
        step(rate)
        if moment == "step" and stopped.memory.step == 7:
            signal.raise_signal(signal.SIGINT)

    stopped.optimizer.step = interrupt
    stopped.run()
    assert stopped.interrupted
    assert not stopped.memory.finished

    resumed = trainer(checkpoint=path)
    resumed.validate = quality(resumed, False)
    resumed.resume(Checkpoint.load(path))
    resumed.run()
    assert same(weights(resumed), weights(whole))
    assert [p.loss for p in resumed.memory.curve] == [p.loss for p in whole.memory.curve]


def test_a_second_ctrl_c_ends_at_once_and_the_old_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    run = trainer()

    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    run.validate = twice
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert signal.getsignal(signal.SIGINT) is before


def test_every_epoch_takes_every_belief_once_in_another_order():
    run = trainer()
    first, second = run.order(0), run.order(1)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(len(run.beliefs)))
    assert first.tolist() != second.tolist()


def test_a_time_budget_is_used_up_even_without_progress():
    run = trainer(SMALL.changed(time_budget=0.3, patience=1))
    run.validate = lambda: 0.5
    assert run.run().seconds >= 0.3


def test_resuming_with_other_settings_or_beliefs_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    run = trainer(checkpoint=path)
    run.run()
    run.save()
    with pytest.raises(DoxaError, match="other settings: dimension=8"):
        trainer(SMALL.changed(dimension=9)).resume(Checkpoint.load(path))
    some = Beliefs.from_frame(board(5))
    with pytest.raises(DoxaError, match="other beliefs"):
        Trainer(build(some, SMALL), some, SMALL).resume(Checkpoint.load(path))
    reworded = Beliefs.from_frame(board(4).with_columns(mention=board(4)["mention"].str.replace("one", "a")))
    with pytest.raises(DoxaError, match="other beliefs"):
        Trainer(build(reworded, SMALL), reworded, SMALL).resume(Checkpoint.load(path))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DoxaError, match="not a whole checkpoint"):
        Checkpoint.load(path)


def test_progress_is_reported_to_the_end():
    told = []
    trainer(report=told.append).run()
    assert told[-1].fraction == 1.0
    assert told[-1].epoch == 6
    assert told[-1].beliefs_per_second > 0


def test_the_library_prints_nothing(capsys, caplog):
    with caplog.at_level(logging.DEBUG):
        trainer().run()
    assert capsys.readouterr() == ("", "")
    assert np.isfinite(trainer().run().curve[-1].loss)


def test_where_mentions_alone_count_a_batch_without_any_moves_nothing():
    table = board(4)
    silent = np.arange(len(table)) < 16
    some = Beliefs.from_frame(table.with_columns(mention=pl.Series(np.where(silent, "", table["mention"].to_numpy()))))
    settings = SMALL.changed(head_weight=0.0, relation_weight=0.0, tail_weight=0.0, epochs=1)
    run = Trainer(build(some, settings), some, settings)
    run.warm_up()
    before = weights(run)
    assert run.step(0, np.arange(len(some)), 0.0) == 0
    assert same(weights(run), before)
    assert run.step(1, np.arange(len(some)), 0.0) > 0
    assert not same(weights(run), before)
