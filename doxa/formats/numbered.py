"""Triples of ids, with the names in files beside them."""

from __future__ import annotations

import numpy as np
import polars as pl

from doxa.data.columns import TRIPLE
from doxa.errors import BadFile
from doxa.formats.faults import Faults
from doxa.formats.packing import Source
from doxa.formats.tsv import Fields


def read_names(source: Source, kind: str, name: str, number: str) -> pl.Series:
    """The names of a file such as OpenKE's entity2id.txt in order of their ids, after one line of heading.

    `name` and `number` are the columns c0 and c1 that hold names and ids.
    """
    faults = Faults(source.name)
    tables = list(Fields(source, detect_delimiter(source), faults, lambda fields: False, least=2, skip=1))
    table = pl.concat(tables).with_columns(pl.col(number).str.strip_chars().cast(pl.Int64, strict=False))
    article = "an" if kind == "entity" else "a"
    wrong = table.filter(pl.col(number).is_null() | pl.col(name).is_null())
    faults.report(wrong["line"].to_numpy(), f"expected the name and number of {article} {kind}")
    table = table.sort(number)
    off = table.filter(pl.col(number) != np.arange(len(table)))
    if len(off):
        raise BadFile(
            f"{source.name}, line {off['line'][0]}: the number {off[number][0]} where {len(table):,} names are "
            f"numbered 0 to {len(table) - 1:,}, each once"
        )
    return table[name]


def detect_delimiter(source: Source) -> str:
    """TAB if the second line holds one, else a space."""
    start = next(source.texts(), b"").split(b"\n", 2)
    return "\t" if b"\t" in start[min(1, len(start) - 1)] else " "


def look_up(table: pl.DataFrame, names: dict[str, pl.Series], faults: Faults) -> pl.DataFrame:
    """The table with names in place of ids; an id without a name is a fault."""
    columns: list[pl.Series] = []
    good = pl.repeat(True, len(table), eager=True)
    for column in TRIPLE:
        known = names["relation" if column == "relation" else "entity"]
        number = table[column].str.strip_chars().cast(pl.Int64, strict=False)
        fits = ((number >= 0) & (number < len(known))).fill_null(False)
        faulty = table[column].filter(~fits & good)
        if len(faulty):
            what = "relations" if column == "relation" else "entities"
            faults.report(
                table["line"].filter(~fits & good).to_numpy(),
                f"the {column} is {faulty[0]!r}; expected a number from 0 to {len(known) - 1:,}, as there are "
                f"{len(known):,} {what}",
            )
        good &= fits
        columns.append(known.gather(pl.select(pl.when(fits).then(number).otherwise(0)).to_series()).alias(column))
    named = table.with_columns(columns)
    return named if good.all() else named.filter(good)
