"""Learning with several workers: processes on shared tables, without locks, one thread each.

Every worker takes each N-th batch of an epoch and updates the shared tables as it goes; two that touch the same row
at the same moment may lose one of two small steps, which does no harm but makes the run not exactly repeatable.
Between epochs the workers wait while this process validates, keeps the best weights and writes the checkpoint.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event, Semaphore

import torch
from torch import Tensor

from doxa.errors import DoxaError
from doxa.training.loop import Trainer, TrainState

POLL = 0.1
"""Seconds between two looks at the workers."""


@dataclass(frozen=True)
class _Shared:
    """What the processes have in common besides the tables."""

    epoch: Tensor
    steps: Tensor
    losses: Tensor
    start: list[Semaphore]
    ended: Semaphore
    stop: Event
    trouble: SimpleQueue[str]
    leader: int


def run_with_workers(trainer: Trainer, workers: int) -> TrainState:
    """Learn like `Trainer.run`, with several worker processes."""
    if sys.platform == "win32" or "fork" not in multiprocessing.get_all_start_methods():
        raise DoxaError("several workers need a system that can fork processes", "use --workers 1")
    workers = min(workers, trainer.steps_per_epoch)
    context = multiprocessing.get_context("fork")
    trainer.warm_up(backward=False)  # where there are other devices, PyTorch forbids a fork after it
    trainer.pbe.share_memory()
    for total in trainer.optimizer.state().values():
        _shared(total)
    shared = _Shared(
        epoch=_shared(torch.zeros(1, dtype=torch.int64)),
        steps=_shared(torch.zeros(workers, dtype=torch.int64)),
        losses=_shared(torch.zeros(workers, dtype=torch.float64)),
        start=[context.Semaphore(0) for _ in range(workers)],
        ended=context.Semaphore(0),
        stop=context.Event(),
        trouble=context.SimpleQueue(),
        leader=os.getpid(),
    )
    began = time.monotonic() - trainer.memory.seconds
    crew = [
        context.Process(target=_work, args=(trainer, shared, place, began), daemon=True) for place in range(workers)
    ]
    try:
        with trainer.patient_interrupts():
            for process in crew:
                process.start()
            _lead(trainer, shared, crew, began)
    finally:
        shared.stop.set()
        for semaphore in shared.start:
            semaphore.release()
        for process in crew:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
    trainer.keep_best()
    return trainer.memory


def _shared(tensor: Tensor) -> Tensor:
    moved: Tensor = tensor.share_memory_()  # type: ignore[no-untyped-call]
    return moved


def _lead(trainer: Trainer, shared: _Shared, crew: Sequence[BaseProcess], began: float) -> None:
    """Start every epoch, watch it, and close it."""
    memory, saved, first = trainer.memory, time.monotonic(), (trainer.memory.step, trainer.memory.seconds)
    while not memory.finished and not trainer.interrupted:
        shared.epoch[0] = memory.epoch
        shared.steps.zero_()
        shared.losses.zero_()
        for semaphore in shared.start:
            semaphore.release()
        waiting = len(crew)
        while waiting:
            waiting -= shared.ended.acquire(timeout=POLL)
            if waiting and any(process.exitcode is not None for process in crew):
                told = "" if shared.trouble.empty() else shared.trouble.get()
                raise DoxaError(told or "a worker process was ended from outside; perhaps memory ran out")
            if trainer.interrupted:
                shared.stop.set()
            memory.step = memory.epoch * trainer.steps_per_epoch + int(shared.steps.sum())
            memory.epoch_loss, memory.seconds = float(shared.losses.sum()), time.monotonic() - began
            if trainer.report:
                beliefs = (memory.step - first[0]) * len(trainer.beliefs) / trainer.steps_per_epoch
                trainer.report(trainer.progress(beliefs / max(memory.seconds - first[1], 1e-9)))
        taken = int(shared.steps.sum())
        if taken == trainer.steps_per_epoch:
            trainer.end_epoch(began)
        memory.finished |= trainer.fraction(memory.step, memory.seconds) >= 1
        if taken != trainer.steps_per_epoch and not (memory.finished or trainer.interrupted):
            raise DoxaError(f"the workers took {taken} of {trainer.steps_per_epoch} steps; this is a fault in doxa")
        due = trainer.interrupted or time.monotonic() - saved > trainer.settings.checkpoint_seconds
        if due and not memory.finished:
            _save(trainer)
            saved = time.monotonic()


def _save(trainer: Trainer) -> None:
    """A checkpoint goes on at the start of the epoch under way."""
    step, loss = trainer.memory.step, trainer.memory.epoch_loss
    trainer.memory.step, trainer.memory.epoch_loss = trainer.memory.epoch * trainer.steps_per_epoch, 0.0
    trainer.save()
    trainer.memory.step, trainer.memory.epoch_loss = step, loss


def _work(trainer: Trainer, shared: _Shared, place: int, began: float) -> None:
    """One worker process; what stops it is told to the one that leads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    try:
        _take_part(trainer, shared, place, began)
    except DoxaError as fault:
        shared.trouble.put(str(fault))
    except Exception as fault:
        shared.trouble.put(f"a worker failed: {type(fault).__name__}: {fault}")


def _take_part(trainer: Trainer, shared: _Shared, place: int, began: float) -> None:
    """Every N-th step of each epoch called out."""
    workers = len(shared.start)
    while True:
        while not shared.start[place].acquire(timeout=1):
            if os.getppid() != shared.leader:  # it was killed
                return
        if shared.stop.is_set():
            return
        epoch = int(shared.epoch[0])
        order, steps = trainer.order(epoch), trainer.steps_per_epoch
        for number in range(epoch * steps + place, (epoch + 1) * steps, workers):
            fraction = trainer.fraction(number, time.monotonic() - began)
            if fraction >= 1 or shared.stop.is_set() or os.getppid() != shared.leader:
                break
            shared.losses[place] += trainer.step(number, order, fraction)
            shared.steps[place] += 1
        shared.ended.release()
