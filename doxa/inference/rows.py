"""Work on many rows: functions that answer each row by itself, so that blocks of rows can be answered anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import polars as pl

from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Ids
from doxa.model import Model

RowFunction = Callable[[Model, Any, Any], pl.DataFrame]
"""(model, rows, options) → a table. The tables of blocks, one after the other, are the table of all rows."""


class RowRunner(Protocol):
    """Runs row functions on the rows of a model."""

    def run(
        self, function: RowFunction, count: int, rows_of: Callable[[Ids], Any], options: Any, block: int = 0
    ) -> pl.DataFrame:
        """The table of rows 0 … count − 1; `rows_of` has the content of a block. `block` rows are taken at a time."""
        ...


class Here:
    """All rows at once, in this process."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(
        self, function: RowFunction, count: int, rows_of: Callable[[Ids], Any], options: Any, block: int = 0
    ) -> pl.DataFrame:
        return function(self.model, rows_of(np.arange(count)), options)


def judged_rows(model: Model, beliefs: Beliefs, options: dict[str, Any]) -> pl.DataFrame:
    """Credence and verdict of beliefs in the ids of the model."""
    known = model.known if options["contradictions"] else None
    judged = model.calibration.judge(
        model.pbe, beliefs, model.trained_facts, options["memory"], options["base_rate"], known
    )
    return pl.DataFrame(dict(zip(("credence", "accepted"), judged, strict=True)))
