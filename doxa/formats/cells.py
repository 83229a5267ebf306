r"""Cells of text files: escapes for TABs and line breaks, and quotes before what a spreadsheet would run.

TAB, line feed, carriage return, backslash     \t  \n  \r  \\        with escapes=yes
=1+1  +1  -1  @x                               '=1+1  '+1  '-1  '@x  with formulas=quote
"""

from __future__ import annotations

import polars as pl

PLAIN = ["\\", "\t", "\n", "\r"]
ESCAPED = ["\\\\", "\\t", "\\n", "\\r"]

FORMULA = r"^\s*[=+\-@\t\r]"
"""The start of a cell that spreadsheets take for a formula."""

BREAKS = r"[\t\n\r]"


def has_breaks(table: pl.DataFrame) -> bool:
    """Whether a text holds a TAB or line break."""
    return any(column.str.contains(BREAKS).any() for column in _texts(table))


def escaped(table: pl.DataFrame) -> pl.DataFrame:
    """The table with escapes in its texts."""
    return table.with_columns(column.str.replace_many(PLAIN, ESCAPED) for column in _texts(table))


def unescaped(table: pl.DataFrame) -> pl.DataFrame:
    """Undo `escaped`."""
    return table.with_columns(column.str.replace_many(ESCAPED, PLAIN) for column in _texts(table))


def without_formulas(table: pl.DataFrame) -> pl.DataFrame:
    """The table with a quote before texts that a spreadsheet would take for a formula."""
    names = [column.name for column in _texts(table)]
    return table.with_columns(
        pl.when(pl.col(name).str.contains(FORMULA)).then("'" + pl.col(name)).otherwise(pl.col(name)).alias(name)
        for name in names
    )


def _texts(table: pl.DataFrame) -> list[pl.Series]:
    return [column for column in table.get_columns() if column.dtype == pl.String]
