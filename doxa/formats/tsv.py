"""One belief per line, fields separated by TABs (or another character) and never quoted: the fastest format.

A header names the columns, in any order. Without a header, three columns are a triple. A fourth column that is a number
in every row is the label if all numbers are ±1, else the confidence. Any other fourth column is the mention. Five
columns are head, relation, tail, mention and confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.columns import COLUMNS, TRIPLE, is_header, kind_of_fourth
from doxa.errors import BadFile
from doxa.formats import cells, packing
from doxa.formats.columns import columns_in_order, count_fields, match_columns
from doxa.formats.faults import EXPECTED, NOT_UTF8, Faults
from doxa.formats.limits import refuse_above
from doxa.formats.options import Options
from doxa.formats.packing import Source

UNIT = "line"
HOLDS = COLUMNS

Ints = NDArray[np.int64]


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Frames with a line number and named columns, all text."""
    tables = name_columns(Fields(source, options.delimiter or "\t", faults), options)
    return map(cells.unescaped, tables) if options.escapes == "yes" else tables


def write(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    """With `options.header` auto, a header is written where reading needs it."""
    delimiter = options.delimiter or "\t"
    with packing.sink(place, name) as file:
        for number, table in enumerate(tables):
            table = cells.without_formulas(table) if options.formulas == "quote" else table
            table = cells.escaped(table) if options.escapes == "yes" else table
            for column in table.columns:
                if (
                    table[column].dtype == pl.String
                    and table[column].str.contains(f"[{_in_class(delimiter)}\n\r]").any()
                ):
                    what = "a TAB" if delimiter == "\t" else repr(delimiter)
                    raise BadFile(
                        f"{name}: a {column} holds {what} or a line break, which this format cannot carry",
                        "a .csv, .jsonl or .parquet file can; so can this one with the option escapes=yes",
                    )
            header = number == 0 and (options.header == "yes" or (options.header == "auto" and _needs_header(table)))
            table.write_csv(file, separator=delimiter, quote_style="never", include_header=header)


class Fields:
    """The lines of a file with the right number of fields, as columns c0, c1 … and the line number.

    The header or the first block decides the right number. `header` recognizes a header; the first `skip` lines are
    skipped; fewer than `least` fields are an error.
    """

    def __init__(
        self,
        source: Source,
        delimiter: str,
        faults: Faults,
        header: Callable[[list[str]], bool] = is_header,
        least: int = 3,
        skip: int = 0,
    ) -> None:
        self.source, self.delimiter, self.faults, self.header = source, delimiter, faults, header
        self.least, self.skip = least, skip
        self._width, self._reason = 0, ""

    def again(self) -> Fields:
        """The same file from its start, without counting faults."""
        faults = Faults(self.source.name, "skip")
        return Fields(self.source, self.delimiter, faults, self.header, self.least, self.skip)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        lines_before, empty = 0, True
        for data in self.source.texts():
            buffer = np.frombuffer(data, np.uint8)
            ends = np.flatnonzero(buffer == ord("\n"))
            if buffer[-1] != ord("\n"):
                ends = np.append(ends, len(buffer))
            starts = np.concatenate([[0], ends[:-1] + 1])
            widths = ends - starts
            blank = (widths == 0) | ((widths == 1) & (buffer[np.minimum(starts, len(buffer) - 1)] == ord("\r")))
            if lines_before < self.skip:
                blank[: self.skip - lines_before] = True
            if not blank.all():
                empty = False
                yield self._split(data, starts, ends, blank, lines_before)
            lines_before += len(ends)
        if empty:
            raise BadFile(f"{self.source.name}: the file is empty", EXPECTED)

    def _split(self, data: bytes, starts: Ints, ends: Ints, blank: NDArray[np.bool_], before: int) -> pl.DataFrame:
        buffer = np.frombuffer(data, np.uint8)
        fields = np.diff(np.searchsorted(np.flatnonzero(buffer == ord(self.delimiter)), ends), prepend=0) + 1
        if not self._width:
            self._decide_width(data, starts, ends, blank, fields, before)
        wrong = ~blank & (fields != self._width)
        if wrong.any():
            message = f"{count_fields(int(fields[np.argmax(wrong)]))} where {self._reason} {self._width}"
            self.faults.report(np.flatnonzero(wrong) + before + 1, message, EXPECTED)
        kept = np.flatnonzero(~blank & ~wrong)
        if len(kept) < len(ends):
            data = b"\n".join([data[starts[line] : ends[line]] for line in kept])
        try:
            table = self._columns(data)
        except pl.exceptions.ComputeError:
            rows = data.split(b"\n")[: len(kept)]
            good = np.array([_is_utf8(row) for row in rows])
            self.faults.report(kept[~good] + before + 1, "not UTF-8 text", NOT_UTF8)
            kept = kept[good]
            table = self._columns(b"\n".join([row for row, fine in zip(rows, good, strict=True) if fine]))
        return table.with_columns(pl.Series("line", kept + before + 1, dtype=pl.Int64))

    def _decide_width(
        self, data: bytes, starts: Ints, ends: Ints, blank: NDArray[np.bool_], fields: Ints, before: int
    ) -> None:
        """The number of fields per line: that of the header, or of most lines of the first block."""
        first = int(np.argmin(blank))
        self._width, self._reason = int(fields[first]), "the header names"
        where = f"{self.source.name}, line {before + first + 1}"
        refuse_above(int(fields[~blank].max()), "DOXA_MAX_FIELDS", f"{where} or after: {int(fields.max()):,} fields")
        start = data[starts[first] : ends[first]].decode(errors="replace")
        if not self.header(start.rstrip("\r").split(self.delimiter)):
            counts = np.bincount(fields[~blank])
            self._width = self._width if counts[self._width] == counts.max() else int(counts.argmax())
            self._reason = "other lines have"
        if self._width < self.least:
            hint = (EXPECTED,) if self.delimiter == "\t" else ()
            raise BadFile(f"{where}: {count_fields(self._width)}", *hint)

    def _columns(self, data: bytes) -> pl.DataFrame:
        schema = {f"c{number}": pl.String for number in range(self._width)}
        if not data:
            return pl.DataFrame(schema=schema)
        return pl.read_csv(
            data, separator=self.delimiter, quote_char=None, has_header=False, infer_schema=False, schema=schema
        )


def name_columns(tables: Fields, options: Options) -> Iterator[pl.DataFrame]:
    """The same frames with the columns named."""
    names: dict[str, str] = {}
    for table in tables:
        if not names:
            names, table = _names(table, tables, options)
        yield table.select("line", *names).rename(names)


def _names(table: pl.DataFrame, tables: Fields, options: Options) -> tuple[dict[str, str], pl.DataFrame]:
    """Names for the columns c0, c1 …, from the header or by the rule for files without one; and the rows of beliefs."""
    columns = table.drop("line")
    name = tables.source.name
    first = [(field or "").strip() for field in columns.row(0)] if len(columns) else []
    renaming = "=" in options.columns
    header = options.header == "yes" or (options.header == "auto" and (is_header(first) or renaming))
    rows = table.slice(1) if header else table
    if options.columns and not renaming:
        return columns_in_order(options.columns, columns.width, f"{name}, line 1"), rows
    if header:
        matched = match_columns(first, f"{name}, line 1", options.columns)
        return {f"c{first.index(heading)}": column for heading, column in matched.items()}, rows
    if columns.width > 5:
        raise BadFile(
            f"{name}, line 1: {columns.width} fields and no header that names them", EXPECTED,
            'name them, for example columns="head,relation,tail,-,-,confidence"', remedy="columns",
        )  # fmt: skip
    names = list(TRIPLE)
    if columns.width == 4:
        kind = kind_of_fourth((other["c3"] for other in tables.again()), name)
        names.append(kind)
    elif columns.width == 5:
        names += ["mention", "confidence"]
    return {f"c{number}": name for number, name in enumerate(names)}, rows


def _needs_header(table: pl.DataFrame) -> bool:
    """Whether there are columns beyond the triple, or a first row that reads like a header."""
    return table.columns != list(TRIPLE) or (len(table) > 0 and is_header(table.row(0)))


def _in_class(character: str) -> str:
    return f"\\{character}" if not character.isalnum() else character


def _is_utf8(row: bytes) -> bool:
    try:
        row.decode()
    except UnicodeDecodeError:
        return False
    return True
