"""Workers: processes on shared tables, without locks, one thread each.

Every worker takes each N-th step of an epoch and updates the shared tables. Two that update the same row at the same
moment may lose one of two small steps: harmless, but the run is not exactly repeatable. Between epochs the workers wait
while the main process validates, keeps the best weights and writes the checkpoint.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event, Semaphore

import torch
from torch import Tensor

from doxa.errors import DoxaError
from doxa.training.executors import EpochProgress, Fraction
from doxa.training.sharing import share, shared
from doxa.training.steps import Steps
from doxa.training.threads import torch_threads

POLL = 0.1
"""Seconds between two looks at the workers."""


@dataclass(frozen=True)
class _Shared:
    """What the processes share besides the tables: the steps of the epoch, progress, and signals."""

    steps: Tensor
    done: Tensor
    losses: Tensor
    start: list[Semaphore]
    ended: Semaphore
    stop: Event
    closed: Event
    errors: SimpleQueue[tuple[str, str]]
    leader: int


class Workers:
    """Runs every N-th step in each of N worker processes, which are forked when the first epoch starts."""

    exact = False

    def __init__(self, steps: Steps, workers: int) -> None:
        if sys.platform == "win32" or "fork" not in multiprocessing.get_all_start_methods():
            raise DoxaError("several workers need a system that can fork processes", "use one worker")
        workers = min(workers, steps.per_epoch)
        context = multiprocessing.get_context("fork")
        self._state = _Shared(
            steps=shared(torch.zeros(2, dtype=torch.int64)),
            done=shared(torch.zeros(workers, dtype=torch.int64)),
            losses=shared(torch.zeros(workers, dtype=torch.float64)),
            start=[context.Semaphore(0) for _ in range(workers)],
            ended=context.Semaphore(0),
            stop=context.Event(),
            closed=context.Event(),
            errors=context.SimpleQueue(),
            leader=os.getpid(),
        )
        self._steps, self._context = steps, context
        self._processes: list[BaseProcess] = []

    def warm_up(self) -> None:
        self._steps.warm_up(backward=False)  # with other devices at hand, PyTorch forbids a fork after a backward pass
        pbe, optimizer = self._steps.pbe, self._steps.optimizer
        for table in (*pbe.parameters(), *pbe.buffers(), *optimizer.state().values()):
            share(table)

    def _fork(self, fraction: Fraction) -> None:
        for place in range(len(self._state.start)):
            arguments = (self._steps, self._state, place, fraction)
            self._processes.append(self._context.Process(target=_work, args=arguments, daemon=True))
            self._processes[-1].start()

    def run_epoch(self, steps: range, fraction: Fraction) -> Iterator[EpochProgress]:
        state = self._state
        if not self._processes:
            self._fork(fraction)
        state.steps[0], state.steps[1] = steps.start, steps.stop
        state.done.zero_()
        state.losses.zero_()
        for semaphore in state.start:
            semaphore.release()
        waiting = len(self._processes)
        while waiting:
            waiting -= state.ended.acquire(timeout=POLL)
            if waiting and any(process.exitcode is not None for process in self._processes):
                killed = ("a worker process was killed; perhaps memory ran out", "")
                message, remedy = killed if state.errors.empty() else state.errors.get()
                raise DoxaError(message, remedy=remedy)
            yield EpochProgress(int(state.done.sum()), float(state.losses.sum()))

    def stop(self) -> None:
        self._state.stop.set()

    def close(self) -> None:
        self._state.stop.set()
        self._state.closed.set()
        for semaphore in self._state.start:
            semaphore.release()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()


def _work(steps: Steps, state: _Shared, place: int, fraction: Fraction) -> None:
    """One worker process; an error reaches the main process as text."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the main process ends the workers
        signal.signal(number, signal.SIG_IGN)
    try:
        with torch_threads(1):
            _take_part(steps, state, place, fraction)
    except DoxaError as fault:
        state.errors.put((str(fault), fault.remedy))
    except Exception as fault:
        state.errors.put((f"a worker failed: {type(fault).__name__}: {fault}", ""))


def _take_part(steps: Steps, state: _Shared, place: int, fraction: Fraction) -> None:
    """Every N-th step of each epoch that the main process starts."""
    workers = len(state.start)
    while True:
        while not state.start[place].acquire(timeout=1):
            if os.getppid() != state.leader:  # it was killed
                return
        if state.closed.is_set():
            return
        for number in range(int(state.steps[0]) + place, int(state.steps[1]), workers):
            share = fraction(number)
            if share >= 1 or state.stop.is_set() or os.getppid() != state.leader:
                break
            state.losses[place] += steps.take(number, share)
            state.done[place] += 1
        state.ended.release()
