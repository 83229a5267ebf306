"""Folders of updated models: locked until their version is recorded, and removed if it never is."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from doxa.data.atomic import Busy, locked, reported
from doxa.errors import DoxaError
from doxa.storage import folders
from doxa.storage.store.publishing import ModelVersion

if TYPE_CHECKING:
    from doxa.storage.store.knowledge_base import KnowledgeBase


@contextmanager
def named_folder(folder: Path) -> Iterator[Path]:
    """A folder that the user has named, locked."""
    folders.check_ours(folder)
    with folders.writing(folder.resolve()):
        yield folder.resolve()


@contextmanager
def new_folder(kb: KnowledgeBase, live: ModelVersion) -> Iterator[Path]:
    """A new locked folder: kb.models/2 beside kb.db; with PostgreSQL, m-2 beside the live model m.

    The folder is removed if the block fails, unless a version was recorded with it. If the process is killed, or cannot
    read the knowledge base, the folder stays until the next update.
    """
    if kb.place.is_postgres:
        parent, prefix = live.folder.parent, f"{live.folder.name}-"
    else:
        parent, prefix = kb.place.path.with_suffix(".models"), ""
    with reported(parent), ExitStack() as stack:
        parent.mkdir(exist_ok=True)
        _sweep(kb, parent, prefix)
        number = max((one.id for one in kb.models.all()), default=0) + 1
        while not _taken(folder := parent / f"{prefix}{number}", stack):
            number += 1
        try:
            yield folder
        except BaseException:
            with suppress(DoxaError):
                if not _is_recorded(kb, folder):
                    shutil.rmtree(folder, ignore_errors=True)
            raise


def _taken(folder: Path, stack: ExitStack) -> bool:
    """Make a folder and lock it; False if it exists, or if another update has swept it before it was locked."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    try:
        stack.enter_context(locked(folder))
    except (Busy, FileNotFoundError):
        return False
    return True


def _sweep(kb: KnowledgeBase, parent: Path, prefix: str) -> None:
    """Remove the folders that earlier updates left without a version, and that no process is writing to."""
    for folder in parent.iterdir():
        if re.fullmatch(rf"{re.escape(prefix)}[1-9]\d*", folder.name) and folder.is_dir():
            with suppress(OSError, DoxaError), locked(folder) as is_locked:
                if is_locked and _is_leftover(kb, folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_leftover(kb: KnowledgeBase, folder: Path) -> bool:
    """Whether a folder that the caller has locked was made by `new_folder` for a version that was not recorded.

    Models that users have put there lack the mark: the name of the folder in their origin.
    """
    folders.check_ours(folder)
    unfinished = any((folder / name).exists() for name in (folders.CHECKPOINT, folders.PARTITIONS))
    if unfinished or _is_recorded(kb, folder):
        return False
    if not (folder / folders.MANIFEST).exists():
        return True
    store = folders.read_manifest(folder).get("origin", {}).get("store", {})
    return (store.get("id"), store.get("folder")) == (kb.settings["id"], folder.name)


def _is_recorded(kb: KnowledgeBase, folder: Path) -> bool:
    """Whether a version has this folder, or the same model in a folder of another name."""
    versions = kb.models.all()
    if folder.resolve() in [one.folder.resolve() for one in versions]:
        return True
    manifest = folders.read_manifest(folder) if (folder / folders.MANIFEST).exists() else {}
    return manifest.get("sha256") in [one.sha256 for one in versions if one.sha256 is not None]
