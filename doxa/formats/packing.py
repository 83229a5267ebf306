"""Read and write bytes: plain, .gz, .zst, standard input and output."""

from __future__ import annotations

import contextlib
import gzip
import io
import shutil
import signal
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, BinaryIO, cast

import zstandard

from doxa.errors import BadFile
from doxa.formats.limits import refuse_above, refuse_expansion

BLOCK = 8 * 2**20
"""Bytes of text per block."""

PACKED = 2**12
"""Compressed bytes of Zstandard unpacked at a time: few, because each four may expand to 128 KB."""

PIECE = 2**20
"""Unpacked bytes of Zstandard handed on at a time."""

STANDARD = "-"
"""The name of standard input and standard output."""

PACKINGS = (".gz", ".zst")


@dataclass(frozen=True)
class Source:
    """A file to read: its path, and its name in messages."""

    path: Path
    name: str

    def pieces(self) -> Iterator[bytes]:
        """The unpacked content, piece by piece."""
        if self.path.is_dir():
            raise BadFile(f"{self.name} is a folder; expected a file of beliefs")
        try:
            with self.path.open("rb") as file:
                yield from _pieces(self, file)
        except FileNotFoundError:
            raise BadFile(f"no file {self.name}") from None
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as fault:
            raise BadFile(f"{self.name}: not a whole compressed file ({fault})") from None
        except OSError as fault:
            raise BadFile(f"cannot read {self.name}: {fault.strerror or fault}") from None

    def texts(self) -> Iterator[bytes]:
        """The unpacked content in blocks of whole lines, without a byte order mark."""
        pending: list[bytes] = []
        size = 0
        for number, piece in enumerate(self.pieces()):
            pending.append(piece.removeprefix(b"\xef\xbb\xbf") if number == 0 else piece)
            size += len(piece)
            if size >= BLOCK:
                text = b"".join(pending)
                end = text.rfind(b"\n") + 1
                if end:
                    yield text[:end]
                pending = [text[end:]]
                size = len(pending[0])
                self._refuse_line(size)
        if any(pending):
            yield b"".join(pending)

    def stream(self, lines: bool = False) -> BinaryIO:
        """The unpacked content as a file to read from; with `lines`, the length of its lines is bounded."""
        return io.BufferedReader(_Pieces(self._in_lines() if lines else self.pieces()), BLOCK)

    def _in_lines(self) -> Iterator[bytes]:
        size = 0
        for piece in self.pieces():
            end = piece.rfind(b"\n") + 1
            size = len(piece) - end if end else size + len(piece)
            self._refuse_line(size)
            yield piece

    def _refuse_line(self, size: int) -> None:
        refuse_above(size, "DOXA_MAX_LINE", f"{self.name}: a line of more than {size:,} bytes")

    def contains(self, *words: bytes) -> list[bool]:
        """For each word, whether it occurs anywhere in the unpacked content."""
        present, end = [False] * len(words), b""
        longest = max(map(len, words))
        for piece in self.pieces():
            text = end + piece
            present = [before or word in text for before, word in zip(present, words, strict=True)]
            if all(present):
                break
            end = text[-longest:]
        return present


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a raw file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


@contextlib.contextmanager
def source(path: str | Path) -> Iterator[Source]:
    """A file that can be read repeatedly; standard input is copied to a temporary file."""
    _let_interrupt()
    if str(path) != STANDARD:
        yield Source(Path(path), str(path))
        return
    if sys.stdin is None:
        raise BadFile("cannot read standard input: it is closed")
    with tempfile.NamedTemporaryFile(prefix="doxa-") as kept:
        try:
            shutil.copyfileobj(sys.stdin.buffer, kept, BLOCK)
        except OSError as fault:
            raise BadFile(f"cannot read standard input: {fault.strerror or fault}") from None
        kept.flush()
        yield Source(Path(kept.name), "standard input")


def _let_interrupt() -> None:
    """Let Ctrl-C end the reading of a pipe or terminal; the import of polars makes such reads go on."""
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)


@contextlib.contextmanager
def unpacked(origin: Source) -> Iterator[Path]:
    """The file itself if it and its path are plain, else an unpacked copy, for readers that need random access."""
    if _is_plain(origin.path):
        yield origin.path
        return
    with tempfile.NamedTemporaryFile(prefix="doxa-") as copy:
        for piece in origin.pieces():
            copy.write(piece)
        copy.flush()
        yield Path(copy.name)


def _is_plain(path: Path) -> bool:
    """Whether a file is not compressed and has a path of text; a file that cannot be read is not."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return path.suffix not in PACKINGS and file.peek(4)[:4] != b"\x28\xb5\x2f\xfd" and _is_text(str(path))
    return False


@contextlib.contextmanager
def sink(place: Path, name: str) -> Iterator[IO[bytes]]:
    """A file to write to at `place`, compressed as the ending of `name` says."""
    with place.open("wb") as file:
        if name.endswith(".gz"):
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        elif name.endswith(".zst"):
            with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packing:
                yield packing
        else:
            yield file


def _is_text(path: str) -> bool:
    """Whether a path is UTF-8, as polars expects it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Counted:
    """A file that counts the bytes read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.count = file, 0

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self.count += len(piece)
        return piece


def _pieces(source: Source, file: BinaryIO) -> Iterator[bytes]:
    """Pieces of the unpacked content; the ending or the first bytes show the compression."""
    start = file.peek(4) if isinstance(file, BufferedReader) else b""
    counted = _Counted(file)
    if source.path.suffix == ".gz" or start.startswith(b"\x1f\x8b"):
        unpacked = _members(counted)
    elif source.path.suffix == ".zst" or start.startswith(b"\x28\xb5\x2f\xfd"):
        unpacked = _frames(counted)
    else:
        yield from iter(partial(file.read, BLOCK), b"")
        return
    total = 0
    for piece in unpacked:
        total += len(piece)
        refuse_expansion(total, counted.count, source.name)
        yield piece


def _members(file: _Counted) -> Iterator[bytes]:
    """The content of a gzip file."""
    with gzip.open(cast(BinaryIO, file)) as packed:
        yield from iter(partial(packed.read, BLOCK), b"")


def _frames(file: _Counted) -> Iterator[bytes]:
    """All frames of a Zstandard file."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    begun, ready, size = False, [], 0
    for packed in iter(partial(file.read, PACKED), b""):
        while packed:
            ready.append(frame.decompress(packed))
            size += len(ready[-1])
            packed, begun = frame.unused_data, not frame.eof
            if frame.eof:
                frame = zstandard.ZstdDecompressor().decompressobj()
        if size >= PIECE:
            yield b"".join(ready)
            ready, size = [], 0
    if size:
        yield b"".join(ready)
    if begun:
        raise EOFError("the end is missing")
