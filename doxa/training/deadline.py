"""The deadline of a command with a time budget: reading, training, calibration and saving share it."""

from __future__ import annotations

import math
import time


class Deadline:
    """The moment by which a command should have ended, `seconds` after it began; 0 seconds = no end."""

    def __init__(self, seconds: float = 0.0, began: float | None = None) -> None:
        self.seconds = seconds
        self.began = time.monotonic() if began is None else began

    def __repr__(self) -> str:
        return f"Deadline({self.seconds:g} s, {self.left():.1f} left)" if self.limited else "Deadline(none)"

    @property
    def limited(self) -> bool:
        """Whether there is an end."""
        return self.seconds > 0

    @property
    def end(self) -> float:
        """The end, on the clock of `time.monotonic`."""
        return self.began + self.seconds if self.limited else math.inf

    def left(self) -> float:
        """Seconds until the end; negative after it, infinite without one."""
        return self.end - time.monotonic()

    def spend(self, seconds: float) -> None:
        """Count seconds that an earlier part of the same run took, before it was resumed."""
        self.began -= seconds
