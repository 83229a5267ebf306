"""TAB-separated beliefs: head relation tail [mention] [confidence], plain, .gz or .zst."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import zstandard
from numpy.typing import NDArray

from doxa.errors import DoxaError, one_of
from doxa.files.atomic import written

log = logging.getLogger(__name__)

COLUMNS = ("head", "relation", "tail", "mention", "confidence", "label")
EXPECTED = "expected: head <TAB> relation <TAB> tail <TAB> mention <TAB> confidence (the last two optional)"
SKIPPING = "to skip such lines and count them, pass --on-error skip"

OnError = Literal["raise", "skip"]


def read(path: str | Path, on_error: OnError = "raise") -> pl.DataFrame:
    """The beliefs of a file as a table, with the line each stands on.

    With a header the columns are named, in any order. Without one, three columns are a triple; a fourth that is
    a number in every row is the label if all are ±1 and the confidence otherwise; any other fourth column is the
    mention; five columns are all. A faulty line is an error, or with `on_error="skip"` is left out and counted.
    """
    path = Path(path)
    one_of("on_error", on_error, ("raise", "skip"))
    source = _Source(path, _content(path), on_error)
    table = source.table()
    table = _named(path, table)
    table = _typed(table, source)
    if source.faults:
        line, message = min(source.faults.items())
        log.warning("%s: skipped %d of %d lines (line %d: %s)", path.name, len(source.faults),
                    len(source.faults) + len(table), line, message)  # fmt: skip
    if not len(table):
        raise DoxaError(f"{path}: no belief in this file", EXPECTED)
    return table


def write(tables: pl.DataFrame | Iterable[pl.DataFrame], path: str | Path) -> None:
    """Write a table of beliefs, or several of the same columns one after the other, all or nothing.

    A header is added when there is more than the triple.
    """
    path = Path(path)
    compression: Literal["gzip", "zstd", "uncompressed"] = (
        "gzip" if path.suffix == ".gz" else "zstd" if path.suffix == ".zst" else "uncompressed"
    )
    with written(path) as unfinished, unfinished.open("wb") as file:
        for number, table in enumerate([tables] if isinstance(tables, pl.DataFrame) else tables):
            table = table.drop("line", strict=False)
            for column in table.columns:
                if table[column].dtype == pl.String and table[column].str.contains(r"[\t\n\r]").any():
                    raise DoxaError(f"{path}: a {column} holds a TAB or line break, which a TSV file cannot carry")
            table.write_csv(
                file,
                separator="\t",
                quote_style="never",
                include_header=number == 0 and table.columns != ["head", "relation", "tail"],
                compression=compression,
                check_extension=False,
            )


@dataclass
class _Source:
    """The bytes of a file by line, and the faults found in them so far."""

    path: Path
    data: bytes
    on_error: OnError
    faults: dict[int, str] = field(default_factory=dict)

    def fault(self, lines: NDArray[np.int64], message: str, *hints: str) -> None:
        """Report faulty lines (numbered from 1): raise for the first, or note them all when skipping."""
        if not len(lines):
            return
        if self.on_error == "raise":
            raise DoxaError(f"{self.path}, line {int(lines[0])}: {message}", *hints, SKIPPING)
        self.faults.update(dict.fromkeys((int(line) for line in lines), message))

    def table(self) -> pl.DataFrame:
        """Lines that have as many fields as the first, split into columns c0, c1 …, with their numbers."""
        buffer = np.frombuffer(self.data, np.uint8)
        ends = np.flatnonzero(buffer == ord("\n"))
        if len(buffer) and buffer[-1] != ord("\n"):
            ends = np.append(ends, len(buffer))
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        widths = ends - starts
        blank = (widths == 0) | ((widths == 1) & (buffer[np.minimum(starts, len(buffer) - 1)] == ord("\r")))
        if blank.all():
            raise DoxaError(f"{self.path}: the file is empty", EXPECTED)
        tabs = np.searchsorted(np.flatnonzero(buffer == ord("\t")), ends)
        fields = np.diff(tabs, prepend=0) + 1
        first = int(np.argmin(blank))
        wanted, why = int(fields[first]), "the header names"
        if not _is_header(self.data[starts[first] : ends[first]].split(b"\t")):
            counts = np.bincount(fields[~blank])
            wanted, why = wanted if counts[wanted] == counts.max() else int(counts.argmax()), "other lines have"
        if wanted < 3:
            raise DoxaError(f"{self.path}, line {first + 1}: {_fields(wanted)}", EXPECTED)
        wrong = ~blank & (fields != wanted)
        if wrong.any():
            found = int(fields[np.argmax(wrong)])
            self.fault(np.flatnonzero(wrong) + 1, f"{_fields(found)} where {why} {wanted}", EXPECTED)
        kept = np.flatnonzero(~blank & ~wrong)
        if len(kept) < len(ends):
            self.data = b"\n".join([self.data[starts[line] : ends[line]] for line in kept])
        try:
            table = _split(self.data, wanted)
        except pl.exceptions.ComputeError:
            kept = self._readable(kept)
            table = _split(self.data, wanted)
        return table.with_columns(pl.Series("line", kept + 1))

    def _readable(self, lines: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out the lines that are not UTF-8."""
        rows = self.data.split(b"\n")[: len(lines)]
        good = np.array([_is_utf8(row) for row in rows])
        self.fault(lines[~good] + 1, "not UTF-8 text", "convert the file, e.g. `iconv -f latin1 -t utf-8`")
        self.data = b"\n".join([row for row, fine in zip(rows, good, strict=True) if fine])
        kept: NDArray[np.int64] = lines[good]
        return kept


def _content(path: Path) -> bytes:
    if path.is_dir():
        raise DoxaError(f"{path} is a folder; expected a file of beliefs")
    try:
        data = path.read_bytes()
        if path.suffix == ".gz" or data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        elif path.suffix == ".zst" or data.startswith(b"\x28\xb5\x2f\xfd"):
            data = _unpacked(data)
    except FileNotFoundError:
        raise DoxaError(f"no file {path}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as fault:
        raise DoxaError(f"{path}: not a whole compressed file ({fault})") from None
    except OSError as fault:
        raise DoxaError(f"cannot read {path}: {fault.strerror}") from None
    return data.removeprefix(b"\xef\xbb\xbf")


def _unpacked(data: bytes) -> bytes:
    """All frames of a Zstandard file."""
    frames = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        frames.append(frame.decompress(data))
        if not frame.eof:
            raise EOFError("the end is missing")
        data = frame.unused_data
    return b"".join(frames)


def _split(data: bytes, columns: int) -> pl.DataFrame:
    schema = {f"c{number}": pl.String for number in range(columns)}
    if not data:
        return pl.DataFrame(schema=schema)
    return pl.read_csv(data, separator="\t", quote_char=None, has_header=False, infer_schema=False, schema=schema)


def _is_header(names: list[bytes]) -> bool:
    return {b"head", b"relation", b"tail"} <= {name.strip().lower() for name in names}


def _fields(count: int) -> str:
    return f"{count} field{'s'[: count != 1]}"


def _is_utf8(row: bytes) -> bool:
    try:
        row.decode()
    except UnicodeDecodeError:
        return False
    return True


def _named(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    """Give the columns their names: from the header, or by the rule for files without one."""
    columns = table.drop("line")
    first = [(name or "").strip().lower() for name in columns.row(0)] if len(columns) else []
    if _is_header([name.encode() for name in first]):
        return _named_by_header(path, table, first)
    if columns.width > 5:
        raise DoxaError(f"{path}, line 1: {columns.width} fields and no header that names them", EXPECTED)
    names = ["head", "relation", "tail"]
    if columns.width == 4:
        names.append(_kind_of_fourth(path, columns["c3"]))
    elif columns.width == 5:
        names += ["mention", "confidence"]
    return table.rename({f"c{number}": name for number, name in enumerate(names)})


def _named_by_header(path: Path, table: pl.DataFrame, header: list[str]) -> pl.DataFrame:
    known = [name for name in header if name in COLUMNS]
    if len(set(known)) < len(known):
        raise DoxaError(f"{path}, line 1: the header names a column twice ({', '.join(header)})")
    ignored = [name for name in header if name not in COLUMNS]
    if ignored:
        log.warning("%s: ignoring column%s %s", path.name, "s"[: len(ignored) != 1], ", ".join(ignored))
    places = {f"c{number}": name for number, name in enumerate(header) if name in COLUMNS}
    return table.slice(1).select("line", *places).rename(places)


def _kind_of_fourth(path: Path, column: pl.Series) -> str:
    numbers = column.cast(pl.Float64, strict=False)
    strange = numbers.null_count()
    if strange == 0:
        return "label" if (numbers.abs() == 1).all() else "confidence"
    if strange <= 0.1 * len(column):
        log.warning("%s: the fourth column is a number in all but %d rows, so it is read as the mention; "
                    "if it is the confidence, name the columns in a header", path.name, strange)  # fmt: skip
    return "mention"


def _typed(table: pl.DataFrame, source: _Source) -> pl.DataFrame:
    """Check every column and turn confidence and label into numbers; faulty rows are reported or dropped."""
    good = pl.repeat(True, len(table), eager=True)

    def require(passed: pl.Series, message: str, *hints: str) -> None:
        nonlocal good
        source.fault(table["line"].filter(~passed).to_numpy(), message, *hints)
        good &= passed

    for name in ("head", "relation", "tail"):
        require(table[name].is_not_null(), f"the {name} is empty", EXPECTED)
    if "confidence" in table.columns:
        given, number = table["confidence"], table["confidence"].cast(pl.Float64, strict=False)
        passed = given.is_null() | ((number > 0) & (number <= 1)).fill_null(False)
        require(passed, f"the confidence is {_first(given, ~passed)}; expected a number above 0 and at most 1")
        table = table.with_columns(number)
    if "label" in table.columns:
        given, number = table["label"], table["label"].cast(pl.Float64, strict=False)
        passed = (number.abs() == 1).fill_null(False)
        require(passed, f"the label is {_first(given, ~passed)}; expected 1 (true) or -1 (false)")
        table = table.with_columns(number.cast(pl.Int8, strict=False))
    return table.filter(good)


def _first(column: pl.Series, chosen: pl.Series) -> str:
    found = column.filter(chosen)
    return repr(found[0]) if len(found) else ""
