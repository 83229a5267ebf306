"""Executors: how the steps of an epoch are run. The training loop knows nothing of it.

An executor yields, as an epoch goes on, how many of its steps are done and the sum of their losses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

Fraction = Callable[[int], float]
"""The fraction of the run that is done when a step begins, by the number of the step."""


class EpochProgress(NamedTuple):
    """Steps of the present call that are done, and the sum of their losses."""

    steps: int
    loss: float


class Executor(Protocol):
    """Runs training steps on the tables of a model."""

    exact: bool
    """Whether the state between any two steps is exact, so that a checkpoint may be taken there."""

    def warm_up(self) -> None:
        """Compile and share what the steps need, before the clock of the run starts."""
        ...

    def run_epoch(self, steps: range, fraction: Fraction) -> Iterator[EpochProgress]:
        """Run these steps; stops by itself when the fraction reaches 1."""
        ...

    def stop(self) -> None:
        """End the epoch under way after the steps in progress."""
        ...

    def close(self) -> None:
        """Free what the executor holds; it runs no epoch after that."""
        ...
