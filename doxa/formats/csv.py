"""Comma-separated values, with quotes: what spreadsheets and data frames write. Other delimiters are found as well."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path

import polars as pl

from doxa.errors import DoxaError
from doxa.formats import packing
from doxa.formats.columns import COLUMNS, TRIPLE, chosen, is_header
from doxa.formats.faults import Faults
from doxa.formats.options import Options
from doxa.formats.packing import Source
from doxa.formats.tsv import in_order, kind_of_fourth

UNIT = "line"
HOLDS = COLUMNS

ROWS = 50_000
"""Rows held at a time."""

DELIMITERS = ",;\t|"

Row = tuple[int, list[str]]
"""A row and the line it ends on."""


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Tables with a line number and named columns, all still text."""
    rows = _rows(source, options, faults)
    first = next(rows, None)
    if first is None:
        raise DoxaError(f"{source.name}: the file is empty", "expected: head,relation,tail,mention,confidence")
    width = len(first[1])
    names = _names(first[1], source, options, faults)
    if not (options.header == "yes" or (options.header == "auto" and (is_header(first[1]) or "=" in options.columns))):
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
    """With a header, unless told otherwise."""
    with packing.sink(place, name) as file:
        for number, table in enumerate(tables):
            include = number == 0 and options.header != "no"
            table.write_csv(file, separator=options.delimiter or ",", include_header=include)


def _rows(source: Source, options: Options, faults: Faults) -> Iterator[Row]:
    """Every row that is not empty; a fault of quoting or encoding ends the reading."""
    line = 0
    with source.stream() as stream:
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
            hint = "convert the file, e.g. `iconv -f latin1 -t utf-8`"
            faults.report([line + 1], "not UTF-8 text, here or soon after", hint, fatal=True)


def _delimiter(line: str) -> str:
    """The character that parts the fields of the first line: the one it holds most of, outside quotes."""
    bare = "".join(line.split('"')[::2])
    return max(DELIMITERS, key=bare.count)


def _fits(row: Row, width: int, faults: Faults) -> bool:
    line, fields = row
    if len(fields) != width:
        found = f"{len(fields)} field{'s'[: len(fields) != 1]} where the first row has {width}"
        faults.report([line], found)
        return False
    return True


def _names(first: list[str], source: Source, options: Options, faults: Faults) -> dict[str, str]:
    """Vocabularies for the columns c0, c1 …, from the first row or by the rule for files without a header."""
    where = f"{source.name}, line 1"
    if options.columns and "=" not in options.columns:
        return in_order(options.columns, len(first), where)
    headings = [field.strip() for field in first]
    if options.header == "yes" or (options.header == "auto" and (is_header(first) or options.columns)):
        found = chosen(headings, where, options.columns)
        return {f"c{headings.index(theirs)}": ours for theirs, ours in found.items()}
    names = list(TRIPLE)
    if len(first) == 4:
        again = _rows(source, options, Faults(source.name, "skip"))
        fourth = (row[3] for _, row in again if len(row) == 4)
        pieces = (pl.Series(list(itertools.islice(fourth, ROWS)), dtype=pl.String) for _ in itertools.count())
        names.append(kind_of_fourth(itertools.takewhile(len, pieces), source.name))
    elif len(first) == 5:
        names += ["mention", "confidence"]
    elif len(first) != 3:
        raise DoxaError(
            f"{where}: {len(first)} field{'s'[: len(first) != 1]} and no header that names them",
            "expected: head,relation,tail,mention,confidence (the last two optional)",
            "name them, for example: --read columns=head,relation,tail,-,-,confidence",
        )
    return {f"c{number}": name for number, name in enumerate(names)}
