"""Parquet: columns head, relation, tail and, where given, mention, confidence, label."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from doxa.errors import DoxaError
from doxa.formats import packing
from doxa.formats.columns import COLUMNS, chosen
from doxa.formats.faults import Faults
from doxa.formats.options import Options
from doxa.formats.packing import Source

UNIT = "row"
HOLDS = COLUMNS

TEXTS = ("head", "relation", "tail", "mention")
ROWS = 250_000
"""Rows held at a time."""


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Tables with a row number and named columns; those of names are text whatever they were."""
    if source.path.is_dir() or not source.path.exists():
        next(source.pieces())
    with packing.unpacked(source) as path:
        try:
            frame = pl.scan_parquet(path)
            schema = frame.collect_schema()
        except (pl.exceptions.PolarsError, OSError) as fault:
            raise DoxaError(f"{source.name}: not a whole Parquet file ({_short(fault)})") from None
        names = chosen(list(schema), source.name, options.columns)
        for theirs, ours in names.items():
            if schema[theirs].is_nested():
                raise DoxaError(f"{source.name}: the column {theirs} holds {schema[theirs]}; expected {_wanted(ours)}")
        wanted = frame.select(
            pl.col(theirs).cast(pl.String).replace("", None).alias(ours)
            if ours in TEXTS
            else pl.col(theirs).alias(ours)
            for theirs, ours in names.items()
        )
        start = 0
        try:
            for batch in wanted.collect_batches(maintain_order=True, chunk_size=ROWS):
                rows = pl.Series("line", range(start + 1, start + len(batch) + 1), dtype=pl.Int64)
                start += len(batch)
                yield batch.insert_column(0, rows)
        except pl.exceptions.PolarsError as fault:
            raise DoxaError(f"{source.name}, row {start + 1} or after: not readable ({_short(fault)})") from None


def write(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    """Block by block; a fault of what is being read meanwhile comes through as it was."""
    rows = iter(tables)
    first = next(rows, None)
    if first is None:
        raise DoxaError(f"{name}: no belief to write")
    caught: list[BaseException] = []

    def batches(columns: Any, predicate: Any, count: Any, size: Any) -> Iterator[pl.DataFrame]:
        try:
            yield first
            yield from rows
        except BaseException as fault:
            caught.append(fault)
            raise

    def sunk(path: Path) -> None:
        try:
            register_io_source(batches, schema=first.schema).sink_parquet(path)
        except Exception:
            if caught:
                raise caught[0] from None
            raise

    if name.endswith(packing.PACKINGS):
        with tempfile.NamedTemporaryFile(prefix="doxa-") as plain, packing.sink(place, name) as file:
            sunk(Path(plain.name))
            shutil.copyfileobj(plain, file)
    else:
        sunk(place)


def _wanted(column: str) -> str:
    return "text" if column in TEXTS else "numbers"


def _short(fault: Exception) -> str:
    return str(fault).partition("\n")[0][:120]
