"""Write files and folders all or nothing: into a workspace beside the target, to the disk, then into place.

A workspace is a locked folder `.doxa-….partial`. The next write beside it removes a workspace whose process was killed:
its lock is free. Readers see the old file or the new one, never a part.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from doxa.errors import BadFile, DoxaError

try:
    import fcntl
except ImportError:  # without file locks, as on Windows, workspaces of killed processes stay
    fcntl = None  # type: ignore[assignment]

WORKSPACE = re.compile(r"\.doxa-[0-9a-f]{12}\.partial")
"""Names of workspaces."""

EXCHANGE, CURRENT_FOLDER = 2, -100
"""Constants of renameat2: RENAME_EXCHANGE, AT_FDCWD."""

_locks: set[int] = set()


class Busy(BadFile):
    """A folder that another process is writing to."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder that writers must hold; `Busy` if another process holds it.

    The lock ends with the process, however it ends. Forked processes do not inherit it. False on systems without locks.
    """
    descriptor, is_locked = os.open(folder, os.O_RDONLY), False
    _locks.add(descriptor)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_locked = True
            except BlockingIOError:
                raise Busy(f"another process is writing to {folder}", "wait for it, or choose another folder") from None
            except OSError:
                pass  # a file system without locks
        if not os.path.samestat(os.fstat(descriptor), os.stat(folder)):  # removed and made again before it was locked
            raise Busy(f"another process is writing to {folder}", "wait for it, or choose another folder")
        yield is_locked
    finally:
        if descriptor in _locks:  # not in a forked process
            _locks.remove(descriptor)
            if fcntl is not None:
                with contextlib.suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _leave_locks() -> None:
    for descriptor in _locks:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_locks)


@contextlib.contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """A new empty folder inside `folder`, removed when the block ends; workspaces of killed processes go, too."""
    sweep(folder)
    with contextlib.ExitStack() as stack:
        while True:
            place = folder / f".doxa-{secrets.token_hex(6)}.partial"
            stack.callback(_remove, place)  # a signal may come between the two
            place.mkdir()
            try:
                stack.enter_context(locked(place))
                break
            except (Busy, FileNotFoundError):  # another process has swept it before it was locked
                continue
        yield place


def _remove(place: Path) -> None:
    """Remove a workspace, also if a signal interrupts this."""
    try:
        shutil.rmtree(place, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(place, ignore_errors=True)
        raise


def sweep(folder: Path) -> None:
    """Remove the workspaces in a folder that no process holds."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if WORKSPACE.fullmatch(entry.name)]:
            with contextlib.suppress(OSError, Busy), locked(folder / name) as is_locked:
                if is_locked:
                    shutil.rmtree(folder / name, ignore_errors=True)


@contextlib.contextmanager
def written(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; the file moves to `path` when the block ends without an error.

    A link is followed. A pipe or device is written to directly.
    """
    with reported(path):
        target = Path(path).resolve()
        if target.is_dir():
            raise BadFile(f"cannot write {path}: it is a folder")
        if target.exists() and not target.is_file():
            yield target
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with workspace(target.parent) as place:
            file = place / target.name
            file.touch()
            mode = stat.S_IMODE(file.stat().st_mode)
            yield file
            finish(file, mode)
            os.replace(file, target)
            to_disk(target.parent)


@contextlib.contextmanager
def written_folder(path: str | Path, replaces: Collection[str] = ()) -> Iterator[Path]:
    """A temporary folder to fill; it takes the place of `path` at once when the block ends without an error.

    What else is in `path` stays, except the names in `replaces`. Errors name the files as in `path`.
    """
    with reported(path):
        target = Path(path).resolve()
        if target.exists() and not target.is_dir():
            raise BadFile(f"cannot write {path}: it is a file; expected a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        with workspace(target.parent) as place:
            filled = place / "folder"
            filled.mkdir()
            probe = filled / "probe"
            probe.touch()
            mode = stat.S_IMODE(probe.stat().st_mode)
            probe.unlink()
            try:
                yield filled
            except DoxaError as fault:
                fault.rename(str(filled), str(path))
                raise
            for file in filled.iterdir():
                finish(file, mode)
            _move_in(filled, target, replaces)
            to_disk(target.parent)


def _move_in(filled: Path, target: Path, replaces: Collection[str]) -> None:
    """Move a folder into place; where the system cannot exchange two folders at once, its files one by one."""
    if not target.exists():
        os.rename(filled, target)
        return
    new = {file.name for file in filled.iterdir()}
    others = [file for file in target.iterdir() if file.name not in new and file.name not in replaces]
    if _can_exchange(target, others):
        try:
            for file in others:
                os.link(file, filled / file.name)
            shutil.copymode(target, filled)
            to_disk(filled)
            if _exchanged(filled, target):
                return
        except OSError as fault:
            if fault.errno == errno.ENOSPC:
                raise
    _move_one_by_one(filled, target, sorted(new), set(replaces) - new)
    to_disk(target)


def _move_one_by_one(filled: Path, target: Path, new: Collection[str], replaced: Collection[str]) -> None:
    """Move files and folders in, and those of `replaced` out; where a move fails, what was there returns."""
    aside = filled.with_name("old")
    aside.mkdir()
    try:
        for name in new:
            if (target / name).is_dir() and not (target / name).is_symlink():
                os.rename(target / name, aside / name)
            else:
                with contextlib.suppress(OSError):  # no such file, or a file system without links
                    os.link(target / name, aside / name, follow_symlinks=False)
            os.replace(filled / name, target / name)
        for name in replaced:
            with contextlib.suppress(FileNotFoundError):
                os.rename(target / name, aside / name)
    except OSError:
        for name in (*new, *replaced):
            with contextlib.suppress(OSError):
                if name in new and not os.path.lexists(filled / name):
                    os.rename(target / name, filled / name)
                os.replace(aside / name, target / name)
        raise


def _can_exchange(target: Path, others: list[Path]) -> bool:
    """Whether another folder may take the place of this one: nobody stands in it, and its other files can be linked."""
    plain = all(file.is_file() and not file.is_symlink() for file in others)
    return plain and Path.cwd() != target and target not in Path.cwd().parents and not target.is_mount()


def _exchanged(first: Path, second: Path) -> bool:
    """Exchange two folders in one step, if the system can."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    names = os.fsencode(first), os.fsencode(second)
    return bool(rename(CURRENT_FOLDER, names[0], CURRENT_FOLDER, names[1], EXCHANGE) == 0)


def finish(file: Path, mode: int) -> None:
    """Let a written file have this mode, and reach the disk."""
    if file.is_file():
        file.chmod(mode)
    to_disk(file)


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):  # a file system that cannot
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def reported(path: str | Path, *hints: str) -> Iterator[None]:
    """Turn an error of the system into one that names the path."""
    try:
        yield
    except OSError as fault:
        raise BadFile(f"cannot write {path}: {fault.strerror or fault}", *hints) from fault
