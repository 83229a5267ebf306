"""The training loop: repeatable, resumable, stoppable."""

import logging
import signal
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from doxa.data.beliefs import Beliefs
from doxa.errors import BadFile, DoxaError, UsageError
from doxa.systems import build
from doxa.training import checkpoint as checkpoints
from doxa.training.checkpoint import Checkpoint
from doxa.training.loop import TrainingLoop
from doxa.training.steps import Steps
from tests.worlds import board, settings_of

SMALL = settings_of(dimension=8, epochs=6, batch_size=16, num_candidates=8, checkpoint_seconds=0.0)


def loop_of(settings=SMALL, train=None, **more):
    train = Beliefs.from_frame(board(4)) if train is None else train
    return TrainingLoop(Steps(build(train, settings), train, settings), **more)


def weights(loop):
    return {name: tensor.clone() for name, tensor in loop.pbe.state_dict().items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def curve(loop):
    return [record.loss for record in loop.state.curve]


def rates_of(loop):
    """The learning rates of a run, as its steps come to them."""
    rates, step = [], loop.steps.optimizer.step
    loop.steps.optimizer.step = lambda rate: (rates.append(rate), step(rate))
    return rates


def test_the_same_seed_gives_the_same_bits():
    one, two, other = loop_of(), loop_of(), loop_of(SMALL.changed(seed=1))
    for loop in (one, two, other):
        loop.run()
    assert same(weights(one), weights(two))
    assert not same(weights(one), weights(other))


class KilledError(Exception):
    pass


def killed_at(loop, number):
    """Let the loop die when it comes to a step."""
    take = loop.steps.take

    def die(step, fraction):
        if step == number:
            raise KilledError
        return take(step, fraction)

    loop.steps.take = die
    with pytest.raises(KilledError):
        loop.run()


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd"])
@pytest.mark.parametrize("step", [1, 4, 7, 9])
def test_a_run_resumed_from_any_step_ends_with_the_same_bits(tmp_path, step, optimizer):
    settings = SMALL.changed(optimizer=optimizer, learning_rate=0.1 if optimizer == "adagrad" else 0.01, patience=2)
    metrics = [0.1, 0.3, 0.2, 0.25, 0.28, 0.29]

    def fresh(**more):
        loop = loop_of(settings, **more)
        loop.validate = lambda: metrics[loop.state.epoch]
        return loop

    never_stopped = fresh()
    never_stopped.run()
    assert never_stopped.state.cooldown == [8, 10, pytest.approx(8 / 12)]
    path = tmp_path / "checkpoint.safetensors"
    killed_at(fresh(checkpoint=path), step)
    resumed = fresh(checkpoint=path)
    resumed.resume(Checkpoint.load(path))
    assert resumed.state.step == step
    resumed.run()
    assert same(weights(resumed), weights(never_stopped))
    assert curve(resumed) == curve(never_stopped)
    assert resumed.state.best_metric == never_stopped.state.best_metric == 0.3


def watched(loop, metrics):
    """Let validation return these metrics in turn, and note the weights that it saw."""
    seen = []

    def validate():
        seen.append(weights(loop))
        return metrics[len(seen) - 1]

    loop.validate = validate
    return seen


@pytest.mark.parametrize("last", [0.2, 0.6], ids=["worse", "better"])
def test_a_run_without_progress_goes_back_to_its_best_weights_and_cools_down(last):
    """Ten epochs of three steps: the best is the second, patience ends with the tenth, and a fifth of them is two."""
    loop = loop_of(SMALL.changed(epochs=50, patience=8, batch_size=8))
    seen, rates, before = watched(loop, [0.1, 0.5, *[0.4] * 9, last]), rates_of(loop), []
    take = loop.steps.take
    loop.steps.take = lambda step, fallen: (before.append(weights(loop)), take(step, fallen))[1]
    state = loop.run()
    assert (state.epoch, state.finished, loop.steps.per_epoch) == (12, True, 3)
    assert same(before[30], seen[1])
    assert rates[:30] == pytest.approx([0.1 * (1 - i / 150) for i in range(30)])
    assert rates[30:] == pytest.approx([0.08 * (1 - i / 6) for i in range(6)])
    assert (state.best_metric, state.best_epoch) == ((0.6, 12) if last > 0.5 else (0.5, 2))
    assert same(weights(loop), seen[11] if last > 0.5 else seen[1])


def test_a_cooldown_lasts_an_epoch_at_least_and_no_longer_than_the_plan():
    for epochs, patience, expected in ((50, 1, 3), (11, 9, 11)):
        loop = loop_of(SMALL.changed(epochs=epochs, patience=patience))
        watched(loop, [0.5] + [0.4] * 20)
        assert loop.run().epoch == expected


def test_a_constant_rate_ends_without_a_cooldown():
    loop = loop_of(SMALL.changed(epochs=50, patience=3, schedule="constant"))
    seen = watched(loop, [0.1, 0.5, 0.4, 0.3, 0.2])
    assert loop.run().epoch == 5
    assert same(weights(loop), seen[1])


@pytest.mark.parametrize(("schedule", "epochs"), [("linear", 12), ("constant", 4)])
def test_a_falling_rate_goes_on_where_validations_differ_by_chance_alone(schedule, epochs):
    loop = loop_of(SMALL.changed(epochs=12, patience=3, schedule=schedule))
    watched(loop, [0.5, *[0.498] * 11])
    state = loop.run()
    assert (state.epoch, state.cooldown) == (epochs, [])


def test_epochs_between_two_validations_have_no_metric_and_the_last_one_has():
    loop = loop_of(SMALL.changed(epochs=8, validate_every=3, patience=2))
    watched(loop, [0.3, 0.4, 0.2])
    state = loop.run()
    assert [record.metric for record in state.curve] == [None, None, 0.3, None, None, 0.4, None, 0.2]
    assert loop.progress().metric == 0.2
    assert state.best_epoch == 6


def test_patience_counts_validations():
    loop = loop_of(SMALL.changed(epochs=50, validate_every=3, patience=2))
    watched(loop, [0.5, *[0.4] * 9])
    state = loop.run()
    assert state.cooldown[0] == 9 * loop.steps.per_epoch
    assert state.epoch == 11


class Clock:
    """A clock that moves on by a hundredth of a second whenever it is read, so that no test depends on the load."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 0.01
        return self.now


@pytest.fixture
def clock(monkeypatch):
    set_clock(monkeypatch, Clock())


def set_clock(monkeypatch, clock):
    for module in ("loop", "schedule", "deadline"):
        monkeypatch.setattr(f"doxa.training.{module}.time", clock)


@pytest.mark.usefixtures("clock")
def test_a_time_budget_ends_the_run_and_stretches_the_schedule():
    loop = loop_of(SMALL.changed(time_budget=1.0, epochs=1))
    rates = rates_of(loop)
    state = loop.run()
    assert state.finished
    assert 1.0 <= state.seconds < 1.2
    assert state.epoch > 1
    assert rates[0] > 0.09
    assert rates[-1] < 0.01
    assert sorted(rates, reverse=True) == rates


@pytest.mark.parametrize("best", [1, 2])
@pytest.mark.parametrize("last", [0.3, 0.6], ids=["worse", "better"])
def test_a_run_that_ends_mid_epoch_returns_to_its_best_weights(monkeypatch, best, last):
    """Two epochs of three steps and one step more, by a clock on which a step takes a second."""
    loop = loop_of(SMALL.changed(batch_size=8, time_budget=7.0))
    clock, take, by_epoch = SimpleNamespace(now=0.0), loop.steps.take, []

    def timed(step, fraction):
        clock.now += 1
        return take(step, fraction)

    def validate():
        by_epoch.append(weights(loop))
        return {best: 0.5, 3: last}.get(len(by_epoch), 0.4)

    set_clock(monkeypatch, SimpleNamespace(monotonic=lambda: clock.now))
    loop.steps.take, loop.validate = timed, validate
    state = loop.run()
    assert (state.step, state.epoch, loop.steps.per_epoch) == (7, 2, 3)
    assert (state.best_metric, state.best_epoch) == ((0.6, 2) if last > 0.5 else (0.5, best))
    assert not any(same(one, other) for one, other in pairwise(by_epoch))
    assert same(weights(loop), by_epoch[2] if last > 0.5 else by_epoch[best - 1])


def test_the_learning_rate_falls_linearly_or_stays():
    for schedule, expected in (("linear", [0.1 * (1 - i / 18) for i in range(18)]), ("constant", [0.1] * 18)):
        loop = loop_of(SMALL.changed(schedule=schedule, batch_size=8, epochs=6, learning_rate=0.1))
        rates = rates_of(loop)
        loop.run()
        assert len(rates) == 18
        assert rates == pytest.approx(expected)


def test_a_loss_that_is_not_finite_stops_with_advice():
    loop = loop_of(SMALL.changed(optimizer="sgd", learning_rate=1e30))
    with pytest.raises(DoxaError, match=r"(?s)the loss became .* try a smaller learning rate: learning_rate=1e\+29"):
        loop.run()


@pytest.mark.parametrize("moment", ["step", "validation"])
def test_ctrl_c_ends_a_run_between_steps_and_it_resumes_to_the_same_bits(tmp_path, moment):
    """A real SIGINT in the middle of a step or of a validation."""
    path = tmp_path / "c.safetensors"

    def metric(loop, interrupting):
        def validate():
            if interrupting and moment == "validation" and loop.state.epoch == 2:
                signal.raise_signal(signal.SIGINT)
            return float(loop.state.epoch)

        return validate

    whole = loop_of()
    whole.validate = metric(whole, False)
    whole.run()

    stopped = loop_of(checkpoint=path)
    stopped.validate = metric(stopped, True)
    step = stopped.steps.optimizer.step

    def interrupt(rate):
        step(rate)
        if moment == "step" and stopped.state.step == 7:
            signal.raise_signal(signal.SIGINT)

    stopped.steps.optimizer.step = interrupt
    stopped.run()
    assert stopped.interrupted
    assert not stopped.state.finished

    resumed = loop_of(checkpoint=path)
    resumed.validate = metric(resumed, False)
    resumed.resume(Checkpoint.load(path))
    resumed.run()
    assert same(weights(resumed), weights(whole))
    assert curve(resumed) == curve(whole)


def test_a_second_ctrl_c_ends_at_once_and_the_old_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    loop = loop_of()

    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    loop.validate = twice
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("clock")
def test_a_time_budget_is_used_up_even_without_progress():
    loop = loop_of(SMALL.changed(time_budget=1.0, patience=1))
    loop.validate = lambda: 0.5
    state = loop.run()
    assert state.seconds >= 0.95
    assert not state.cooldown


@pytest.mark.usefixtures("clock")
def test_checkpoints_are_written_when_they_are_due(tmp_path):
    for seconds, expected in ((0.0, 11), (1e9, 0)):
        loop = loop_of(SMALL.changed(checkpoint_seconds=seconds), checkpoint=tmp_path / "c.safetensors")
        saves, save = [], loop.save
        loop.save = lambda save=save, saves=saves, **how: (saves.append(how), save(**how))
        loop.run()
        assert len(saves) == expected


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint from the middle of a run, two steps into the second epoch."""
    path = tmp_path / "c.safetensors"
    killed_at(loop_of(checkpoint=path, settings=SMALL.changed(batch_size=8)), 5)
    return path


def resumable(checkpoint, train=None, **values):
    loop = loop_of(SMALL.changed(batch_size=8).changed(**values), train)
    loop.resume(Checkpoint.load(checkpoint))
    return loop


@pytest.mark.parametrize("values", [{"dimension": 9}, {"norm": 1}, {"scale": 2.0}, {"score": "distmult"}], ids=str)
def test_resuming_with_other_model_settings_is_refused(checkpoint, values):
    name = next(iter(values))
    with pytest.raises(UsageError, match=f"other settings: {name}=") as refusal:
        resumable(checkpoint, **values)
    assert refusal.value.remedy == "force"
    assert "--" not in str(refusal.value)


@pytest.mark.parametrize(
    "values", [{"learning_rate": 0.3}, {"epochs": 7}, {"l2": 0.1}, {"num_candidates": 4}, {"seed": 1}, {"patience": 2}],
    ids=str,
)  # fmt: skip
def test_resuming_with_other_training_settings_is_refused(checkpoint, values):
    name = next(iter(values))
    with pytest.raises(UsageError, match=f"other settings: {name}={getattr(SMALL, name)}"):
        resumable(checkpoint, **values)


@pytest.mark.parametrize("values", [{"threads": 3}, {"checkpoint_seconds": 9.0}, {"workers": 2}], ids=str)
def test_resuming_with_other_running_settings_works(checkpoint, values):
    assert resumable(checkpoint, **values).state.step == 5


@pytest.mark.parametrize("values", [{"decision_rule": "score"}, {"base_rate": 0.2}], ids=str)
def test_resuming_with_other_judging_settings_works(checkpoint, values):
    assert resumable(checkpoint, **values).state.step == 5


def test_the_default_of_an_option_may_be_written_out(checkpoint):
    assert resumable(checkpoint, norm=2, alpha=4.0).state.step == 5


def test_an_option_left_out_is_not_an_option_of_the_checkpoint(tmp_path):
    path = tmp_path / "c.safetensors"
    killed_at(loop_of(SMALL.changed(norm=1), checkpoint=path), 2)
    with pytest.raises(UsageError, match="other settings: norm=1"):
        loop_of(SMALL).resume(Checkpoint.load(path))


def test_a_run_that_stops_on_accuracy_keeps_its_judging_settings(tmp_path):
    path, settings = tmp_path / "c.safetensors", SMALL.changed(stop_on="accuracy")
    killed_at(loop_of(settings, checkpoint=path), 2)
    loop_of(settings).resume(Checkpoint.load(path))
    with pytest.raises(UsageError, match="other settings: decision_rule=product"):
        loop_of(settings.changed(decision_rule="score")).resume(Checkpoint.load(path))


def test_a_checkpoint_of_an_earlier_version_is_refused(checkpoint):
    saved = Checkpoint.load(checkpoint)
    earlier = {("best_quality" if name == "best_metric" else name): value for name, value in saved.state.items()}
    with pytest.raises(BadFile, match="made by another version"):
        loop_of(SMALL.changed(batch_size=8)).resume(Checkpoint(saved.tensors, earlier))


def test_other_running_settings_change_no_bit_of_a_resumed_run(checkpoint):
    plain, other = resumable(checkpoint), resumable(checkpoint, checkpoint_seconds=1e9, base_rate=0.2)
    for loop in (plain, other):
        loop.run()
    assert same(weights(plain), weights(other))


def test_resuming_with_other_beliefs_is_refused(checkpoint):
    with pytest.raises(UsageError, match="other beliefs"):
        resumable(checkpoint, Beliefs.from_frame(board(5)))
    reworded = board(4).with_columns(mention=board(4)["mention"].str.replace("one", "a"))
    with pytest.raises(UsageError, match="other beliefs"):
        resumable(checkpoint, Beliefs.from_frame(reworded))


def test_a_damaged_checkpoint_is_refused(checkpoint):
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(DoxaError, match="not a whole checkpoint"):
        Checkpoint.load(checkpoint)


def test_a_finished_run_that_is_resumed_takes_no_step(tmp_path):
    path = tmp_path / "c.safetensors"
    loop = loop_of(checkpoint=path)
    loop.run()
    loop.save()
    again = loop_of()
    again.resume(Checkpoint.load(path))
    again.steps.take = lambda *_: pytest.fail("took a step")
    assert again.run().epoch == SMALL.epochs
    assert same(weights(again), weights(loop))


def test_progress_is_reported_to_the_end():
    reports = []
    loop_of(report=reports.append).run()
    assert reports[-1].fraction == 1.0
    assert reports[-1].epoch == 6
    assert reports[-1].beliefs_per_second > 0


def test_the_library_prints_nothing(capsys, caplog):
    with caplog.at_level(logging.DEBUG):
        loop_of().run()
    assert capsys.readouterr() == ("", "")
    assert np.isfinite(loop_of().run().curve[-1].loss)


@pytest.mark.parametrize("place", [0.05, 0.3, 0.6, 0.95])
def test_a_flipped_bit_of_a_checkpoint_is_refused(checkpoint, place):
    content = bytearray(checkpoint.read_bytes())
    content[int(place * len(content))] ^= 4
    checkpoint.write_bytes(content)
    with pytest.raises(DoxaError, match="not a whole checkpoint"):
        Checkpoint.load(checkpoint)


def test_the_checkpoint_before_stays_until_the_next_one_is_verified(checkpoint, monkeypatch):
    before = Checkpoint.load(checkpoint)
    real = checkpoints.save_file

    def damaged(tensors, path, metadata):
        real({name: tensor + 1 for name, tensor in tensors.items()}, path, metadata)

    monkeypatch.setattr(checkpoints, "save_file", damaged)
    with pytest.raises(DoxaError, match="checksum"):
        before.save(checkpoint)
    monkeypatch.undo()
    assert Checkpoint.load(checkpoint).state == before.state
    assert len(list(checkpoint.parent.iterdir())) == 1
