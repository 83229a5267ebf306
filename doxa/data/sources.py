"""Beliefs from memory: polars and pandas frames and lists of tuples as a frame with doxa's column names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from doxa.data.columns import COLUMNS, TRIPLE, meanings
from doxa.errors import UsageError

WIDTHS = (3, 4, 5)
"""Lengths of tuples: a triple, with a mention or a confidence, with both."""


def as_frame(source: Any) -> pl.DataFrame:
    """The beliefs of a polars or pandas frame or a list of tuples, as a frame with doxa's column names.

    Tuples are (head, relation, tail), then a mention or a confidence or both. Columns may have the names that other
    tools use, such as subject, predicate and object; columns that mean nothing here are left out.
    """
    if isinstance(source, pl.DataFrame):
        return _renamed({name: source[name] for name in source.columns})
    if type(source).__module__.partition(".")[0] == "pandas":
        return _renamed({str(name): pl.Series(_plain(source[name])) for name in source.columns})
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        return _of_tuples(source)
    raise UsageError(
        f"cannot read beliefs from a {type(source).__name__}",
        "expected Beliefs, a polars or pandas frame or a list of tuples; doxa.read reads files",
    )


def _plain(column: Any) -> list[Any]:
    """A pandas column as Python values, None where it has none."""
    return [None if value is None or value != value else value for value in column.tolist()]


def _renamed(columns: dict[str, pl.Series]) -> pl.DataFrame:
    headings: dict[str, str] = {}
    for heading, column in meanings(list(columns)).items():
        if column not in headings or heading == column:
            headings[column] = heading
    missing = [column for column in TRIPLE if column not in headings]
    if missing:
        raise UsageError(f"the frame has no column {' or '.join(missing)} (columns: {', '.join(columns) or 'none'})")
    frame = pl.DataFrame([columns[headings[column]].alias(column) for column in COLUMNS if column in headings])
    frame = frame.with_columns(pl.col(name).cast(pl.String) for name in TRIPLE)
    if any(frame[name].null_count() for name in TRIPLE):
        raise UsageError("the frame has rows without head, relation or tail")
    return frame


def _of_tuples(rows: Sequence[Any]) -> pl.DataFrame:
    widths = {len(row) for row in rows}
    if not rows or len(widths) > 1 or not widths <= set(WIDTHS):
        raise UsageError("expected tuples of one length: (head, relation, tail), with a mention, a confidence or both")
    columns: list[str] = list(TRIPLE)
    if widths == {4}:
        numbers = all(isinstance(row[3], int | float) for row in rows)
        columns.append("confidence" if numbers else "mention")
    elif widths == {5}:
        columns += ["mention", "confidence"]
    return _renamed({name: pl.Series([row[place] for row in rows]) for place, name in enumerate(columns)})
