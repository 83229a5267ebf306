"""Comma-separated values with quotes, as spreadsheets and data frames write them; other delimiters are detected."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path

import polars as pl

from doxa.data.columns import COLUMNS, TRIPLE, is_header, kind_of_fourth
from doxa.errors import BadFile
from doxa.formats import cells, packing
from doxa.formats.columns import columns_in_order, count_fields, match_columns
from doxa.formats.faults import NOT_UTF8, Faults
from doxa.formats.limits import refuse_above
from doxa.formats.options import Options
from doxa.formats.packing import Source

UNIT = "line"
HOLDS = COLUMNS

ROWS = 50_000
"""Rows per block."""

DELIMITERS = ",;\t|"

Row = tuple[int, list[str]]
"""A row and the line it ends on."""


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Frames with a line number and named columns, all text."""
    rows = _rows(source, options, faults)
    first = next(rows, None)
    if first is None:
        raise BadFile(f"{source.name}: the file is empty", "expected: head,relation,tail,mention,confidence")
    width = len(first[1])
    refuse_above(width, "DOXA_MAX_FIELDS", f"{source.name}, line 1: {width:,} fields")
    names = _names(first[1], source, options, faults)
    if not _has_header(first[1], options):
        rows = itertools.chain([first], rows)
    kept = (row for row in rows if _fits(row, width, faults))
    while block := list(itertools.islice(kept, ROWS)):
        lines, fields = zip(*block, strict=True)
        columns = list(zip(*fields, strict=True))
        yield pl.DataFrame(
            [pl.Series("line", lines, dtype=pl.Int64)]
            + [
                pl.Series(name, columns[int(column[1:])], dtype=pl.String).replace("", None)
                for column, name in names.items()
            ]
        )


def write(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    """A header is written unless `options.header` is no."""
    with packing.sink(place, name) as file:
        for number, table in enumerate(tables):
            table = cells.without_formulas(table) if options.formulas == "quote" else table
            header = number == 0 and options.header != "no"
            table.write_csv(file, separator=options.delimiter or ",", include_header=header)


def _rows(source: Source, options: Options, faults: Faults) -> Iterator[Row]:
    """The rows that are not empty; a fault of quoting or encoding ends the reading."""
    line = 0
    with source.stream(lines=True) as stream:
        text = TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            start = next(text, "")
            delimiter = options.delimiter or _delimiter(start)
            reader = csv.reader(itertools.chain([start], text), delimiter=delimiter, strict=True)
            for row in reader:
                line = reader.line_num
                if row:
                    yield line, row
        except csv.Error as fault:
            faults.report([line + 1], f"not a row of a CSV file ({fault})", fatal=True)
        except UnicodeDecodeError:
            faults.report([line + 1], "not UTF-8 text, here or soon after", NOT_UTF8, fatal=True)


def _delimiter(line: str) -> str:
    """The most frequent delimiter of the first line outside quotes."""
    unquoted = "".join(line.split('"')[::2])
    return max(DELIMITERS, key=unquoted.count)


def _fits(row: Row, width: int, faults: Faults) -> bool:
    line, fields = row
    if len(fields) != width:
        faults.report([line], f"{count_fields(len(fields))} where the first row has {width}")
        return False
    return True


def _has_header(first: list[str], options: Options) -> bool:
    auto = is_header(first) or "=" in options.columns
    return options.header == "yes" or (options.header == "auto" and auto)


def _names(first: list[str], source: Source, options: Options, faults: Faults) -> dict[str, str]:
    """Names for the columns c0, c1 …, from the first row or by the rule for files without a header."""
    where = f"{source.name}, line 1"
    if options.columns and "=" not in options.columns:
        return columns_in_order(options.columns, len(first), where)
    headings = [field.strip() for field in first]
    if _has_header(first, options):
        matched = match_columns(headings, where, options.columns)
        return {f"c{headings.index(heading)}": column for heading, column in matched.items()}
    names = list(TRIPLE)
    if len(first) == 4:
        again = _rows(source, options, Faults(source.name, "skip"))
        fourth = (row[3] for _, row in again if len(row) == 4)
        pieces = (pl.Series(list(itertools.islice(fourth, ROWS)), dtype=pl.String) for _ in itertools.count())
        names.append(kind_of_fourth(itertools.takewhile(len, pieces), source.name))
    elif len(first) == 5:
        names += ["mention", "confidence"]
    elif len(first) != 3:
        raise BadFile(
            f"{where}: {count_fields(len(first))} and no header that names them",
            "expected: head,relation,tail,mention,confidence (the last two optional)",
            'name them, for example columns="head,relation,tail,-,-,confidence"',
            remedy="columns",
        )
    return {f"c{number}": name for number, name in enumerate(names)}
