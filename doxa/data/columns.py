"""Columns of beliefs: their names, the headings other tools use for them, and the checks of their values.

A file or frame names its triple by one pair of entity headings and one relation heading, in any order and any case;
any pair goes with any relation heading. The triple counts only as a whole: a row that holds `from` and `type` but not
`to` is data, not a header. So a file without a header loses its first row only where that row names a whole triple,
such as source, type, target; `header="no"` reads such a row as data.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import polars as pl

log = logging.getLogger(__name__)

TRIPLE = ("head", "relation", "tail")
COLUMNS = (*TRIPLE, "mention", "confidence", "label")

ENTITY_HEADINGS = {
    ("head", "tail"): "relation",
    ("subject", "object"): "predicate",
    ("source", "target"): "edge",
    ("from", "to"): "type",
    ("h", "t"): "r",
    ("s", "o"): "p",
    ("head", "object"): "relation",
    ("subject", "tail"): "relation",
}
"""Headings for head and tail, and the relation heading that usually goes with them. Earlier pairs win."""

RELATION_HEADINGS = ("relation", "predicate", "edge", "property", "r", "p", "type")
"""Headings for the relation. `relation` wins, then the usual heading of the pair, then the earlier."""

MENTION_HEADINGS = ("mention", "sentence", "text")
"""Headings for the mention. Earlier ones win."""


def normalize(heading: str | None) -> str:
    """A heading without surrounding spaces, in lower case."""
    return (heading or "").strip().lower()


def meanings(headings: Sequence[str | None], assigned: Collection[str] = ()) -> dict[str, str]:
    """The column that each heading means; headings without a meaning are absent.

    `assigned` are columns that already have a heading. The result lacks part of the triple where no pair of entity
    headings and relation heading are complete.
    """
    plain = [normalize(heading) for heading in headings]
    candidates = []
    for (head, tail), usual in ENTITY_HEADINGS.items():
        relation = next((name for name in ("relation", usual, *RELATION_HEADINGS) if name in plain), "")
        candidates.append({"head": head * (head in plain), "relation": relation, "tail": tail * (tail in plain)})
    best = max(candidates, key=lambda triple: sum(bool(name) or column in assigned for column, name in triple.items()))
    mention = next((name for name in MENTION_HEADINGS if name in plain), "")
    names = best | {"mention": mention, "confidence": "confidence", "label": "label"}
    columns = {name: column for column, name in names.items() if name and column not in assigned}
    return {str(heading): columns[name] for heading, name in zip(headings, plain, strict=True) if name in columns}


def is_header(fields: Sequence[str | None]) -> bool:
    """Whether the fields of a row are headings: they name a whole triple."""
    return set(TRIPLE) <= set(meanings(fields).values())


def kind_of_fourth(columns: Iterable[pl.Series], name: str) -> str:
    """The meaning of a fourth column without a name, which depends on all rows; `name` is that of the source.

    It is the label where all values are ±1, the confidence where all are numbers, else the mention.
    """
    rows, texts, labels = 0, 0, True
    for column in columns:
        numbers = as_numbers(column)
        rows, texts = rows + len(column), texts + numbers.null_count()
        labels &= bool((numbers.abs() == 1).all())
    if texts == 0:
        return "label" if labels else "confidence"
    if texts <= 0.1 * rows:
        log.warning("%s: the fourth column is a number in all but %d rows, so it is read as the mention; "
                    "if it is the confidence, name the columns in a header", name.rpartition("/")[2],
                    texts)  # fmt: skip
    return "mention"


class ColumnCheck(NamedTuple):
    """Which rows of a column pass, and the message about the first that does not."""

    column: str
    passed: pl.Series
    message: str


def check_columns(table: pl.DataFrame, allow_zero_confidence: bool = False) -> tuple[pl.DataFrame, list[ColumnCheck]]:
    """The table with confidence and label as numbers, and the checks of its columns; files and frames share them.

    Names are not empty. A confidence is above 0 and at most 1, or with `allow_zero_confidence` from 0 to 1; it may be
    missing. A label is 1 or -1.
    """
    checks = [
        ColumnCheck(name, (table[name] != "") & table[name].is_not_null(), f"the {name} is empty") for name in TRIPLE
    ]
    if "confidence" in table.columns:
        text, number = table["confidence"], as_numbers(table["confidence"])
        enough = number >= 0 if allow_zero_confidence else number > 0
        passed = text.is_null() | (enough & (number <= 1) & number.is_not_null())
        wanted = "from 0 to 1" if allow_zero_confidence else "above 0 and at most 1"
        message = f"the confidence is {_first(text, ~passed)}; expected a number {wanted}"
        checks.append(ColumnCheck("confidence", passed, message))
        table = table.with_columns(number)
    if "label" in table.columns:
        text, number = table["label"], as_numbers(table["label"])
        passed = (number.abs() == 1) & number.is_not_null()
        message = f"the label is {_first(text, ~passed)}; expected 1 (true) or -1 (false)"
        checks.append(ColumnCheck("label", passed, message))
        table = table.with_columns(number.cast(pl.Int8, strict=False))
    return table, checks


def as_numbers(column: pl.Series) -> pl.Series:
    """The values as numbers, null where they are none."""
    try:
        return column.cast(pl.Float64, strict=False)
    except pl.exceptions.PolarsError:  # a list, for example
        return pl.Series(column.name, [None] * len(column), dtype=pl.Float64)


def _first(column: pl.Series, mask: pl.Series) -> str:
    faulty = column.filter(mask)
    return repr(faulty[0]) if len(faulty) else ""
