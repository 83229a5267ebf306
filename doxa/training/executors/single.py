"""One process: the steps of an epoch one after the other. Exactly repeatable from the seed."""

from __future__ import annotations

from collections.abc import Iterator

from doxa.training.executors import EpochProgress, Fraction
from doxa.training.steps import Steps


class SingleProcess:
    """Runs every step in this process."""

    exact = True

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self._stopped = False

    def warm_up(self) -> None:
        self.steps.warm_up()

    def run_epoch(self, steps: range, fraction: Fraction) -> Iterator[EpochProgress]:
        loss = 0.0
        for done, number in enumerate(steps, start=1):
            share = fraction(number)
            if share >= 1 or self._stopped:
                return
            loss += self.steps.take(number, share)
            yield EpochProgress(done, loss)

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        pass
