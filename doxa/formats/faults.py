"""Faulty lines, rows and statements: stop at the first, or leave them out and count them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from doxa.errors import BadFile

log = logging.getLogger(__name__)

OnError = Literal["raise", "skip"]

EXPECTED = "expected: head <TAB> relation <TAB> tail <TAB> mention <TAB> confidence (the last two optional)"
NOT_UTF8 = "convert the file, e.g. `iconv -f latin1 -t utf-8`"


class Faults:
    """The faults of one file. `unit` is what its places are called: line, row or statement."""

    def __init__(self, name: str, on_error: OnError = "raise", unit: str = "line") -> None:
        self.name, self.on_error, self.unit = name, on_error, unit
        self.count = 0
        self._first = (0, "", "")

    def report(
        self, places: NDArray[Any] | Sequence[int], message: str, *hints: str, unit: str = "", fatal: bool = False
    ) -> None:
        """Faulty places, numbered from 1: raise for the first, or count them all when skipping.

        A `fatal` fault ends the reading even when skipping, because nothing after it can be read.
        """
        if not len(places):
            return
        unit = unit or self.unit
        place = int(places[0])
        where = f"{self.name}, {unit} {place}: {message}"
        if fatal:
            raise BadFile(where, *hints, f"nothing after this {unit} can be read")
        if self.on_error == "raise":
            raise BadFile(
                where, *hints, f'on_error="skip" leaves such {unit}s out and counts them', remedy="skip_errors"
            )
        if not self.count or place < self._first[0]:
            self._first = (place, message, unit)
        self.count += len(places)

    def log_skipped(self, kept: int) -> None:
        """Log how many were left out, if any."""
        if self.count:
            place, message, unit = self._first
            log.warning("%s: skipped %d of %d %ss (%s %d: %s)", self.name.rpartition("/")[2], self.count,
                        self.count + kept, self.unit, unit, place, message)  # fmt: skip
