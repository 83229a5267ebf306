"""Writing all or nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from doxa.errors import DoxaError


@contextlib.contextmanager
def written(path: str | Path) -> Iterator[Path]:
    """A place to write what shall stand at `path`; it is moved there only when all went well.

    A link is followed; what is no regular file (a pipe, a device) is written to directly.
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise DoxaError(f"cannot write {path}: it is a folder")
    direct = target.exists() and not target.is_file()
    unfinished = target if direct else target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        if not direct:
            os.replace(unfinished, target)
    except OSError as fault:
        raise DoxaError(f"cannot write {path}: {fault.strerror or fault}") from fault
    finally:
        if not direct:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def written_folder(path: str | Path) -> Iterator[Path]:
    """A folder to fill, whose files are moved to `path` only when all went well; others that lie there stay."""
    target = Path(path).resolve()
    if target.exists() and not target.is_dir():
        raise DoxaError(f"cannot write {path}: it is a file; expected a folder")
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        target.mkdir(exist_ok=True)
        for made in sorted(unfinished.iterdir()):
            os.replace(made, target / made.name)
    except OSError as fault:
        raise DoxaError(f"cannot write {path}: {fault.strerror or fault}") from fault
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
