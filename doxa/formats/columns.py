"""Columns of a file of beliefs: which column is which, and the checks that every format shares."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import polars as pl

from doxa.data.columns import COLUMNS, TRIPLE, check_columns, meanings
from doxa.errors import BadFile, UnknownName, UsageError
from doxa.formats.faults import Faults

log = logging.getLogger(__name__)


def match_columns(headings: Sequence[str], where: str, columns: str = "") -> dict[str, str]:
    """The column that each heading of a file means; other headings are ignored with a notice.

    `columns` renames: `head=subject_id,relation=p`, the column of a belief on the left.
    """
    renamed = _renamed(headings, where, columns)
    rest = [heading for heading in headings if heading not in renamed]
    matched = renamed | meanings(rest, renamed.values())
    if len(set(matched.values())) < sum(heading in matched for heading in headings):
        raise BadFile(f"{where}: the header names a column twice ({_list(headings)})")
    missing = [name for name in TRIPLE if name not in matched.values()]
    if missing:
        raise BadFile(
            f"{where}: no column {' or '.join(missing)} (found: {_list(headings) or 'none'})",
            'name the columns, for example columns="head=subject_id,relation=property,tail=object_id"',
            remedy="columns",
        )
    ignored = [str(heading) for heading in headings if heading not in matched]
    if ignored:
        log.warning("%s: ignoring column%s %s", where.rpartition("/")[2], "s"[: len(ignored) != 1], ", ".join(ignored))
    return {heading: matched[heading] for heading in headings if heading in matched}


def _renamed(headings: Sequence[str], where: str, columns: str) -> dict[str, str]:
    """The headings that `columns` names, each with its column."""
    renamed = {}
    for pair in filter(None, columns.split(",")):
        column, equals, heading = pair.partition("=")
        if not equals or column not in COLUMNS:
            raise UsageError(
                f"columns={columns!r}; expected column=heading, for example head=subject,relation=predicate,tail=object"
            )
        if heading not in headings:
            raise UnknownName(f"{where}: no column {heading!r}", f"found: {_list(headings)}")
        renamed[heading] = column
    return renamed


def columns_in_order(columns: str, width: int, where: str) -> dict[str, str]:
    """Names for the columns c0, c1 … from a list such as head,relation,tail,-,confidence."""
    listed = columns.split(",")
    names = [name for name in listed if name != "-"]
    if not set(TRIPLE) <= set(names) <= set(COLUMNS) or len(set(names)) < len(names):
        raise UsageError(
            f"columns={columns}; expected head, relation and tail among {', '.join(COLUMNS)}",
            "- stands for a column to ignore",
        )
    if len(listed) != width:
        raise BadFile(f"{where}: {count_fields(width)} where columns={columns} names {len(listed)}")
    return {f"c{number}": name for number, name in enumerate(listed) if name != "-"}


def check(table: pl.DataFrame, faults: Faults, allow_zero_confidence: bool = False) -> pl.DataFrame:
    """Check every column and turn confidence and label into numbers; faulty rows are reported or dropped.

    The checks are those of `doxa.data.columns.check_columns`.
    """
    good = pl.repeat(True, len(table), eager=True)
    table, checks = check_columns(table, allow_zero_confidence)
    for column, passed, message in checks:
        hints = ("a belief needs a head, a relation and a tail",) if column in TRIPLE else ()
        faults.report(table["line"].filter(~passed & good).to_numpy(), message, *hints)
        good &= passed
    return table if good.all() else table.filter(good)


def count_fields(count: int) -> str:
    """`1 field`, `3 fields`."""
    return f"{count} field{'s'[: count != 1]}"


def _list(headings: Sequence[str]) -> str:
    return ", ".join(map(str, headings))
