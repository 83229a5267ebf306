"""Parquet: columns head, relation, tail and optionally mention, confidence, label."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from doxa.data.columns import COLUMNS
from doxa.errors import BadFile
from doxa.formats import packing
from doxa.formats.columns import match_columns
from doxa.formats.faults import Faults
from doxa.formats.options import Options
from doxa.formats.packing import Source

UNIT = "row"
HOLDS = COLUMNS

TEXTS = ("head", "relation", "tail", "mention")
ROWS = 250_000
"""Rows per block."""


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Frames with a row number and named columns; names and mentions are cast to text."""
    if source.path.is_dir() or not source.path.exists():
        next(source.pieces())
    with packing.unpacked(source) as path:
        try:
            frame = pl.scan_parquet(path)
            schema = frame.collect_schema()
        except (pl.exceptions.PolarsError, OSError) as fault:
            raise BadFile(f"{source.name}: not a whole Parquet file ({_short(fault)})") from None
        names = match_columns(list(schema), source.name, options.columns)
        for heading, column in names.items():
            if schema[heading].is_nested():
                expected = "text" if column in TEXTS else "numbers"
                raise BadFile(f"{source.name}: the column {heading} holds {schema[heading]}; expected {expected}")
        wanted = frame.select(
            pl.col(heading).cast(pl.String).replace("", None).alias(column)
            if column in TEXTS
            else pl.col(heading).alias(column)
            for heading, column in names.items()
        )
        start = 0
        try:
            for batch in wanted.collect_batches(maintain_order=True, chunk_size=ROWS):
                rows = pl.Series("line", range(start + 1, start + len(batch) + 1), dtype=pl.Int64)
                start += len(batch)
                yield batch.insert_column(0, rows)
        except pl.exceptions.PolarsError as fault:
            raise BadFile(f"{source.name}, row {start + 1} or after: not readable ({_short(fault)})") from None


def write(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    """Write block by block; an error of the frames' iterator is raised unchanged."""
    rows = iter(tables)
    first = next(rows, None)
    if first is None:
        raise BadFile(f"{name}: no belief to write")
    caught: list[BaseException] = []

    def batches(columns: Any, predicate: Any, count: Any, size: Any) -> Iterator[pl.DataFrame]:
        try:
            yield first
            yield from rows
        except BaseException as fault:
            caught.append(fault)
            raise

    def write_file(path: Path) -> None:
        try:
            register_io_source(batches, schema=first.schema).sink_parquet(path)
        except Exception:
            if caught:
                raise caught[0] from None
            raise

    if name.endswith(packing.PACKINGS):
        with tempfile.NamedTemporaryFile(prefix="doxa-") as plain, packing.sink(place, name) as file:
            write_file(Path(plain.name))
            shutil.copyfileobj(plain, file)
    else:
        write_file(place)


def _short(fault: Exception) -> str:
    return str(fault).partition("\n")[0][:120]
