"""The training loop: epochs of steps, validation, cooldown, checkpoints and the learning curve.

When the validation metric no longer rises, the run goes back to its best weights and cools down: the learning rate
falls to zero within COOLDOWN of the epochs so far, and the run ends.

A run resumed from any checkpoint of a single process goes on exactly as the run that was never stopped.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.errors import BadFile, DoxaError, UsageError
from doxa.systems import from_saved, score_options
from doxa.training.checkpoint import Checkpoint
from doxa.training.deadline import Deadline
from doxa.training.executors import Executor
from doxa.training.executors.choice import default_executor
from doxa.training.plan import planned_epochs
from doxa.training.schedule import Schedule
from doxa.training.work import Work

REPORT_SECONDS = 0.2
"""Seconds between two progress reports."""

CHANCE = 0.005
"""By this share two validation metrics may differ though the weights are equally good."""

COOLDOWN = 0.2
"""Epochs of the cooldown as a share of the epochs before it; at least one."""


@dataclass(frozen=True)
class EpochRecord:
    """One point of the learning curve, at the end of an epoch. `metric` is the validation metric, if any."""

    epoch: int
    seconds: float
    loss: float
    metric: float | None


@dataclass(frozen=True)
class Progress:
    """Where a run stands: its stage, and how far the stage has come."""

    fraction: float
    epoch: int
    loss: float
    metric: float | None
    beliefs_per_second: float
    seconds: float
    stage: str = "training"


@dataclass
class TrainState:
    """The state of a run besides its tensors.

    `cooldown` has the first step, the end, and how far the rate had fallen; it is empty before. `race` is the record
    of the race that chose the score, if any.
    """

    step: int = 0
    epoch: int = 0
    seconds: float = 0.0
    epoch_loss: float = 0.0
    best_metric: float | None = None
    best_epoch: int = 0
    finished: bool = False
    cooldown: list[float] = field(default_factory=list)
    curve: list[EpochRecord] = field(default_factory=list)
    race: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainState:
        curve = [EpochRecord(**record) for record in values.pop("curve")]
        return cls(**values, curve=curve)


ExecutorFactory = Callable[[Any], Executor]


class TrainingLoop:
    """Trains a model on beliefs.

    `validate` returns the metric to stop early on (larger is better); `report` receives progress now and then;
    `checkpoint` is the file of the state, and `inputs` identifies the beliefs it may be resumed with. With a time
    budget the run ends before the `deadline`, early enough for the seconds that `reserve` asks for. Ctrl-C ends the run
    after the step under way and keeps the weights; a second one ends it at once.
    """

    def __init__(
        self,
        steps: Work,
        validate: Callable[[], float] | None = None,
        report: Callable[[Progress], None] | None = None,
        checkpoint: Path | None = None,
        inputs: str | None = None,
        deadline: Deadline | None = None,
        reserve: Callable[[], float] | None = None,
    ) -> None:
        self.steps, self.settings, self.pbe = steps, steps.settings, steps.pbe
        self.validate, self.report, self.checkpoint = validate, report, checkpoint
        self.inputs = inputs or self.beliefs.checksum()
        self.deadline, self.reserve = deadline, reserve
        self.state = TrainState()
        self.schedule = Schedule((self.settings.epochs or planned_epochs(len(self.beliefs))) * steps.per_epoch)
        self.snapshots = steps.snapshots()
        self.interrupted = False
        self._began = self._saved = self._reported = 0.0
        self._first = (0, 0.0)
        self._validation_seconds = 0.0

    @property
    def beliefs(self) -> Beliefs:
        return self.steps.beliefs

    def run(self, executor: ExecutorFactory = default_executor) -> TrainState:
        """Train until the epochs, the cooldown or the time budget are used up."""
        state = self.state
        runner = executor(self.steps)
        runner.warm_up()
        self._saved = self._reported = time.monotonic()
        self._began = self._saved - state.seconds
        self._first = (state.step, state.seconds)
        if self.settings.time_budget:
            self._start_clock()
        try:
            with self._patient_interrupts():
                while not state.finished and not self.interrupted:
                    start, loss, end = state.step, state.epoch_loss, (state.epoch + 1) * self.steps.per_epoch
                    for progress in runner.run_epoch(range(start, end), self.schedule.fallen):
                        state.step, state.epoch_loss = start + progress.steps, loss + progress.loss
                        self._after_step(runner, end)
                    self._after_epoch(runner, end)
        finally:
            runner.close()
        self._keep_best()
        return state

    def _after_step(self, executor: Executor, end: int) -> None:
        """Report progress, obey an interrupt, write a checkpoint that is due."""
        self.state.seconds = time.monotonic() - self._began
        self._report()
        if self.interrupted:
            executor.stop()
        elif executor.exact and self.state.step < end and self._checkpoint_is_due():
            self.save()

    def _after_epoch(self, executor: Executor, end: int) -> None:
        """Validate an epoch that was run to its end; decide whether the run has ended."""
        state = self.state
        if state.step == end:
            self._end_epoch()
        state.finished |= self.schedule.fallen(state.step) >= 1
        if state.step < end and not (state.finished or self.interrupted):
            raise DoxaError(f"{end - state.step} steps of an epoch were not run; this is a fault in doxa")
        self._report(now=True)
        if self.interrupted or (not state.finished and self._checkpoint_is_due()):
            self.save(at_epoch_start=not executor.exact)

    def _start_clock(self) -> None:
        """Let the time budget decide when the run ends; the seconds of a run that is resumed count."""
        if self.deadline is None:
            self.deadline = Deadline(self.settings.time_budget, self._began)
        else:
            self.deadline.spend(self.state.seconds)
        self.schedule.by_clock = True
        self._plan_time()

    def _plan_time(self) -> None:
        """Let the run end when what follows it needs the rest of the time: the last validation, and the reserve."""
        if self.deadline is not None and self.schedule.by_clock:
            needed = self._validation_seconds + (self.reserve() if self.reserve else 0.0)
            self.schedule.set(self._began, self.deadline.end - needed)

    def _end_epoch(self) -> None:
        """Validate, extend the learning curve, keep the best weights, and decide whether to cool down."""
        state = self.state
        metric = self._validated() if self._validation_is_due() else None
        state.epoch += 1
        state.seconds = time.monotonic() - self._began
        state.curve.append(EpochRecord(state.epoch, state.seconds, state.epoch_loss / len(self.beliefs), metric))
        state.epoch_loss = 0.0
        if metric is None:
            return
        patience = 0 if self.settings.time_budget else self.settings.patience
        if state.best_metric is None or metric > state.best_metric:
            state.best_metric, state.best_epoch = metric, state.epoch
            self.snapshots.keep_best()
        elif patience and not state.cooldown and self._has_fallen_back(patience):
            self._cool_down()

    def _has_fallen_back(self, patience: int) -> bool:
        """Whether so many validations in a row stayed below the best one.

        While the rate falls, and a lower rate brings progress by itself, they must stay below by more than chance.
        """
        state = self.state
        assert state.best_metric is not None
        later = [one.metric for one in state.curve if one.epoch > state.best_epoch and one.metric is not None]
        level = state.best_metric - (0 if self.settings.schedule == "constant" else CHANCE * abs(state.best_metric))
        return len(later) >= patience and max(later[-patience:]) <= level

    @property
    def _every(self) -> int:
        return self.settings.validate_every or 1

    def _validation_is_due(self) -> bool:
        """Whether the epoch that has just ended is validated: every n-th, and the last."""
        if self.validate is None:
            return False
        return (self.state.epoch + 1) % self._every == 0 or self.schedule.fallen(self.state.step) >= 1

    def _validated(self) -> float:
        """The metric of the present weights; how long it took shows what the rest of a time budget is good for."""
        assert self.validate is not None
        before = time.monotonic()
        metric = self.validate()
        self._validation_seconds = time.monotonic() - before
        self._plan_time()
        return metric

    def _cool_down(self) -> None:
        """Go back to the best weights and let the rate fall to zero soon; a constant rate ends the run here."""
        state = self.state
        if self.settings.schedule == "constant" or not self.snapshots.has_best:
            state.finished = True
            return
        self.snapshots.restore_best()
        end = state.step + max(1, round(COOLDOWN * state.epoch)) * self.steps.per_epoch
        state.cooldown = [state.step, min(end, self.schedule.end), self.schedule.fallen(state.step)]
        self.schedule.set(*state.cooldown)

    def _keep_best(self) -> None:
        """Go back to the weights of the best epoch, unless the last ones, validated too, are as good."""
        state = self.state
        if self.validate is None:
            return
        partial = state.step % self.steps.per_epoch != 0
        if partial or not state.curve or state.curve[-1].metric is None:
            metric = self.validate()
            if state.best_metric is None or metric >= state.best_metric:
                state.best_metric, state.best_epoch = metric, state.epoch
                return
        elif state.best_epoch == state.epoch:
            return
        self.snapshots.restore_best()

    @contextmanager
    def _patient_interrupts(self) -> Iterator[None]:
        """Note a first Ctrl-C and act on it between steps; only the main thread may receive signals."""

        def note(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _report(self, now: bool = False) -> None:
        if self.report and (now or time.monotonic() - self._reported > REPORT_SECONDS):
            self._reported = time.monotonic()
            self.report(self.progress())

    def progress(self) -> Progress:
        """Where the run stands."""
        state = self.state
        done = state.step % self.steps.per_epoch * self.settings.batch_size
        loss = state.epoch_loss / done if done else state.curve[-1].loss if state.curve else math.nan
        beliefs = (state.step - self._first[0]) * len(self.beliefs) / self.steps.per_epoch
        speed = beliefs / max(state.seconds - self._first[1], 1e-9)
        metric = next((record.metric for record in reversed(state.curve) if record.metric is not None), None)
        return Progress(self.schedule.done(state.step), state.epoch, loss, metric, speed, state.seconds)

    def _checkpoint_is_due(self) -> bool:
        if self.checkpoint is None:
            return False
        return self.snapshots.every_epoch or time.monotonic() - self._saved > self.settings.checkpoint_seconds

    def save(self, at_epoch_start: bool = False) -> None:
        """Write the checkpoint; with several workers it goes on at the start of the epoch under way."""
        self._saved = time.monotonic()
        if self.checkpoint is None:
            return
        tensors, files = self.snapshots.save()
        state = {"settings": self.settings.as_dict(), "inputs": self.inputs, **self.state.as_dict()}
        if files:
            state["files"] = files
        if at_epoch_start:
            state |= {"step": self.state.epoch * self.steps.per_epoch, "epoch_loss": 0.0}
        Checkpoint(tensors, state).save(self.checkpoint)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint of the same beliefs and the same model and training settings."""
        state = dict(checkpoint.state)
        if state.pop("inputs") != self.inputs:
            raise UsageError("the checkpoint was made from other beliefs", remedy="force")
        before, now = _fixed(from_saved(state.pop("settings"))), _fixed(self.settings)
        differing = [f"{name}={before.get(name)}" for name, value in now.items() if before.get(name) != value]
        if differing:
            raise UsageError(
                f"the checkpoint was made with other settings: {', '.join(differing)}",
                "use the same model and training settings",
                remedy="force",
            )
        try:
            self.snapshots.load(checkpoint.tensors, state.pop("files", {}))
            self.state = TrainState.from_dict(state)
        except (KeyError, RuntimeError, TypeError) as fault:
            raise BadFile("the checkpoint was made by another version", "start again without resuming") from fault
        if self.state.cooldown:
            self.schedule.set(*self.state.cooldown)


def _fixed(settings: Settings) -> dict[str, Any]:
    """The settings that must not change when a run is resumed, every option of the score among them.

    Judging settings are free, unless the run stops on accuracy, which depends on them.
    """
    fixed = settings.group("model") | asdict(score_options(settings)) | settings.group("training")
    return fixed | (settings.group("judging") if settings.metric == "accuracy" else {})
