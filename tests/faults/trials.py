"""The commands that write, each with what must hold whenever it was cut short, and the command that goes on."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import time
from dataclasses import dataclass, field

from tests.faults import tools
from tests.faults.commands import (
    ADDING,
    COMMANDS,
    DEMO_FILES,
    FOLDERS,
    INPUT,
    NAMES,
    NEW,
    OUTPUTS,
    STORES,
    TIMED,
    TRAIN,
    WRITING,
)
from tests.faults.tools import OLD, call, content, hidden

__all__ = ["NAMES", "WRITING", "Trial", "prepare"]

WHOLE = {}
"""The rows of every table after a command that nothing cut, by its name."""


@dataclass
class Trial:
    """A folder copied from the prepared one, a command in it, and the checks of what the command leaves."""

    name: str
    base: object
    folder: object
    arguments: tuple = ()
    before: dict = field(default_factory=dict)
    cut: dict = field(default_factory=dict)
    changed: bool = False

    def __post_init__(self):
        shutil.copytree(self.base, self.folder)
        os.environ["DOXA_CACHE"] = str(self.at("cache"))
        self.arguments = tuple(self._placed(part) for part in COMMANDS[self.name])
        self.temporary.mkdir()
        self.before = content(self.folder)

    def at(self, name):
        return self.folder / name

    def _placed(self, part):
        return self.at(part[1:]) if isinstance(part, str) and part.startswith("@") else part

    @property
    def temporary(self):
        """The folder for temporary files."""
        return self.folder.with_suffix(".temporary")

    def action(self):
        """The command as a function for `tools.start`."""
        return tools.command(*self.arguments, temporary=self.temporary, text=INPUT.get(self.name, ""))

    @property
    def log(self):
        return self.folder.with_suffix(".log")

    def finish(self, done=False):
        """Check what a command that was cut has left, go on with the next command, and check again.

        What existed is there, or was replaced as a whole. The next command ends well, and nothing of the cut one stays.
        A command that is `done`, by its exit code, has written everything.
        """
        self._check_files()
        if done:
            self._check_done()
        self._run(*self._look(), self._next())
        if self.name == "kb_update":
            assert self._without_version() == 0, "a model without a version after the next command"
        for name, cut in self.cut.items():
            if name in TIMED and cut != OLD:
                json.loads(cut)
            elif cut != (self.base / name).read_bytes():
                assert cut == self.at(name).read_bytes(), f"{name} is neither old nor new"
        assert hidden(self.folder) == [], hidden(self.folder)
        if self.name in FOLDERS:
            assert len(list(self.at(FOLDERS[self.name]).iterdir())) == 6, list(self.at(FOLDERS[self.name]).iterdir())

    def _check_files(self):
        now = content(self.folder)
        if self.name in (*ADDING, *OUTPUTS):
            lost = [name for name, checksum in self.before.items() if now.get(name) != checksum]
            lost = [name for name in lost if name not in OUTPUTS.get(self.name, ()) and ".db" not in name]
            assert not lost, f"lost or changed: {lost}"
        if self.name == "resume":
            assert self.at("run/checkpoint.safetensors").exists() or self.at("run/model.json").exists()
        if self.name == "review":
            names = sorted(path.name for path in self.at("decided").iterdir())
            assert names in (["added.tsv", "labels.tsv", "retracted.tsv"], ["labels.tsv"]), names
        if self.name == "kb_update":  # one that cannot read the knowledge base leaves its folder to the next
            assert self._without_version() in (0, 1), "a model without a version"
        if self.name == "tune":
            journal = (self.base / "study" / "study.log").read_text()
            assert self.at("study/study.log").read_text().startswith(journal)
        if self.name in ("demo", "demo_force"):
            self._check_demo(now, self.arguments[-1].name)
        if self.name == "experiment":
            for path in self.at("runs").glob("*.json"):
                json.loads(path.read_text())
        if self.name in STORES:
            self._check_store()
        self.cut = {name: self.at(name).read_bytes() for name in OUTPUTS.get(self.name, ())}

    def _check_done(self):
        """Nothing is old or missing."""
        old = [name for name, cut in self.cut.items() if cut == OLD]
        assert not old, f"the command ended well, but {old} is old"
        if self.name in FOLDERS:
            folder = self.at(FOLDERS[self.name])
            names = [path.name for path in folder.iterdir()]
            assert "model.json" in names, names
            assert "checkpoint.safetensors" not in names, names
        if self.name in STORES and WHOLE[self.name] != rows(self.base / STORES[self.name][1:]):
            assert self.changed, "the command ended well, but the knowledge base is old"
        if self.name in NEW:
            assert self.at(NEW[self.name]).exists(), NEW[self.name]
        if self.name == "kb_update":
            assert self._without_version() == 0, "the command ended well, but a model has no version"

    def _without_version(self):
        """How many folders beside the knowledge base have no version; the first version is elsewhere."""
        with contextlib.closing(sqlite3.connect(self.at("kb.db"))) as connection:
            versions = connection.execute("SELECT count(*) FROM model_version").fetchone()[0]
        return len(list(self.at("kb.models").glob("*"))) - (versions - 1)

    def _check_demo(self, now, folder):
        """An earlier demo as it was, or a new one with all its files."""
        old, new = ({name: sum for name, sum in files.items() if name.startswith(f"{folder}/")}
                    for files in (self.before, now))  # fmt: skip
        assert new == old or len(new) == DEMO_FILES, sorted(new)

    def _check_store(self):
        """The knowledge base is what it was, or has as many rows in each table as after a command that nothing cut.

        A reviewer may also have been shown a proposal, which is then leased, and not have decided it.
        """
        name = STORES[self.name][1:]
        old, now = self.base / name, self.at(name)
        if self.name in WHOLE and tables(now) != tables(old):
            self.changed = rows(now) == WHOLE[self.name]
            leased = self.name == "review_next" and rows(now) == rows(old)
            assert self.changed or leased, (rows(now), WHOLE[self.name])

    def remember(self):
        """Note the rows of the knowledge base after a command that nothing cut."""
        if self.name in STORES:
            WHOLE[self.name] = rows(self.at(STORES[self.name][1:]))

    def _look(self):
        """Commands that find the model or knowledge base as it was, or replaced as a whole."""
        if self.name in ("force", "calibrate", "index", "update", "train"):
            return [("check", self.at("model"))]
        names = [STORES.get(self.name, "@nowhere")[1:], *(["new.db"] if self.name in NEW else [])]
        places = [self.at(name) for name in names]
        return [("kb", "status", place) for place in places if place.exists()]

    def _next(self):
        """The command that goes on."""
        folder = self.at(FOLDERS.get(self.name, "nowhere"))
        if self.changed:  # what was decided cannot be decided again
            return ("kb", "status", self.at(STORES[self.name][1:]))
        arguments = [part for part in self.arguments if part not in ("--resume", "--force")]
        if self.name == "demo_force":
            arguments.append("--force")
        if self.name == "bench_answer":  # the same file by a quicker command
            arguments[1] = "rank"
        if self.name in NEW and self.at(NEW[self.name]).exists():
            arguments[-1] = self.at(f"again-{NEW[self.name]}")
        if (folder / "checkpoint.safetensors").exists():
            arguments.append("--resume")
        elif (folder / "model.json").exists():
            arguments.append("--force")
        elif self.name == "complete" and self.at(".missing.tsv.search").exists():
            arguments.append("--resume")
        return tuple(arguments)

    def _run(self, *several):
        last = [("check", self.at(FOLDERS[self.name]))] if self.name in FOLDERS else []
        last += [("kb", "status", several[-1][-1])] if self.name in ("kb_init", "kb_backup") else []
        text = INPUT.get(self.name, "")
        assert call(self.log, *several, *last, text=text) == 0, self.log.read_text()

    def remove(self):
        for folder in (self.folder, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)


def tables(path):
    """All rows of a knowledge base, as text."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def rows(path):
    """The number of rows of each table."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def prepare(folder):
    """The prepared folder of `tools`, with an unfinished run in it."""
    folder.mkdir()
    tools.prepare(folder, [name for names in OUTPUTS.values() for name in names])
    checkpoint = folder / "run" / "checkpoint.safetensors"
    while not checkpoint.exists():  # again, where the kill came too late and the run was finished
        shutil.rmtree(folder / "run", ignore_errors=True)
        run = ("train", folder / "b.tsv", "--out", folder / "run", *TRAIN)
        child = tools.start(tools.command(*run), folder.with_suffix(".log"))
        while not checkpoint.exists():
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for path in (folder / "run").glob(".*"):
        shutil.rmtree(path)
    for path in folder.glob("*.db"):
        tables(path)  # the end of a connection merges the log of writes: all trials begin with the same files
    assert not list(folder.glob("*.db-wal"))
