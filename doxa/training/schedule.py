"""The schedule of a run: how far the learning rate has fallen, and when the run ends.

    rate = learning rate · (1 − fallen),    fallen = floor + (1 − floor) · (now − start) / (end − start)

`now` is the number of the step or, with a time budget, the clock. A run starts with floor = 0. A cooldown is a second,
shorter schedule from a step on: it starts at the rate of this step and ends at 0.
"""

from __future__ import annotations

import time

import torch

from doxa.training.sharing import shared


class Schedule:
    """How far the learning rate has fallen at a step: 0 at the start of a run, 1 at its end.

    The three numbers are in shared memory, so that worker processes follow a change.
    """

    def __init__(self, steps: int) -> None:
        self.by_clock = False
        self._numbers = shared(torch.zeros(3, dtype=torch.float64))
        self.set(0, steps)

    def __getstate__(self) -> tuple[bool, list[float]]:
        """For a process elsewhere, whose clock may show another time: seconds from now."""
        start, end, floor = self._numbers.tolist()
        now = time.monotonic() if self.by_clock else 0.0
        return self.by_clock, [start - now, end - now, floor]

    def __setstate__(self, state: tuple[bool, list[float]]) -> None:
        self.by_clock, (start, end, floor) = state
        now = time.monotonic() if self.by_clock else 0.0
        self._numbers = torch.tensor([start + now, end + now, floor], dtype=torch.float64)

    def set(self, start: float, end: float, floor: float = 0.0) -> None:
        """Let the rate fall from `start` to `end`, in steps or in seconds of the clock."""
        self._numbers[:] = torch.tensor([start, end, floor], dtype=torch.float64)

    @property
    def end(self) -> float:
        """The step, or the moment of the clock, at which the run ends."""
        return float(self._numbers[1])

    def fallen(self, step: int) -> float:
        """The share of the learning rate that is used up when a step begins; the run ends at 1."""
        start, end, floor = self._numbers.tolist()
        now = time.monotonic() if self.by_clock else step
        return 1.0 if now >= end else min(1.0, floor + (1 - floor) * max(0.0, now - start) / (end - start))

    def done(self, step: int) -> float:
        """The share of the run that is done: of its steps, or of its time."""
        start, end, _ = self._numbers.tolist()
        now, start = (time.monotonic(), start) if self.by_clock else (step, 0.0)
        return 1.0 if now >= end else max(0.0, now - start) / (end - start)
