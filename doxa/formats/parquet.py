"""Parquet: columns head, relation, tail and optionally mention, confidence, label.

A damaged file can end the process that decodes it. So a separate process decodes the file first (`parquet_check`), and
this one reads only a file that passed.
"""

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
from doxa.formats.limits import LIMITS, SHORTEST, limit, refuse_expansion
from doxa.formats.options import Options
from doxa.formats.packing import Source
from doxa.formats.parquet_check import ROWS
from doxa.formats.parquet_checker import checker

UNIT = "row"
HOLDS = COLUMNS

TEXTS = ("head", "relation", "tail", "mention")

MAGIC = b"PAR1"

MEMORY, MEMORY_PER_BYTE = 2**30, 20
"""Bytes that the checking process may use: at least, and more per byte of the file."""

SECONDS, BYTES_PER_SECOND = 60, 2**20
"""Time that the checking process may take: at least, and more for large files."""


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Frames with a row number and named columns; names and mentions are cast to text."""
    if source.path.is_dir() or not source.path.exists():
        next(source.pieces())
    with packing.unpacked(source) as path:
        names, rows = _checked(path, source.name, options)
        wanted = pl.scan_parquet(path, glob=False).select(
            pl.col(heading).cast(pl.String).replace("", None).alias(column)
            if column in TEXTS
            else pl.col(heading).alias(column)
            for heading, column in names.items()
        )
        start = 0
        try:
            for batch in wanted.collect_batches(maintain_order=True, chunk_size=ROWS):
                numbers = pl.Series("line", range(start + 1, start + len(batch) + 1), dtype=pl.Int64)
                start += len(batch)
                yield batch.insert_column(0, numbers)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as fault:
            raise BadFile(f"{source.name}, row {start + 1} or after: not readable ({_short(fault)})") from None
        if start != rows:
            raise BadFile(f"{source.name}: {start:,} rows where the file names {rows:,}: it changed or is damaged")


def _checked(path: Path, name: str, options: Options) -> tuple[dict[str, str], int]:
    """The column of each heading and the number of rows, after a separate process has decoded all of them."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(-min(4, size), 2)
        if start != MAGIC or file.read() != MAGIC:
            raise BadFile(f"{name}: not a whole Parquet file ({MAGIC.decode()} does not begin and end it)")
    memory = MEMORY + MEMORY_PER_BYTE * size * limit("DOXA_MAX_RATIO") // LIMITS["DOXA_MAX_RATIO"]
    with checker(name, SECONDS + size / BYTES_PER_SECOND) as ask:
        head = ask([str(path.resolve()), memory])
        matched = match_columns(list(head["columns"]), name, options.columns)
        for heading, column in matched.items():
            if heading in head["nested"]:
                expected = "text" if column in TEXTS else "numbers"
                raise BadFile(f"{name}: the column {heading} holds {head['columns'][heading]}; expected {expected}")
        refuse_expansion(head["rows"] * SHORTEST, size, name)
        texts = [heading for heading, column in matched.items() if column in TEXTS]
        decoded = ask([texts, [heading for heading in matched if heading not in texts]])["decoded"]
    if decoded != head["rows"]:
        raise BadFile(f"{name}: not a whole Parquet file (rows are missing)")
    return matched, int(decoded)


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


def _short(fault: BaseException) -> str:
    return str(fault).partition("\n")[0][:120]
