"""TAB-separated beliefs: head relation tail [mention] [confidence], plain, .gz or .zst."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Literal

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

BLOCK = 8 * 2**20
"""Bytes of text held at a time."""

PACKED = 2**16
"""Bytes unpacked at a time: few, since they may hold a hundred times as much text."""


def read(path: str | Path, on_error: OnError = "raise", refuted: bool = False) -> pl.DataFrame:
    """The beliefs of a file as one table, with the line each stands on; see `blocks`."""
    return pl.concat(list(blocks(path, on_error, refuted)))


def blocks(path: str | Path, on_error: OnError = "raise", refuted: bool = False) -> Iterator[pl.DataFrame]:
    """The beliefs of a file as tables, one after the other, with the line each stands on.

    With a header the columns are named, in any order. Without one, three columns are a triple; a fourth that is
    a number in every row is the label if all are ±1 and the confidence otherwise; any other fourth column is the
    mention; five columns are all. A faulty line is an error, or with `on_error="skip"` is left out and counted.
    A confidence is above 0; `refuted` lets 0 pass too, for files to measure with that hold falsehoods.
    """
    one_of("on_error", on_error, ("raise", "skip"))
    reader = _Reader(Path(path), on_error, refuted)
    count = 0
    for table in reader.tables():
        found = reader.typed(table)
        count += len(found)
        if len(found):
            yield found
    if reader.faulty:
        line, message = reader.first_fault
        log.warning("%s: skipped %d of %d lines (line %d: %s)", reader.path.name, reader.faulty,
                    reader.faulty + count, line, message)  # fmt: skip
    if not count:
        raise DoxaError(f"{path}: no belief in this file", EXPECTED)


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


class _Reader:
    """Reads a file block by block; what its columns are is settled by its first block, and faults are counted."""

    def __init__(self, path: Path, on_error: OnError, refuted: bool = False) -> None:
        self.path, self.on_error, self.refuted = path, on_error, refuted
        self.faulty, self.first_fault = 0, (0, "")
        self._width, self._why = 0, ""

    def fault(self, lines: NDArray[np.int64], message: str, *hints: str) -> None:
        """Report faulty lines (numbered from 1): raise for the first, or count them all when skipping."""
        if not len(lines):
            return
        if self.on_error == "raise":
            raise DoxaError(f"{self.path}, line {int(lines[0])}: {message}", *hints, SKIPPING)
        if not self.faulty or lines[0] < self.first_fault[0]:
            self.first_fault = (int(lines[0]), message)
        self.faulty += len(lines)

    def tables(self) -> Iterator[pl.DataFrame]:
        """Tables with a line number and named columns, all still text."""
        names: dict[str, str] = {}
        for table in self._raw():
            first = not names
            if first:
                names, table = self._names(table)
            yield table.select("line", *names).rename(names)

    def _names(self, table: pl.DataFrame) -> tuple[dict[str, str], pl.DataFrame]:
        """Names for the columns c0, c1 …, from the header or by the rule for files without one; the rows of beliefs."""
        columns = table.drop("line")
        header = [(name or "").strip().lower() for name in columns.row(0)] if len(columns) else []
        if _is_header([name.encode() for name in header]):
            return self._named_by(header), table.slice(1)
        if columns.width > 5:
            raise DoxaError(f"{self.path}, line 1: {columns.width} fields and no header that names them", EXPECTED)
        names = ["head", "relation", "tail"]
        if columns.width == 4:
            names.append(self._kind_of_fourth())
        elif columns.width == 5:
            names += ["mention", "confidence"]
        return {f"c{number}": name for number, name in enumerate(names)}, table

    def _named_by(self, header: list[str]) -> dict[str, str]:
        known = [name for name in header if name in COLUMNS]
        if len(set(known)) < len(known):
            raise DoxaError(f"{self.path}, line 1: the header names a column twice ({', '.join(header)})")
        ignored = [name for name in header if name not in COLUMNS]
        if ignored:
            log.warning("%s: ignoring column%s %s", self.path.name, "s"[: len(ignored) != 1], ", ".join(ignored))
        return {f"c{number}": name for number, name in enumerate(header) if name in COLUMNS}

    def _kind_of_fourth(self) -> str:
        """What a fourth column without a name is, which every row of the file has a say in."""
        rows, strange, labels = 0, 0, True
        for table in _Reader(self.path, "skip")._raw():
            numbers = table["c3"].cast(pl.Float64, strict=False)
            rows, strange = rows + len(table), strange + numbers.null_count()
            labels &= bool((numbers.abs() == 1).all())
        if strange == 0:
            return "label" if labels else "confidence"
        if strange <= 0.1 * rows:
            log.warning("%s: the fourth column is a number in all but %d rows, so it is read as the mention; "
                        "if it is the confidence, name the columns in a header", self.path.name, strange)  # fmt: skip
        return "mention"

    def _raw(self) -> Iterator[pl.DataFrame]:
        """Lines that have the right number of fields, split into columns c0, c1 …, with their numbers."""
        lines_before, empty = 0, True
        for data in _texts(self.path):
            buffer = np.frombuffer(data, np.uint8)
            ends = np.flatnonzero(buffer == ord("\n"))
            if buffer[-1] != ord("\n"):
                ends = np.append(ends, len(buffer))
            starts = np.concatenate([[0], ends[:-1] + 1])
            widths = ends - starts
            blank = (widths == 0) | ((widths == 1) & (buffer[np.minimum(starts, len(buffer) - 1)] == ord("\r")))
            if not blank.all():
                empty = False
                yield self._split(data, starts, ends, blank, lines_before)
            lines_before += len(ends)
        if empty:
            raise DoxaError(f"{self.path}: the file is empty", EXPECTED)

    def _split(
        self, data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], blank: NDArray[np.bool_], before: int
    ) -> pl.DataFrame:
        buffer = np.frombuffer(data, np.uint8)
        fields = np.diff(np.searchsorted(np.flatnonzero(buffer == ord("\t")), ends), prepend=0) + 1
        if not self._width:
            self._settle_width(data, starts, ends, blank, fields, before)
        wrong = ~blank & (fields != self._width)
        if wrong.any():
            found = int(fields[np.argmax(wrong)])
            message = f"{_fields(found)} where {self._why} {self._width}"
            self.fault(np.flatnonzero(wrong) + before + 1, message, EXPECTED)
        kept = np.flatnonzero(~blank & ~wrong)
        if len(kept) < len(ends):
            data = b"\n".join([data[starts[line] : ends[line]] for line in kept])
        try:
            table = _columns(data, self._width)
        except pl.exceptions.ComputeError:
            rows = data.split(b"\n")[: len(kept)]
            good = np.array([_is_utf8(row) for row in rows])
            self.fault(kept[~good] + before + 1, "not UTF-8 text", "convert the file, e.g. `iconv -f latin1 -t utf-8`")
            kept = kept[good]
            table = _columns(b"\n".join([row for row, fine in zip(rows, good, strict=True) if fine]), self._width)
        return table.with_columns(pl.Series("line", kept + before + 1, dtype=pl.Int64))

    def _settle_width(
        self,
        data: bytes,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        blank: NDArray[np.bool_],
        fields: NDArray[np.int64],
        before: int,
    ) -> None:
        """How many fields a line has: as many as the header, or as most lines of the first block."""
        first = int(np.argmin(blank))
        self._width, self._why = int(fields[first]), "the header names"
        if not _is_header(data[starts[first] : ends[first]].split(b"\t")):
            counts = np.bincount(fields[~blank])
            self._width = self._width if counts[self._width] == counts.max() else int(counts.argmax())
            self._why = "other lines have"
        if self._width < 3:
            raise DoxaError(f"{self.path}, line {before + first + 1}: {_fields(self._width)}", EXPECTED)

    def typed(self, table: pl.DataFrame) -> pl.DataFrame:
        """Check every column and turn confidence and label into numbers; faulty rows are reported or dropped."""
        good = pl.repeat(True, len(table), eager=True)

        def require(passed: pl.Series, message: str, *hints: str) -> None:
            nonlocal good
            self.fault(table["line"].filter(~passed & good).to_numpy(), message, *hints)
            good &= passed

        for name in ("head", "relation", "tail"):
            require(table[name].is_not_null(), f"the {name} is empty", EXPECTED)
        if "confidence" in table.columns:
            given, number = table["confidence"], table["confidence"].cast(pl.Float64, strict=False)
            enough = number >= 0 if self.refuted else number > 0
            passed = given.is_null() | (enough & (number <= 1)).fill_null(False)
            wanted = "from 0 to 1" if self.refuted else "above 0 and at most 1"
            require(passed, f"the confidence is {_first(given, ~passed)}; expected a number {wanted}")
            table = table.with_columns(number)
        if "label" in table.columns:
            given, number = table["label"], table["label"].cast(pl.Float64, strict=False)
            passed = (number.abs() == 1).fill_null(False)
            require(passed, f"the label is {_first(given, ~passed)}; expected 1 (true) or -1 (false)")
            table = table.with_columns(number.cast(pl.Int8, strict=False))
        return table if good.all() else table.filter(good)


def _texts(path: Path) -> Iterator[bytes]:
    """The text of a file, unpacked if need be, in blocks of whole lines."""
    if path.is_dir():
        raise DoxaError(f"{path} is a folder; expected a file of beliefs")
    try:
        with path.open("rb") as file:
            held: list[bytes] = []
            for number, piece in enumerate(_pieces(path, file)):
                held.append(piece.removeprefix(b"\xef\xbb\xbf") if number == 0 else piece)
                if sum(map(len, held)) >= BLOCK:
                    text = b"".join(held)
                    end = text.rfind(b"\n") + 1
                    if end:
                        yield text[:end]
                    held = [text[end:]]
            if any(held):
                yield b"".join(held)
    except FileNotFoundError:
        raise DoxaError(f"no file {path}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as fault:
        raise DoxaError(f"{path}: not a whole compressed file ({fault})") from None
    except OSError as fault:
        raise DoxaError(f"cannot read {path}: {fault.strerror}") from None


def _pieces(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Pieces of the unpacked content; how it is packed is told by the ending or by the first bytes."""
    start = file.peek(4) if isinstance(file, BufferedReader) else b""
    if path.suffix == ".gz" or start.startswith(b"\x1f\x8b"):
        with gzip.open(file) as unpacked:
            yield from iter(partial(unpacked.read, BLOCK), b"")
    elif path.suffix == ".zst" or start.startswith(b"\x28\xb5\x2f\xfd"):
        yield from _unpacked(file)
    else:
        yield from iter(partial(file.read, BLOCK), b"")


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """All frames of a Zstandard file."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    begun = False
    for packed in iter(partial(file.read, PACKED), b""):
        while packed:
            yield frame.decompress(packed)
            packed, begun = frame.unused_data, not frame.eof
            if frame.eof:
                frame = zstandard.ZstdDecompressor().decompressobj()
    if begun:
        raise EOFError("the end is missing")


def _columns(data: bytes, columns: int) -> pl.DataFrame:
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


def _first(column: pl.Series, chosen: pl.Series) -> str:
    found = column.filter(chosen)
    return repr(found[0]) if len(found) else ""
