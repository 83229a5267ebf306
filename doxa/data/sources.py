"""Beliefs from memory: polars and pandas frames, NumPy arrays, lists of tuples or dictionaries, as a checked frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from doxa.data.columns import COLUMNS, TRIPLE, check_columns, kind_of_fourth, meanings
from doxa.errors import UsageError

TEXTS = (*TRIPLE, "mention")

WIDTHS = (3, 4, 5)
"""Lengths of tuples: a triple, with one more column, with a mention and a confidence."""

EXPECTED_ROWS = "expected (head, relation, tail), with a mention, a confidence or both, or with a label"


def as_frame(source: Any) -> pl.DataFrame:
    """The beliefs of a frame, a NumPy array or a list of tuples or dictionaries, checked, with doxa's columns.

    An array has one belief per row. Tuples are (head, relation, tail), then a mention or a confidence or both; a
    fourth column in which all numbers are ±1 is the label, as in files. Columns may have the names that other tools
    use, such as subject, predicate and object; columns that mean nothing here are left out. A confidence is from 0 to
    1, where 0 marks a false belief.
    """
    if isinstance(source, pl.DataFrame):
        return _checked({name: source[name] for name in source.columns})
    if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        if not source.columns.is_unique:
            raise UsageError(f"the frame names a column twice ({', '.join(map(str, source.columns))})")
        return _checked({str(name): _series(_plain(column)) for name, column in source.items()})
    if isinstance(source, np.ndarray) and source.ndim == 2:
        return _of_tuples(source.tolist())
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        if source and all(isinstance(row, Mapping) for row in source):
            return _of_dictionaries(source)
        return _of_tuples(source)
    raise UsageError(
        f"cannot read beliefs from a {type(source).__name__}",
        "expected Beliefs, a polars or pandas frame, a NumPy array of rows or a list of tuples; doxa.read reads files",
    )


def _plain(column: Any) -> list[Any]:
    """A pandas column as Python values, None where it has none."""
    pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if missing else value for value, missing in pairs]


def _series(values: Sequence[Any]) -> pl.Series:
    """The values as a column; values of several types become text."""
    try:
        return pl.Series(values)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)


def _checked(columns: dict[str, pl.Series]) -> pl.DataFrame:
    """The columns that mean something under doxa's names; a faulty value is an error that names its row."""
    headings: dict[str, str] = {}
    for heading, column in meanings(list(columns)).items():
        if column not in headings or heading == column:
            headings[column] = heading
    missing = [column for column in TRIPLE if column not in headings]
    if missing:
        raise UsageError(
            f"the frame has no column {' or '.join(missing)} (columns: {', '.join(columns) or 'none'})",
            "rename its columns to head, relation and tail",
        )
    named = [columns[headings[column]].alias(column) for column in COLUMNS if column in headings]
    frame = pl.DataFrame([_as_text(part) if part.name in TEXTS else _without_nan(part) for part in named])
    frame, checks = check_columns(frame, allow_zero_confidence=True)
    for column, passed, message in checks:
        if not passed.all():
            hints = ("leave such rows out, for example with dropna or drop_nulls",) if column in TRIPLE else ()
            raise UsageError(f"row {int(np.argmin(passed.to_numpy())) + 1} of the beliefs: {message}", *hints)
    return frame


def _without_nan(column: pl.Series) -> pl.Series:
    return column.set(column.is_nan(), None) if column.dtype.is_float() else column


def _as_text(column: pl.Series) -> pl.Series:
    if column.dtype.is_nested() or column.dtype == pl.Object:
        raise UsageError(f"the column {column.name} has values of type {column.dtype}; expected text")
    return column.cast(pl.String)


def _of_dictionaries(rows: Sequence[Mapping[Any, Any]]) -> pl.DataFrame:
    names = dict.fromkeys(name for row in rows for name in row)
    return _checked({str(name): _series([row.get(name) for row in rows]) for name in names})


def _of_tuples(rows: Sequence[Any]) -> pl.DataFrame:
    if not rows:
        raise UsageError("no beliefs in an empty list", EXPECTED_ROWS)
    width = len(rows[0]) if isinstance(rows[0], tuple | list) else 0
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, tuple | list):
            raise UsageError(f"row {number} of the beliefs is {row!r}, not a tuple or list", EXPECTED_ROWS)
        if len(row) not in WIDTHS:
            raise UsageError(f"row {number} of the beliefs has {len(row)} parts", EXPECTED_ROWS)
        if len(row) != width:
            raise UsageError(
                f"row {number} of the beliefs has {len(row)} parts, the first has {width}; all must be of one length",
                EXPECTED_ROWS,
            )
    columns = [_series([row[place] for row in rows]) for place in range(width)]
    names = list(TRIPLE)
    if width == 4:
        names.append(_kind_of_fourth(columns[3]))
    elif width == 5:
        names += ["mention", "confidence"]
    return _checked(dict(zip(names, columns, strict=True)))


def _kind_of_fourth(column: pl.Series) -> str:
    """As in files, but a value may be missing in a confidence; a label is in every row."""
    kind = kind_of_fourth([column.drop_nulls()], "the tuples")
    if column.null_count() == len(column):
        return "mention"
    return "confidence" if kind == "label" and column.null_count() else kind
