"""The columns of a table of beliefs: what they are called, and the checks every format shares."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import polars as pl

from doxa.errors import DoxaError, UsageError
from doxa.formats.faults import EXPECTED, Faults

log = logging.getLogger(__name__)

TRIPLE = ("head", "relation", "tail")
COLUMNS = (*TRIPLE, "mention", "confidence", "label")

ALIASES = {"subject": "head", "predicate": "relation", "object": "tail"}
"""Vocabularies that others use."""


def meaning(name: str | None) -> str:
    """The column a heading means; one that means none is returned in lower case."""
    plain = (name or "").strip().lower()
    return ALIASES.get(plain, plain)


def is_header(names: Sequence[str | None]) -> bool:
    """Whether some fields are headings: they name head, relation and tail."""
    return set(TRIPLE) <= set(map(meaning, names))


def chosen(headings: Sequence[str], where: str, columns: str = "") -> dict[str, str]:
    """For each heading that is a column of ours, which; the others are ignored with a notice.

    `columns` renames: `head=subject_id,relation=p`, ours on the left.
    """
    renamed = {}
    for pair in filter(None, columns.split(",")):
        ours, equals, theirs = pair.partition("=")
        if not equals or ours not in COLUMNS:
            raise UsageError(
                f"columns={columns!r}; expected ours=theirs, for example head=subject,relation=predicate,tail=object"
            )
        if theirs not in headings:
            raise DoxaError(f"{where}: no column {theirs!r}", f"found: {', '.join(map(str, headings))}")
        renamed[theirs] = ours
    found = {name: renamed.get(name, meaning(name)) for name in headings}
    found = {
        name: ours
        for name, ours in found.items()
        if ours in COLUMNS and (name in renamed or ours not in renamed.values())
    }
    if len(set(found.values())) < sum(name in found for name in headings):
        raise DoxaError(f"{where}: the header names a column twice ({', '.join(map(str, headings))})")
    missing = [name for name in TRIPLE if name not in found.values()]
    if missing:
        raise DoxaError(
            f"{where}: no column {' or '.join(missing)} (found: {', '.join(map(str, headings)) or 'none'})",
            "name yours, for example: --read columns=head=subject_id,relation=property,tail=object_id",
        )
    ignored = [str(name) for name in headings if name not in found]
    if ignored:
        log.warning("%s: ignoring column%s %s", where.rpartition("/")[2], "s"[: len(ignored) != 1], ", ".join(ignored))
    return found


def checked(table: pl.DataFrame, faults: Faults, refuted: bool = False) -> pl.DataFrame:
    """Check every column and turn confidence and label into numbers; faulty rows are reported or dropped.

    A confidence is above 0; `refuted` lets 0 pass too, for files to measure with that hold falsehoods.
    """
    good = pl.repeat(True, len(table), eager=True)

    def require(passed: pl.Series, message: str, *hints: str) -> None:
        nonlocal good
        faults.report(table["line"].filter(~passed & good).to_numpy(), message, *hints)
        good &= passed

    for name in TRIPLE:
        require(table[name].is_not_null() & (table[name] != "").fill_null(False), f"the {name} is empty", EXPECTED)
    if "confidence" in table.columns:
        given, number = table["confidence"], table["confidence"].cast(pl.Float64, strict=False)
        enough = number >= 0 if refuted else number > 0
        passed = given.is_null() | (enough & (number <= 1)).fill_null(False)
        wanted = "from 0 to 1" if refuted else "above 0 and at most 1"
        require(passed, f"the confidence is {_first(given, ~passed)}; expected a number {wanted}")
        table = table.with_columns(number)
    if "label" in table.columns:
        given, number = table["label"], table["label"].cast(pl.Float64, strict=False)
        passed = (number.abs() == 1).fill_null(False)
        require(passed, f"the label is {_first(given, ~passed)}; expected 1 (true) or -1 (false)")
        table = table.with_columns(number.cast(pl.Int8, strict=False))
    return table if good.all() else table.filter(good)


def _first(column: pl.Series, chosen: pl.Series) -> str:
    found = column.filter(chosen)
    return repr(found[0]) if len(found) else ""
