"""The loop: shuffled batches, shared candidates, one step each; validation, checkpoints and a learning curve.

All randomness is a function of (seed, epoch) or (seed, step), so a run resumed from any step's checkpoint
goes on exactly as the run that was never stopped.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.errors import DoxaError
from doxa.pbe import PBE
from doxa.training.automatic import chosen
from doxa.training.candidates import Candidates, draw_candidates, every_candidate
from doxa.training.checkpoint import Checkpoint
from doxa.training.constraints import constrain, constraints
from doxa.training.gather import SparseStep
from doxa.training.optimizers import RowAdagrad, RowSGD
from doxa.training.weights import term_weighting


@dataclass(frozen=True)
class EpochRecord:
    """One point of the learning curve, at the end of an epoch. `quality` is the validation metric, if any."""

    epoch: int
    seconds: float
    loss: float
    quality: float | None


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever watches it."""

    fraction: float
    epoch: int
    loss: float
    quality: float | None
    beliefs_per_second: float
    seconds: float


@dataclass
class TrainState:
    """What a run must remember besides tensors."""

    step: int = 0
    epoch: int = 0
    seconds: float = 0.0
    epoch_loss: float = 0.0
    best_quality: float | None = None
    best_epoch: int = 0
    finished: bool = False
    curve: list[EpochRecord] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainState:
        curve = [EpochRecord(**point) for point in values.pop("curve")]
        return cls(**values, curve=curve)


class Trainer:
    """Learns a model from beliefs.

    `validate` returns the quality to stop early on (larger is better); `report` is told of progress now and
    then; `checkpoint` is the file to keep the state in, and `inputs` what must be the same to resume from it.
    Ctrl-C ends the run after the step under way, with what it has learnt; a second one ends it at once.
    """

    def __init__(
        self,
        pbe: PBE,
        beliefs: Beliefs,
        settings: Settings,
        validate: Callable[[], float] | None = None,
        report: Callable[[Progress], None] | None = None,
        checkpoint: Path | None = None,
        inputs: str | None = None,
    ) -> None:
        settings = chosen(settings, beliefs)
        self.pbe, self.beliefs, self.settings, self.batch = pbe, beliefs, settings, settings.batch
        self.validate, self.report, self.checkpoint = validate, report, checkpoint
        constrain(pbe, settings.entity_norm)
        optimizer = RowSGD if settings.optimizer == "sgd" else RowAdagrad
        self.optimizer = optimizer(pbe, constraints(pbe, settings.entity_norm))
        self.inputs = inputs or beliefs.checksum()
        ranking = settings.objective == "margin"
        self._objective = SparseStep(pbe, settings, term_weighting(settings, lambda: self._facts))
        self.memory = TrainState()
        self.best: dict[str, Tensor] | None = None
        self.interrupted = False
        self._every = every_candidate(pbe)
        if ranking:
            everyone = torch.arange(pbe.entities)
            self._every = replace(self._every, heads=everyone, tails=everyone)
        self._every = self._every.for_terms(settings, with_words=pbe.mention is not None)

    @cached_property
    def _facts(self) -> TripleIndex:
        return TripleIndex(self.beliefs.triples, self.pbe.entities, self.pbe.relations)

    @property
    def _may_stop_early(self) -> bool:
        return self.settings.patience > 0 and not self.settings.time_budget

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.beliefs) / self.batch)

    def run(self) -> TrainState:
        """Learn until the epochs or the time budget are used up, or quality no longer rises."""
        self.warm_up()
        memory, began = self.memory, time.monotonic() - self.memory.seconds
        saved = told = time.monotonic()
        first = (memory.step, memory.seconds)
        order = self.order(memory.epoch)
        with self.patient_interrupts():
            while not memory.finished and not self.interrupted:
                memory.epoch_loss += self.step(memory.step, order, self.fraction(memory.step, memory.seconds))
                memory.step += 1
                memory.seconds = time.monotonic() - began
                if memory.step % self.steps_per_epoch == 0:
                    self.end_epoch(began)
                    order = self.order(memory.epoch)
                memory.finished |= self.fraction(memory.step, memory.seconds) >= 1
                now = time.monotonic()
                if self.report and (now - told > 0.2 or memory.finished):
                    beliefs = (memory.step - first[0]) * len(self.beliefs) / self.steps_per_epoch
                    self.report(self.progress(beliefs / max(memory.seconds - first[1], 1e-9)))
                    told = now
                if self.checkpoint and not memory.finished and now - saved > self.settings.checkpoint_seconds:
                    self.save()
                    saved = time.monotonic()
            if self.interrupted:
                self.save()
        self.keep_best()
        return memory

    def warm_up(self, backward: bool = True) -> None:
        """Compile what is compiled, and take two steps that are thrown away: the first parallel operations of a process
        may be divided among threads in another way than all later ones, and so round differently."""
        rows = np.arange(min(self.batch, len(self.beliefs)))
        for _ in range(2):
            loss = self._objective.loss(Batch.of(self.beliefs, rows), self._candidates(0, rows))
            if backward:
                _backpropagate(loss)
            self.pbe.zero_grad()
        self.optimizer.warm_up()

    def keep_best(self) -> None:
        """Go back to the weights of the best epoch, unless the last ones, validated too, are as good."""
        memory = self.memory
        if self.best is None or self.validate is None or memory.best_quality is None:
            return
        partial = memory.step % self.steps_per_epoch != 0
        if partial and self.validate() >= memory.best_quality:
            return
        if partial or memory.best_epoch < memory.epoch:
            self.pbe.load_state_dict(self.best)

    @contextmanager
    def patient_interrupts(self) -> Iterator[None]:
        """Note a first Ctrl-C, to be heeded between steps; only the main thread may listen for signals."""

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

    def step(self, number: int, order: Ids, fraction: float) -> float:
        """Learn from batch `number` of the run, in the order of its epoch; returns the batch's loss."""
        settings = self.settings
        start = number % self.steps_per_epoch * self.batch
        rows = order[start : start + self.batch]
        loss = self._objective.loss(Batch.of(self.beliefs, rows), self._candidates(number, rows))
        value = float(loss.detach())
        if not math.isfinite(value):
            raise DoxaError(
                f"the loss became {value} in step {number + 1} (epoch {number // self.steps_per_epoch + 1})",
                f"try a smaller step: --set learning_rate={settings.learning_rate / 10:g}",
            )
        _backpropagate(loss)
        falling = 1 - fraction if settings.schedule == "linear" else 1.0
        self.optimizer.step(settings.learning_rate * falling)
        return value

    def _candidates(self, number: int, rows: Ids) -> Candidates:
        drawn = self._every
        if self.settings.training_estimator != "exact":
            random = np.random.default_rng([self.settings.seed, 2, number])
            drawn = draw_candidates(self._every, self.settings.candidates, random)
        return drawn.without_known(self.beliefs, rows, self._facts) if self.settings.avoid_known else drawn

    def order(self, epoch: int) -> Ids:
        """The beliefs in the order in which an epoch takes them."""
        return np.random.default_rng([self.settings.seed, 1, epoch]).permutation(len(self.beliefs))

    def fraction(self, step: int, seconds: float) -> float:
        """How much of the run is done, by time where there is a budget and by steps otherwise."""
        if self.settings.time_budget:
            return min(1.0, seconds / self.settings.time_budget)
        return min(1.0, step / (self.settings.epochs * self.steps_per_epoch))

    def end_epoch(self, began: float) -> None:
        """Validate, note a point of the curve, keep the best weights, and decide whether to stop early."""
        memory = self.memory
        quality = self.validate() if self.validate else None
        memory.epoch += 1
        memory.seconds = time.monotonic() - began
        memory.curve.append(EpochRecord(memory.epoch, memory.seconds, memory.epoch_loss / len(self.beliefs), quality))
        memory.epoch_loss = 0.0
        if quality is None:
            return
        if memory.best_quality is None or quality > memory.best_quality:
            memory.best_quality, memory.best_epoch = quality, memory.epoch
            self.best = {name: tensor.detach().clone() for name, tensor in self.pbe.state_dict().items()}
        elif self._may_stop_early and memory.epoch - memory.best_epoch >= self.settings.patience:
            memory.finished = True

    def progress(self, speed: float) -> Progress:
        """Where the run stands."""
        memory = self.memory
        done = memory.step % self.steps_per_epoch * self.batch
        loss = memory.epoch_loss / done if done else memory.curve[-1].loss if memory.curve else math.nan
        quality = memory.curve[-1].quality if memory.curve else None
        return Progress(self.fraction(memory.step, memory.seconds), memory.epoch, loss, quality, speed, memory.seconds)

    def save(self) -> None:
        """Write the checkpoint."""
        if self.checkpoint is None:
            return
        tensors = {f"weights.{name}": tensor for name, tensor in self.pbe.state_dict().items()}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in self.optimizer.state().items()}
        if self.best is not None:
            tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        memory = {"settings": self.settings.as_dict(), "inputs": self.inputs, **self.memory.as_dict()}
        Checkpoint(tensors, memory).save(self.checkpoint)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Take up the state of a checkpoint made with the same settings from the same beliefs."""
        memory = dict(checkpoint.memory)
        if memory.pop("inputs") != self.inputs:
            raise DoxaError("the checkpoint was made from other beliefs", "start anew with --force")
        before = memory.pop("settings")
        differing = [f"{name}={before.get(name)}" for name, value in self.settings.as_dict().items()
                     if before.get(name) != value and name != "checkpoint_seconds"]  # fmt: skip
        if differing:
            raise DoxaError(f"the checkpoint was made with other settings: {', '.join(differing)}",
                            "give the same settings, or start anew with --force")  # fmt: skip
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "optimizer": {}, "best": {}}
        for name, tensor in checkpoint.tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self.pbe.load_state_dict(parts["weights"])
        self.optimizer.load(parts["optimizer"])
        self.best = parts["best"] or None
        self.memory = TrainState.from_dict(memory)


def _backpropagate(loss: Tensor) -> None:
    """Nothing is to be done where mentions alone count and the batch has none."""
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
