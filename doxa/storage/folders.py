"""The model folder as files: a manifest with checksums, the files that it lists, the lock of its writers.

model.json                      version, settings, judge, origin, learning curve; size and SHA-256 of the other files
weights-….safetensors           the vectors
facts-….safetensors             known facts of train and valid as ids, and their confidence
entities-….parquet …            names in the order of their ids (also relations, words)
cells-….safetensors, lists-….faiss   only where the model has an index
checkpoint.safetensors          only while a run is unfinished
partitions/                     only while a partitioned run is unfinished

Files are named by their SHA-256. Replacing a model is one rename of model.json: readers see the old model or the new.
The manifest has a checksum of itself, of its bytes with zeros in place of the checksum.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from doxa.data.atomic import WORKSPACE, finish, locked, sweep, to_disk, workspace, written
from doxa.errors import BadFile, BadModel, UsageError

FORMAT = "doxa model"
VERSION = 3
MANIFEST = "model.json"
CHECKPOINT = "checkpoint.safetensors"
PARTITIONS = "partitions"
ENDINGS = {
    "weights": "safetensors",
    "facts": "safetensors",
    "entities": "parquet",
    "relations": "parquet",
    "words": "parquet",
}
"""The parts of a model, and the ending of the file of each."""

INDEX_ENDINGS = {"cells": "safetensors", "lists": "faiss"}
"""The parts of an index, which a model may have."""

CHECKED_BYTES = 2**30
"""Models up to this size are compared with their checksums on every load; larger ones by `doxa check`."""

PART = re.compile(rf"({'|'.join([*ENDINGS, *INDEX_ENDINGS])})(-[0-9a-f]{{16}})?\.(safetensors|parquet|faiss)")
LITTER = re.compile(rf"\.tmp\w{{6}}|\.{re.escape(CHECKPOINT)}\..*|{WORKSPACE.pattern}")
"""Names of the parts, those of earlier versions among them, and of what killed processes may leave."""

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of a disk that is full or broken: another folder on it would not do."""

ZEROS = "0" * 64
AGAIN = "train it again"
TRAIN = "to make one: doxa.fit(beliefs).save(folder)"


@dataclass(frozen=True)
class Entry:
    """A file of the folder, its size, and its SHA-256; earlier versions had none."""

    path: Path
    size: int
    sha256: str = ""


def read_manifest(folder: Path) -> dict[str, Any]:
    """The content of model.json; refused where it is missing, foreign, damaged or no regular file."""
    path = folder / MANIFEST
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise BadModel(f"{folder} is not a model folder: it is a file", TRAIN, remedy="train")
    except FileNotFoundError:
        raise BadModel(f"no model folder {folder}", TRAIN, remedy="train") from None
    except OSError as fault:
        _cannot_read(folder, fault)
    try:
        content = _read(path)
    except FileNotFoundError:
        if (folder / CHECKPOINT).exists():
            raise BadModel(f"the training of {folder} is not finished", "resume it", remedy="resume") from None
        raise BadModel(f"{folder} is not a model folder: it holds no {MANIFEST}", TRAIN, remedy="train") from None
    except OSError as fault:
        _cannot_read(path, fault)
    try:
        manifest = json.loads(content)
        kind, version = manifest["format"], int(manifest["version"])
        dict(manifest["files"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise BadModel(f"{path} is not the manifest of a doxa model") from None
    if kind != FORMAT:
        raise BadModel(f"{folder} is a {kind!r}; expected a {FORMAT!r}")
    if version > VERSION:
        raise BadModel(f"{folder} has format version {version}, newer than this doxa reads ({VERSION})", "update doxa")
    if version >= 3 and not _is_signed(content, manifest):
        raise BadModel(f"{path} was changed or damaged: its checksum is another one", AGAIN)
    return dict(manifest)


def _read(path: Path) -> bytes:
    """The content of a regular file; a pipe or device is refused instead of waited for."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadModel(f"{path} is not a regular file")
        return file.read()


def _cannot_read(path: Path, fault: OSError) -> NoReturn:
    raise BadModel(f"cannot read {path}: {(fault.strerror or str(fault)).lower()}") from fault


def signed(manifest: dict[str, Any]) -> str:
    """The text of model.json, with its checksum."""
    first = {"format": FORMAT, "version": VERSION, "sha256": ZEROS}
    text = json.dumps(first | manifest | {"sha256": ZEROS}, indent=1, ensure_ascii=False, allow_nan=False)
    return text.replace(ZEROS, hashlib.sha256(text.encode()).hexdigest(), 1)


def _is_signed(content: bytes, manifest: dict[str, Any]) -> bool:
    checksum = str(manifest.get("sha256"))
    blank = content.replace(checksum.encode(), ZEROS.encode(), 1)
    return len(checksum) == len(ZEROS) and hashlib.sha256(blank).hexdigest() == checksum


def entries(folder: Path, manifest: dict[str, Any]) -> dict[str, Entry]:
    """The files of the model that a manifest lists, by part; of this version and of earlier ones."""
    return _entries(folder, manifest, ENDINGS)


def index_entries(folder: Path, manifest: dict[str, Any]) -> dict[str, Entry]:
    """The files of the index that a manifest lists, by part; empty where the model has no index."""
    listed = INDEX_ENDINGS if "index" in manifest and manifest["version"] >= 3 else {}
    return _entries(folder, manifest, listed)


def _entries(folder: Path, manifest: dict[str, Any], endings: dict[str, str]) -> dict[str, Entry]:
    listed = manifest["files"]
    try:
        if manifest["version"] < 3:
            return {
                part: Entry(folder / f"{part}.{end}", int(listed[f"{part}.{end}"])) for part, end in endings.items()
            }
        return {
            part: Entry(
                folder / _name(part, listed[part]["sha256"]), int(listed[part]["bytes"]), listed[part]["sha256"]
            )
            for part in endings
        }
    except (KeyError, TypeError, ValueError, OverflowError):
        raise BadModel(f"{folder / MANIFEST} does not list the files of a doxa model", AGAIN) from None


def _name(part: str, sha256: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(sha256)
    return f"{part}-{sha256[:16]}.{(ENDINGS | INDEX_ENDINGS)[part]}"


def check_files(folder: Path, files: dict[str, Entry], everything: bool = False) -> None:
    """Refuse a folder whose files are missing or not as they were written.

    Checksums are compared where the model is not larger than CHECKED_BYTES, or with `everything`.
    """
    thorough = everything or sum(entry.size for entry in files.values()) <= CHECKED_BYTES
    for entry in files.values():
        try:
            status = entry.path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise BadModel(f"{entry.path} is not a regular file")
            if status.st_size != entry.size:
                sizes = f"{status.st_size:,} bytes where {entry.size:,} were written"
                raise BadModel(f"{entry.path} holds {sizes}: the model is damaged", AGAIN)
            if entry.sha256 and thorough and sha256_of(entry.path) != entry.sha256:
                raise BadModel(f"{entry.path} is damaged: its checksum (SHA-256) is another one", AGAIN)
        except FileNotFoundError:
            raise BadModel(f"{folder} is not a whole model: {entry.path.name} is missing", AGAIN) from None
        except OSError as fault:
            _cannot_read(entry.path, fault)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the lock of a model folder, which is made if necessary; an empty one is removed in the end."""
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            yield
    except OSError as fault:
        raise BadModel(f"cannot write the model to {folder}: {fault.strerror or fault}") from fault
    finally:
        if new:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def replaced(folder: Path, manifest: dict[str, Any]) -> Iterator[Path]:
    """A workspace for the parts of a model, each under its plain name; then they replace the model of the folder.

    The caller holds the lock. `manifest` is what model.json shall have beside the list of files; parts of the model
    that are listed there already need not be in the workspace. An index belongs to the weights it is written with.
    """
    try:
        with workspace(folder) as place:
            (place / MANIFEST).touch()
            mode = stat.S_IMODE((place / MANIFEST).stat().st_mode)
            yield place
            listed = dict(manifest.get("files", {}))
            for part, ending in (ENDINGS | (INDEX_ENDINGS if "index" in manifest else {})).items():
                file = place / f"{part}.{ending}"
                if file.exists() or part not in listed:
                    finish(file, mode)
                    listed[part] = {"sha256": sha256_of(file), "bytes": file.stat().st_size}
                    os.replace(file, folder / _name(part, str(listed[part]["sha256"])))
            to_disk(folder)
            content = manifest | {"files": listed}
            if "index" in manifest:
                content["index"] = manifest["index"] | {"weights": listed["weights"]["sha256"]}
            with written(folder / MANIFEST) as file:
                file.write_text(signed(content), encoding="utf-8")
    except OSError as fault:
        raise BadModel(f"cannot write the model to {folder}: {fault.strerror or fault}") from fault
    except BadFile as fault:
        raise BadModel(fault.message, *fault.hints) from fault
    finally:
        _remove_unlisted(folder)


def _remove_unlisted(folder: Path) -> None:
    """Remove parts that the manifest does not list, and what killed processes left; the caller holds the lock."""
    sweep(folder)
    try:
        manifest = read_manifest(folder)
        files = entries(folder, manifest) | index_entries(folder, manifest)
        kept = {entry.path.name for entry in files.values()}
    except BadModel:
        if (folder / MANIFEST).exists():
            return
        kept = set()
    for path in folder.iterdir():
        if path.name not in kept and (PART.fullmatch(path.name) or LITTER.fullmatch(path.name)) and path.is_file():
            with contextlib.suppress(OSError):
                path.unlink()


def check_vacant(folder: Path, force: bool, resume: bool) -> None:
    """Refuse an output folder that is taken, in use or cannot be written, before any work is done."""
    check_content(folder, force, resume)
    nearest = folder.resolve()
    while not nearest.exists():
        nearest = nearest.parent
    try:
        if folder.exists():
            with locked(folder):
                pass
        with workspace(nearest):
            pass
    except OSError as fault:
        kind = BadModel if fault.errno in FULL_DISK else UsageError
        raise kind(f"cannot write to {folder}: {fault.strerror or fault} in {nearest}") from None


def check_content(folder: Path, force: bool, resume: bool) -> None:
    """Refuse a folder that has a model, an unfinished run, or files of any other kind, which are never removed.

    `force` replaces a model or an unfinished run; `resume` needs an unfinished run.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file; expected a folder to write the model to")
        check_ours(folder)
        checkpoint, manifest = ((folder / name).exists() for name in (CHECKPOINT, MANIFEST))
    except OSError as fault:
        raise UsageError(f"cannot read {folder}: {fault.strerror or fault}") from None
    if resume and not checkpoint:
        raise UsageError(f"{folder} holds no unfinished run to resume", "start a new run")
    if checkpoint and not force and not resume:
        message, hint = f"{folder} already holds an unfinished run", "resume=True goes on, force=True starts again"
        raise UsageError(message, hint, remedy="resume")
    if manifest and not force and not resume:
        raise UsageError(f"{folder} already holds a model", "force=True replaces it", remedy="force")


def check_ours(folder: Path) -> None:
    """Refuse a folder with files that are not a model's, and the current folder or one above it."""
    ours = re.compile(rf"{re.escape(MANIFEST)}|{re.escape(CHECKPOINT)}|{PARTITIONS}|{PART.pattern}|{LITTER.pattern}")
    present = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    foreign = sorted(name for name in present if not ours.fullmatch(name))
    if foreign:
        raise UsageError(
            f"{folder} holds files that are not a model's ({foreign[0]}{' …' if len(foreign) > 1 else ''})",
            "choose a new folder",
        )
    if folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise UsageError(f"{folder} is or contains the current folder", "choose a new folder")


def discard_run(folder: Path) -> None:
    """Remove an unfinished run's checkpoint, and the files of its partitions."""
    shutil.rmtree(folder / PARTITIONS, ignore_errors=True)
    (folder / CHECKPOINT).unlink(missing_ok=True)
