"""Read a table with headings as doxa or a spreadsheet writes it: TSV or CSV, plain or compressed.

The content decides, not the ending of the name: the separator is the most frequent one of the first line, and the
encoding follows from the byte order mark. Blank rows are skipped, because spreadsheets add them. Rows may lack their
last cells, which spreadsheets leave out where they are empty.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from doxa.errors import BadFile
from doxa.formats import packing
from doxa.formats.csv import DELIMITERS
from doxa.formats.limits import refuse_above

QUOTED_CELL = re.compile(r'(?<![^\t\r\n])"((?:[^"]|"")*)"(?![^\t\r\n])')
"""A whole cell of a TSV file in quotes; quotes inside are doubled."""

SIGNATURES = {b"PK\x03\x04": "a spreadsheet or an archive", b"\xd0\xcf\x11\xe0": "a spreadsheet", b"PAR1": "Parquet"}
"""First bytes of files that are no text."""

Row = tuple[int, list[str]]
"""The line that a row begins on, and its cells."""


def read(path: Path) -> pl.DataFrame:
    """The rows of a table as text: the column `line`, the line each row begins on, and one column per heading.

    Headings are in lower case, without blanks around them. Empty cells are empty texts.
    """
    rows = _rows(_text(path), path)
    _, first = next(rows, (1, []))
    refuse_above(len(first), "DOXA_MAX_FIELDS", f"{path}, line 1: {len(first):,} fields")
    headings = [heading.strip().lower() for heading in first]
    repeated = [heading for heading, count in Counter(headings).items() if heading and count > 1]
    if repeated:
        raise BadFile(f"{path}: the first line names the column {repeated[0]!r} twice")
    lines: list[int] = []
    cells: list[list[str]] = []
    for line, row in rows:
        if any(cell.strip() for cell in row[len(headings) :]):
            raise BadFile(f"{path}, line {line}: {len(row)} cells where the first line has {len(headings)}")
        lines.append(line)
        cells.append([*row[: len(headings)], *[""] * (len(headings) - len(row))])
    columns = list(zip(*cells, strict=True)) if cells else [()] * len(headings)
    named = {heading: column for heading, column in zip(headings, columns, strict=True) if heading not in ("", "line")}
    schema = dict.fromkeys(named, pl.String)
    return pl.DataFrame(named, schema=schema).insert_column(0, pl.Series("line", lines, dtype=pl.Int64))


def _text(path: Path) -> str:
    """The unpacked content as text without a byte order mark."""
    with packing.source(path) as source:
        content = b"".join(source.pieces())
        for signature, kind in SIGNATURES.items():
            if content.startswith(signature):
                raise BadFile(f"{source.name}: this is {kind}, not a text file", "save it as CSV in UTF-8")
        utf16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        try:
            return content.decode("utf-16" if utf16 else "utf-8-sig")
        except UnicodeDecodeError as fault:
            line = content.count(b"\n", 0, fault.start) + 1
            raise BadFile(f"{source.name}, line {line}: not UTF-8 text", "save it as CSV in UTF-8") from None


def _rows(text: str, path: Path) -> Iterator[Row]:
    """The rows that are not blank."""
    start = "".join(text.partition("\n")[0].split('"')[::2])
    delimiter = max(DELIMITERS, key=start.count)
    content = io.StringIO(text, newline="")
    if delimiter == "\t" and not _has_quoted_cells(text):
        reader = csv.reader(content, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(content, delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as fault:
        raise BadFile(f"{path}, line {line}: not a row of a CSV file ({fault})") from None


def _has_quoted_cells(text: str) -> bool:
    """Whether a TSV file has cells in quotes, as spreadsheets write them, and not only names with quotes, as doxa does.

    Spreadsheets put all cells in quotes, or those that hold a quote, a separator or (Excel, with CRLF) a comma.
    """
    if text.startswith('"'):
        return True
    needs_quotes = re.compile(r'[",\t\r\n]' if "\r\n" in text else r'["\t\r\n]')
    cells = QUOTED_CELL.findall(text)
    return '"' not in QUOTED_CELL.sub("", text) and all(map(needs_quotes.search, cells))
