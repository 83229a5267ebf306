"""Writing all or nothing."""

from __future__ import annotations

import contextlib
import os
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
