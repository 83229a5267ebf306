"""Beliefs by number: files of ids beside lists of the names the ids stand for."""

from __future__ import annotations

import numpy as np
import polars as pl

from doxa.errors import DoxaError
from doxa.formats.faults import Faults
from doxa.formats.packing import Source
from doxa.formats.tsv import Fields


def listed(source: Source, what: str, name: str, number: str, passed: int = 0) -> pl.Series:
    """The names of a list such as OpenKE's entity2id.txt, each at its number; `name` and `number` are its columns."""
    faults = Faults(source.name)
    tables = list(Fields(source, delimiter_of(source, passed), faults, lambda fields: False, least=2, passed=passed))
    table = pl.concat(tables).with_columns(pl.col(number).str.strip_chars().cast(pl.Int64, strict=False))
    wrong = table.filter(pl.col(number).is_null() | pl.col(name).is_null())
    faults.report(wrong["line"].to_numpy(), f"expected the name and number of {what}")
    table = table.sort(number)
    off = table.filter(pl.col(number) != np.arange(len(table)))
    if len(off):
        raise DoxaError(
            f"{source.name}, line {off['line'][0]}: the number {off[number][0]} where {len(table):,} names are "
            f"numbered 0 to {len(table) - 1:,}, each once"
        )
    return table[name]


def delimiter_of(source: Source, passed: int) -> str:
    """TAB if the first line after those passed holds one, else a space."""
    start = next(source.texts(), b"").split(b"\n", passed + 1)
    return "\t" if b"\t" in start[min(passed, len(start) - 1)] else " "


def looked_up(table: pl.DataFrame, names: dict[str, pl.Series], faults: Faults) -> pl.DataFrame:
    """The table with names for its numbers; a number that no name has is a fault."""
    columns: list[pl.Series] = []
    good = pl.repeat(True, len(table), eager=True)
    for column in ("head", "relation", "tail"):
        known = names["relation" if column == "relation" else "entity"]
        number = table[column].str.strip_chars().cast(pl.Int64, strict=False)
        fits = ((number >= 0) & (number < len(known))).fill_null(False)
        given = table[column].filter(~fits & good)
        if len(given):
            what = "relations" if column == "relation" else "entities"
            faults.report(
                table["line"].filter(~fits & good).to_numpy(),
                f"the {column} is {given[0]!r}; expected a number from 0 to {len(known) - 1:,}, as there are "
                f"{len(known):,} {what}",
            )
        good &= fits
        columns.append(known.gather(pl.select(pl.when(fits).then(number).otherwise(0)).to_series()).alias(column))
    found = table.with_columns(columns)
    return found if good.all() else found.filter(good)
