"""Files and folders that are written all or nothing."""

import errno
import os
import shutil
import signal
import stat
from pathlib import Path

import pytest

from doxa.data import atomic
from doxa.data.atomic import Busy, locked, sweep, workspace, written, written_folder
from doxa.errors import BadFile


def names(folder):
    return sorted(os.listdir(folder))


def fill(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def killed_while_writing(folder):
    """A child that is killed in the middle of a write."""
    child = os.fork()
    if not child:
        with written(folder / "a") as file:
            file.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_killed_writer_leaves_the_old_file_and_a_workspace_that_the_next_one_removes(tmp_path):
    (tmp_path / "a").write_text("old")
    killed_while_writing(tmp_path)
    assert (tmp_path / "a").read_text() == "old"
    assert len(names(tmp_path)) == 2
    with workspace(tmp_path) as active:
        with written(tmp_path / "b") as file:
            file.write_text("new")
        assert names(tmp_path) == [active.name, "a", "b"]  # that of another writer stays
    assert names(tmp_path) == ["a", "b"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a").write_text("old")

    def fail(fault):
        with written(tmp_path / "a") as file:
            file.write_text("half")
            raise fault

    for fault in (KeyboardInterrupt(), OSError(28, "No space left on device")):
        with pytest.raises((KeyboardInterrupt, BadFile)):
            fail(fault)
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_files_reach_the_disk_before_they_are_moved(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real: (done.append(name), real(*a)))
    with written(tmp_path / "a") as file:
        file.write_text("x")
    assert done == ["fsync", "replace", "fsync"]


def test_modes_follow_the_umask_whatever_the_writer_does(tmp_path):
    before = os.umask(0o022)
    try:
        with written(tmp_path / "a") as file:
            file.unlink()
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_takes_the_place_of_another_with_its_other_files(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(atomic, "_exchanged", lambda first, second: False)
    fill(tmp_path / "f", added="old", labels="old", notes="mine")
    with written_folder(tmp_path / "f", replaces=["added", "labels"]) as folder:
        fill(folder, added="new")
    assert names(tmp_path / "f") == ["added", "notes"]
    assert (tmp_path / "f" / "added").read_text() == "new"
    assert names(tmp_path) == ["f"]


@pytest.mark.parametrize("exchange", [True, False])
def test_folders_in_a_folder_are_replaced(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(atomic, "_exchanged", lambda first, second: False)
    for name in ("data", "model"):
        fill(tmp_path / "f" / name, old="old")
    with written_folder(tmp_path / "f") as folder:
        fill(folder / "data", new="new")
    assert (names(tmp_path / "f"), names(tmp_path / "f" / "data")) == (["data", "model"], ["new"])
    assert names(tmp_path) == ["f"]


@pytest.mark.parametrize("place", range(3))
def test_what_was_there_returns_where_a_file_cannot_be_moved(tmp_path, monkeypatch, place):
    monkeypatch.setattr(atomic, "_exchanged", lambda first, second: False)
    fill(tmp_path / "f", a="old", c="old")
    fill(tmp_path / "f" / "b", old="old")
    count, real = [-1], os.replace

    def replace(*paths):
        count[0] += 1
        if count[0] == place:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*paths)

    def work():
        with written_folder(tmp_path / "f", replaces=["c"]) as folder:
            fill(folder, a="new", d="new")
            fill(folder / "b", new="new")

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(BadFile, match="No space left"):
        work()
    assert names(tmp_path / "f") == ["a", "b", "c"]
    assert [(tmp_path / "f" / name).read_text() for name in ("a", "b/old", "c")] == ["old"] * 3
    assert names(tmp_path) == ["f"]


def test_an_error_names_a_file_as_in_the_final_folder(tmp_path):
    def work():
        with written_folder(tmp_path / "f") as folder:
            (folder / "taken").mkdir()
            with written(folder / "taken"):
                pass

    with pytest.raises(BadFile) as fault:
        work()
    assert str(fault.value) == f"cannot write {tmp_path / 'f' / 'taken'}: it is a folder"


def test_a_folder_is_exchanged_in_one_step(tmp_path, monkeypatch):
    """Right before it the old folder is whole; no file is moved by itself."""
    fill(tmp_path / "f", a="old", b="old")
    real = atomic._exchanged

    def exchanged(first, second):
        assert names(second) == ["a", "b"]
        return real(first, second)

    monkeypatch.setattr(atomic, "_exchanged", exchanged)
    monkeypatch.setattr(os, "replace", None)
    with written_folder(tmp_path / "f", replaces=["a", "b"]) as folder:
        fill(folder, a="new")
    assert names(tmp_path / "f") == ["a"]


def test_the_current_folder_is_not_exchanged(tmp_path, monkeypatch):
    fill(tmp_path / "f", a="old")
    monkeypatch.chdir(tmp_path / "f")
    with written_folder(".") as folder:
        fill(folder, b="new")
    assert names(".") == ["a", "b"]


def test_sweeping_leaves_what_is_not_ours(tmp_path):
    (tmp_path / ".doxa-notes.partial").mkdir()
    (tmp_path / ".doxa-0123456789ab.partial").mkdir()
    sweep(tmp_path)
    assert names(tmp_path) == [".doxa-notes.partial"]


def test_a_folder_that_was_swept_and_made_again_is_not_locked(tmp_path, monkeypatch):
    folder, flock = tmp_path / "a", atomic.fcntl.flock
    folder.mkdir()

    def late(descriptor, operation):
        flock(descriptor, operation)
        folder.rmdir()
        folder.mkdir()

    monkeypatch.setattr(atomic.fcntl, "flock", late)
    with pytest.raises(Busy), locked(folder):
        pass


def test_nothing_is_swept_where_the_file_system_has_no_locks(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(atomic.fcntl, "flock", fails)
    with workspace(tmp_path) as active, workspace(tmp_path) as other:
        assert names(tmp_path) == sorted([active.name, other.name])


@pytest.mark.parametrize(("of", "name"), [(Path, "mkdir"), (shutil, "rmtree")])
def test_an_interrupt_leaves_no_workspace(tmp_path, monkeypatch, of, name):
    """While one is made: the folder is there and nobody knows. While it is removed: a part of it is left."""
    real, calls = getattr(of, name), []

    def interrupted(path, *options, **more):
        calls.append(path)
        if name == "mkdir":
            real(path, *options, **more)
        if len(calls) == 1:
            raise KeyboardInterrupt
        if name == "rmtree":
            real(path, *options, **more)

    monkeypatch.setattr(of, name, interrupted)
    with pytest.raises(KeyboardInterrupt), workspace(tmp_path) as place:
        (place / "file").touch()
    assert calls
    assert not list(tmp_path.iterdir())
