"""Public benchmark sets by name: where they are, whose they are, and whether what came is what was meant.

A set is downloaded once into the cache folder (the platform's own, or $DOXA_CACHE), checked, and from then on there
without a network. An interrupted download goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doxa.data.atomic import written, written_folder
from doxa.errors import DoxaError, UsageError, did_you_mean

LIST = Path(__file__).with_name("benchmarks.toml")
RECORD = "catalogue.json"
"""In a set's folder: the SHA-256 of each of its files, as they were when they had been checked."""

PARTS = ("train", "valid", "test")
PIECE = 2**18

Report = Callable[[int, int], None]
"""Told as a download goes on: bytes so far, and in all (0 if the server does not say)."""


@dataclass(frozen=True)
class Member:
    """A file of a set: its name in the archive, and what is known of it beforehand."""

    member: str
    md5: str = ""
    sha256: str = ""
    bytes: int = 0
    beliefs: int = 0


@dataclass(frozen=True)
class Benchmark:
    """A public set. Counts and checksums that nobody told are 0 or empty."""

    name: str
    title: str
    source: str
    licence: str
    url: str
    entities: int
    relations: int
    parts: Mapping[str, Member]

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "parts": {part: vars(member) for part, member in self.parts.items()}}


def benchmarks(path: Path = LIST) -> dict[str, Benchmark]:
    """Every set of the list, by name."""
    found = {}
    for name, told in tomllib.loads(path.read_text(encoding="utf-8")).items():
        parts = {part: Member(**told.pop(part)) for part in PARTS if part in told}
        found[name] = Benchmark(name=name, parts=parts, **told)
    return found


def cache() -> Path:
    """The folder that downloads are kept in."""
    told = os.environ.get("DOXA_CACHE")
    if told:
        return Path(told)
    from platformdirs import user_cache_path

    return user_cache_path("doxa", appauthor=False)


def cached(name: str) -> Path | None:
    """The folder of a set that is there already."""
    folder = cache() / name
    return folder if (folder / RECORD).is_file() else None


def get(name: str, url: str = "", report: Report | None = None, path: Path = LIST) -> Path:
    """The folder of a set: from the cache if it is whole there, else downloaded (from `url` if given) and checked."""
    known = benchmarks(path)
    if name not in known:
        raise UsageError(f"no benchmark set {name!r}.{did_you_mean(name, known)}", "`doxa data list` names them all")
    folder = cached(name)
    if folder is not None:
        _still_whole(folder)
        return folder
    wanted = known[name]
    archive = cache() / "downloads" / f"{name}.zip"
    download(url or wanted.url, archive, report)
    try:
        _unpack(wanted, archive)
    finally:
        archive.unlink(missing_ok=True)
    return cache() / name


def download(url: str, target: Path, report: Report | None = None) -> None:
    """Fetch a file; what an earlier try left of it is not fetched again. It is at `target` only when it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.part")
    have = partial.stat().st_size if partial.exists() else 0
    try:
        request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
        with urllib.request.urlopen(request, timeout=60) as answer:
            if answer.status != 206:
                have = 0
            length = int(answer.headers.get("Content-Length") or 0)
            total = have + length if length else 0
            with partial.open("ab" if have else "wb") as file:
                while piece := answer.read(PIECE):
                    file.write(piece)
                    have += len(piece)
                    if report is not None:
                        report(have, total)
        if total and have < total:
            raise EOFError(f"{have:,} of {total:,} bytes came")
    except urllib.error.HTTPError as fault:
        if fault.code != 416:
            raise DoxaError(f"cannot get {url}: the server says {fault.code} {fault.reason}", _elsewhere()) from None
        # nothing is left to fetch: what is there is all of it
    except (OSError, EOFError, http.client.HTTPException, ValueError) as fault:
        reason = getattr(fault, "reason", None) or fault
        raise DoxaError(
            f"cannot get {url}: {reason}", "what came is kept; the same command goes on from there", _elsewhere()
        ) from None
    os.replace(partial, target)


def _elsewhere() -> str:
    return "if you have the archive elsewhere, pass --from URL"


def _unpack(wanted: Benchmark, archive: Path) -> None:
    """Take the parts out of the archive, check each, and put them into the cache, all or nothing."""
    record = {}
    with written_folder(cache() / wanted.name) as folder:
        try:
            with zipfile.ZipFile(archive) as packed:
                for part, member in wanted.parts.items():
                    with (
                        packed.open(_inside(packed, member.member)) as source,
                        (folder / f"{part}.tsv").open("wb") as file,
                    ):
                        shutil.copyfileobj(source, file)
        except (zipfile.BadZipFile, KeyError, EOFError) as fault:
            raise DoxaError(
                f"{wanted.name}: what came is not the archive expected ({fault})", "it was removed; try again"
            ) from None
        for part, member in wanted.parts.items():
            record[f"{part}.tsv"] = _checked(folder / f"{part}.tsv", member, f"{wanted.name}, {part}")
        (folder / RECORD).write_text(json.dumps({"sha256": record}, indent=1) + "\n", encoding="utf-8")


def _inside(packed: zipfile.ZipFile, member: str) -> str:
    """The member of that name, whatever folder the archive wraps round it."""
    plain = member.rpartition("/")[2]
    found = [name for name in packed.namelist() if name == member or name.rpartition("/")[2] == plain]
    if not found:
        raise KeyError(f"no {plain} in it")
    return member if member in found else found[0]


def _checked(path: Path, member: Member, what: str) -> str:
    """The SHA-256 of a file that is what was told of it."""
    found = {kind: _digest(path, kind) for kind in ("md5", "sha256")}
    for kind, digest in found.items():
        wanted = getattr(member, kind)
        if wanted and wanted != digest:
            raise DoxaError(
                f"{what}: the {kind.upper()} is {digest}; expected {wanted}",
                "the file is damaged or not the one meant; it was removed",
            )
    if member.beliefs:
        with path.open("rb") as file:
            lines = sum(1 for line in file if line.strip())
        if lines != member.beliefs:
            raise DoxaError(f"{what}: {lines:,} beliefs; expected {member.beliefs:,}")
    return found["sha256"]


def _still_whole(folder: Path) -> None:
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))["sha256"]
    for name, digest in record.items():
        if not (folder / name).is_file() or _digest(folder / name, "sha256") != digest:
            raise DoxaError(f"{folder / name} is not what was downloaded", f"remove {folder} and get it again")


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def copy(folder: Path, out: Path) -> None:
    """Copy the parts of a set into a folder of one's own."""
    for part in sorted(folder.glob("*.tsv")):
        with written(out / part.name) as unfinished:
            shutil.copyfile(part, unfinished)
