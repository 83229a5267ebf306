"""Faulty lines, rows and statements: stop at the first, or leave them out and count."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from doxa.errors import DoxaError

log = logging.getLogger(__name__)

OnError = Literal["raise", "skip"]

EXPECTED = "expected: head <TAB> relation <TAB> tail <TAB> mention <TAB> confidence (the last two optional)"


class Faults:
    """What is wrong with one file. `unit` is what its places are called: line, row or statement."""

    def __init__(self, name: str, on_error: OnError = "raise", unit: str = "line") -> None:
        self.name, self.on_error, self.unit = name, on_error, unit
        self.count = 0
        self._first = (0, "", "")

    def report(
        self, places: NDArray[Any] | Sequence[int], message: str, *hints: str, unit: str = "", fatal: bool = False
    ) -> None:
        """Faulty places, numbered from 1: raise for the first, or count them all when skipping.

        A `fatal` one ends the reading even when skipping: nothing after it can be read.
        """
        if not len(places):
            return
        unit = unit or self.unit
        place = int(places[0])
        if fatal or self.on_error == "raise":
            end = f"nothing after this {unit} can be read" if fatal else self.skipping(unit)
            raise DoxaError(f"{self.name}, {unit} {place}: {message}", *hints, end)
        if not self.count or place < self._first[0]:
            self._first = (place, message, unit)
        self.count += len(places)

    def skipping(self, unit: str) -> str:
        """What to type to go on."""
        return f"to skip such {unit}s and count them, pass --on-error skip"

    def tell(self, kept: int) -> None:
        """Log how many were left out, if any."""
        if self.count:
            place, message, unit = self._first
            log.warning("%s: skipped %d of %d %ss (%s %d: %s)", self.name.rpartition("/")[2], self.count,
                        self.count + kept, self.unit, unit, place, message)  # fmt: skip
