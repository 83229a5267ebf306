"""Write files and folders all or nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from doxa.errors import BadFile


@contextlib.contextmanager
def written(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; the file moves to `path` when the block ends without an error.

    A link is followed. A pipe or device is written to directly.
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise BadFile(f"cannot write {path}: it is a folder")
    direct = target.exists() and not target.is_file()
    unfinished = target if direct else target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        if not direct:
            os.replace(unfinished, target)
    except OSError as fault:
        raise BadFile(f"cannot write {path}: {fault.strerror or fault}") from fault
    finally:
        if not direct:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def written_folder(path: str | Path) -> Iterator[Path]:
    """A temporary folder to fill; its files move to `path` when the block ends without an error.

    Other files in `path` stay.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_dir():
        raise BadFile(f"cannot write {path}: it is a file; expected a folder")
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        target.mkdir(exist_ok=True)
        for file in sorted(unfinished.iterdir()):
            os.replace(file, target / file.name)
    except OSError as fault:
        raise BadFile(f"cannot write {path}: {fault.strerror or fault}") from fault
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
