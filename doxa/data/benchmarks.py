"""Public benchmark sets by name: source, license, download and checksums.

A set is downloaded once into the cache folder (the platform's user cache, or $DOXA_CACHE) and checked; after that it
needs no network. An interrupted download resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import os
import shutil
import struct
import tomllib
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from doxa.data.atomic import reported, written, written_folder
from doxa.errors import BadFile, UnknownName, did_you_mean

LIST = Path(__file__).with_name("benchmarks.toml")
RECORD = "checksums.json"
"""In a set's folder: the SHA-256 of each file after the check."""

OLD_RECORD = "catalogue.json"
"""The name of the record in caches of earlier versions."""

PARTS = ("train", "valid", "test")
PIECE = 2**18
ELSEWHERE = "`url` can name another copy of the archive"
KEPT = "the part received is kept; the same call resumes from there"

FIRST = "first-checksums.json"
"""In the cache folder: the SHA-256 of each file at its first download, for sets whose list has only the MD5."""

MAX_LINE, MAX_BYTES = 1000, 2**32
"""Bytes that a file of unknown size may unpack to: per belief, and where their number is unknown too."""

DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, KeyError, EOFError, RuntimeError, ValueError)
"""Errors of reading an archive that is damaged, encrypted or packed in another way."""

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called during a download with the bytes so far and in all (0 if the server does not say)."""


@dataclass(frozen=True)
class Member:
    """A file of a set: its name in the archive, checksums and size. Unknown values are empty or 0."""

    member: str
    md5: str = ""
    sha256: str = ""
    bytes: int = 0
    beliefs: int = 0


@dataclass(frozen=True)
class Benchmark:
    """A public benchmark set."""

    name: str
    title: str
    source: str
    license: str
    url: str
    entities: int
    relations: int
    parts: Mapping[str, Member]

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "parts": {part: vars(member) for part, member in self.parts.items()}}


def benchmarks(path: Path = LIST) -> dict[str, Benchmark]:
    """All sets of the list, by name."""
    sets = {}
    for name, record in tomllib.loads(path.read_text(encoding="utf-8")).items():
        parts = {part: Member(**record.pop(part)) for part in PARTS if part in record}
        sets[name] = Benchmark(name=name, parts=parts, **record)
    return sets


def cache() -> Path:
    """The folder of downloads."""
    folder = os.environ.get("DOXA_CACHE")
    if folder:
        return Path(folder)
    from platformdirs import user_cache_path

    return user_cache_path("doxa", appauthor=False)


def cached(name: str) -> Path | None:
    """The folder of a set in the cache, or None."""
    folder = cache() / name
    return folder if _record(folder).is_file() else None


def get(name: str, url: str = "", progress: Progress | None = None, path: Path = LIST) -> Path:
    """The folder of a set, downloaded and checked unless the cache has it; `url` replaces its address."""
    known = benchmarks(path)
    if name not in known:
        raise UnknownName(f"no benchmark set {name!r}.{did_you_mean(name, known)}", f"sets: {', '.join(known)}")
    folder = cached(name)
    if folder is not None:
        _verify(folder)
        return folder
    wanted = known[name]
    archive = cache() / "downloads" / f"{name}.zip"
    download(url or wanted.url, archive, progress)
    try:
        _unpack(wanted, archive)
    finally:
        archive.unlink(missing_ok=True)
    return cache() / name


def download(url: str, target: Path, progress: Progress | None = None) -> None:
    """Download a file, resuming an earlier attempt; `target` exists only once the file is complete."""
    partial = target.with_name(f"{target.name}.part")
    with reported(partial, KEPT):
        target.parent.mkdir(parents=True, exist_ok=True)
        have = partial.stat().st_size if partial.exists() else 0
        response = _response(url, have)
        if response is not None:
            with response:
                _receive(response, url, partial, have, progress)
        os.replace(partial, target)


def _response(url: str, start: int) -> Any:
    """The response of a server with the bytes from `start` on; None if there are no more."""
    with _receiving(url):
        request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
        try:
            return urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as fault:
            if fault.code == 416:
                return None
            reason = f"the server says {fault.code} {fault.reason}"
            raise BadFile(f"cannot get {url}: {reason}", ELSEWHERE, remedy="url") from None


def _receive(response: Any, url: str, partial: Path, have: int, progress: Progress | None) -> None:
    """Write a response to a file, after the part that the file has if the server continues it."""
    if response.status != 206:
        have = 0
    with _receiving(url):
        length = int(response.headers.get("Content-Length") or 0)
    total = have + length if length else 0
    with partial.open("ab" if have else "wb") as file:
        while piece := _piece(response, url):
            file.write(piece)
            have += len(piece)
            if progress is not None:
                progress(have, total)
    if have < total:
        with _receiving(url):
            raise EOFError(f"{have:,} of {total:,} bytes received")


def _piece(response: Any, url: str) -> bytes:
    with _receiving(url):
        return bytes(response.read(PIECE))


@contextmanager
def _receiving(url: str) -> Iterator[None]:
    """Turn an error of the connection into one that names the address."""
    try:
        yield
    except (OSError, EOFError, http.client.HTTPException, ValueError) as fault:
        reason = getattr(fault, "reason", None) or fault
        raise BadFile(f"cannot get {url}: {reason}", KEPT, ELSEWHERE, remedy="url") from None


def _unpack(wanted: Benchmark, archive: Path) -> None:
    """Extract the parts of the archive, check each, and put them into the cache, all or nothing."""
    record = {}
    with written_folder(cache() / wanted.name) as folder:
        try:
            with zipfile.ZipFile(archive) as packed:
                for part, member in wanted.parts.items():
                    _extract(packed, member, folder / f"{part}.tsv", f"{wanted.name}, {part}")
        except DAMAGED as fault:
            raise BadFile(
                f"{wanted.name}: the download is not the expected archive ({fault})", "it was removed; try again"
            ) from None
        first = _first_checksums(wanted.name)
        for part, member in wanted.parts.items():
            name = f"{part}.tsv"
            expected = replace(member, sha256=member.sha256 or first.get(name, ""))
            record[name] = _check(folder / name, expected, f"{wanted.name}, {part}")
        (folder / RECORD).write_text(json.dumps({"sha256": record}, indent=1) + "\n", encoding="utf-8")
    _remember(wanted.name, record)


def _extract(packed: zipfile.ZipFile, member: Member, target: Path, what: str) -> None:
    """Unpack a file of the archive, up to its known size."""
    bound = member.bytes or MAX_LINE * member.beliefs or MAX_BYTES
    with packed.open(_inside(packed, member.member)) as source, target.open("wb") as file:
        size = 0
        while piece := source.read(PIECE):
            size += len(piece)
            if size > bound:
                raise BadFile(
                    f"{what}: more than the expected {bound:,} bytes in the archive", "it was removed; try again"
                )
            file.write(piece)


def _inside(packed: zipfile.ZipFile, member: str) -> str:
    """The member of that name in any folder of the archive."""
    plain = member.rpartition("/")[2]
    names = [name for name in packed.namelist() if name == member or name.rpartition("/")[2] == plain]
    if not names:
        raise KeyError(f"no {plain} in it")
    return member if member in names else names[0]


def _check(path: Path, member: Member, what: str) -> str:
    """Compare a file with its checksums and size; returns its SHA-256."""
    digests = {kind: _digest(path, kind) for kind in ("md5", "sha256")}
    for kind, digest in digests.items():
        wanted = getattr(member, kind)
        if wanted and wanted != digest:
            raise BadFile(
                f"{what}: the {kind.upper()} is {digest}; expected {wanted}",
                "the file is damaged or another version; it was removed",
            )
    if member.beliefs:
        with path.open("rb") as file:
            lines = sum(1 for line in file if line.strip())
        if lines != member.beliefs:
            raise BadFile(f"{what}: {lines:,} beliefs; expected {member.beliefs:,}")
    if not member.sha256:
        log.warning("%s: checked by MD5 alone, which a forger can match; its SHA-256 %s is remembered", what,
                    digests["sha256"])  # fmt: skip
    return digests["sha256"]


def _first_checksums(name: str) -> dict[str, str]:
    """The SHA-256 of the files of a set at its first download, by file; empty before."""
    try:
        return dict(json.loads((cache() / FIRST).read_text(encoding="utf-8"))[name])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _remember(name: str, record: dict[str, str]) -> None:
    """Note the checksums of a first download, so that a later one can be compared."""
    try:
        every = dict(json.loads((cache() / FIRST).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        every = {}
    every.setdefault(name, record)
    with written(cache() / FIRST) as unfinished:
        unfinished.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")


def _record(folder: Path) -> Path:
    """The file of checksums of a cached set."""
    old = folder / OLD_RECORD
    return old if old.is_file() else folder / RECORD


def _verify(folder: Path) -> None:
    """Compare the files of a cached set with their recorded checksums."""
    try:
        record = dict(json.loads(_record(folder).read_text(encoding="utf-8"))["sha256"])
    except (ValueError, KeyError, TypeError):
        raise BadFile(f"{_record(folder)} is damaged", f"remove {folder} and get the set again") from None
    for name, digest in record.items():
        if not (folder / name).is_file() or _digest(folder / name, "sha256") != digest:
            raise BadFile(f"{folder / name} has changed since its download", f"remove {folder} and get the set again")


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def copy(folder: Path, out: Path) -> None:
    """Copy the parts of a set into another folder."""
    for part in sorted(folder.glob("*.tsv")):
        with written(out / part.name) as unfinished:
            shutil.copyfile(part, unfinished)
