"""One process: the steps of an epoch one after the other. Exactly repeatable from the seed.

Several threads share the work of a step. Each one computes with a single thread of torch, so that matrix products,
compiled loops and small operations all run on several cores, and the result is that of one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch

from doxa.training.executors import EpochProgress, Fraction
from doxa.training.query_steps import QuerySteps
from doxa.training.steps import Steps
from doxa.training.threads import Threads, torch_threads


class SingleProcess:
    """Runs every step in this process, with so many threads."""

    exact = True

    def __init__(self, steps: Steps | QuerySteps, threads: int = 1) -> None:
        self.steps = steps
        self._threads = Threads(threads if steps.in_parts else 1)
        self._stopped = False

    def warm_up(self) -> None:
        with self._torch_threads():
            self.steps.warm_up()

    def run_epoch(self, steps: range, fraction: Fraction) -> Iterator[EpochProgress]:
        loss = 0.0
        self.steps.threads = self._threads
        with self._threads.apart(), self._torch_threads():
            for done, number in enumerate(steps, start=1):
                share = fraction(number)
                if share >= 1 or self._stopped:
                    return
                loss += self.steps.take(number, share)
                yield EpochProgress(done, loss)

    def _torch_threads(self) -> AbstractContextManager[None]:
        """One thread for each product of a part; libraries that waited for work in others would take their cores."""
        return torch_threads(1 if self.steps.in_parts else torch.get_num_threads())

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        self._threads.close()
