"""The commands that write, each with what must hold whenever it was cut short, and the command that goes on."""

import json
import os
import shutil
import signal
import time
from dataclasses import dataclass, field

from tests.faults import tools
from tests.faults.tools import QUICK, call, content, hidden

TRAIN = ("--set", "epochs=2", *QUICK)
OUTPUTS = {
    "convert": "new.tsv",
    "complete": "missing.tsv",
    "audit": "suspects.csv",
    "judge": "judged.tsv",
    "ask": "answers.jsonl",
    "evaluate": "report.json",
    "negatives": "labeled.tsv",
    "duplicates": "pairs.tsv",
    "kb_export": "beliefs.nt",
}
"""Files that a command replaces: each is the old one or the new one, whenever the command was cut."""

FOLDERS = {"train": "new", "resume": "run", "force": "model", "update": "new"}
"""Model folders that a command writes."""

ADDING = ("train", "update", "convert_folder", "split", "export")
"""Commands that only add files."""

TUNE = ("--set", "epochs=1", *QUICK)


@dataclass
class Trial:
    """A folder copied from the prepared one, a command in it, and the checks of what the command leaves."""

    name: str
    base: object
    folder: object
    arguments: tuple = ()
    before: dict = field(default_factory=dict)
    cut: bytes = b""

    def __post_init__(self):
        shutil.copytree(self.base, self.folder)
        self.arguments = {
            "train": lambda: ("train", self.at("b.tsv"), "--out", self.at("new"), *TRAIN),
            "resume": lambda: ("train", self.at("b.tsv"), "--out", self.at("run"), "--resume", *TRAIN),
            "force": lambda: ("train", self.at("b.tsv"), "--out", self.at("model"), "--force", "--seed", 7, *TRAIN),
            "update": lambda: ("update", self.at("model"), self.at("new.tsv"), "--out", self.at("new"), "--epochs", 1),
            "calibrate": lambda: ("calibrate", self.at("model"), self.at("new.tsv")),
            "tune": lambda: ("tune", self.at("b.tsv"), "--out", self.at("study"), "--trials", 1, *TUNE),
            "review": lambda: ("review", "apply", self.at("second.tsv"), "--out", self.at("decided")),
            "convert": lambda: ("data", "convert", self.at("b.tsv"), self.at("new.tsv")),
            "convert_folder": lambda: ("data", "convert", self.at("parts"), self.at("numbers"), "--to", "openke"),
            "complete": lambda: ("complete", self.at("model"), "--out", self.at("missing.tsv"), "--min-credence", 0),
            "export": lambda: ("export", self.at("model"), self.at("new.npz")),
            "index": lambda: ("index", self.at("model")),
            "split": lambda: ("data", "split", self.at("b.tsv"), self.at("dataset")),
            "audit": lambda: ("audit", self.at("model"), "--out", self.at("suspects.csv"), "--top", 9, "--show", 0),
            "judge": lambda: ("judge", self.at("model"), self.at("b.tsv"), "--out", self.at("judged.tsv")),
            "ask": lambda: ("ask", self.at("model"), "--questions", self.at("questions.tsv"), "--out", self.output),
            "evaluate": lambda: ("evaluate", self.at("model"), self.at("new.tsv"), "--json", self.at("report.json")),
            "negatives": lambda: ("data", "negatives", self.at("b.tsv"), self.at("labeled.tsv")),
            "duplicates": lambda: ("duplicates", self.at("model"), "--out", self.output, "--min-similarity", -1),
            "kb_import": lambda: ("kb", "import", self.at("kb.db"), self.at("new.tsv"), "--source", "more"),
            "kb_export": lambda: ("kb", "export", self.at("kb.db"), self.output),
        }[self.name]()
        self.before = content(self.folder)

    def at(self, name):
        return self.folder / name

    @property
    def output(self):
        return self.at(OUTPUTS[self.name])

    @property
    def log(self):
        return self.folder.with_suffix(".log")

    def finish(self):
        """Check what a command that was cut has left, go on with the next command, and check again.

        What existed is there, or was replaced as a whole. The next command ends well, and nothing of the cut one stays.
        """
        self._check_files()
        self._run(*self._look(), self._next())
        if self.name in OUTPUTS and self.cut != (self.base / OUTPUTS[self.name]).read_bytes():
            if self.name == "evaluate":  # which took other times
                json.loads(self.cut)
            else:
                assert self.cut == self.output.read_bytes(), "neither old nor new"
        assert hidden(self.folder) == [], hidden(self.folder)
        if self.name in FOLDERS:
            assert len(list(self.at(FOLDERS[self.name]).iterdir())) == 6, list(self.at(FOLDERS[self.name]).iterdir())

    def _check_files(self):
        now = content(self.folder)
        if self.name in (*ADDING, *OUTPUTS):
            lost = [name for name, checksum in self.before.items() if now.get(name) != checksum]
            lost = [name for name in lost if name != OUTPUTS.get(self.name) and not name.startswith("kb.db")]
            assert not lost, f"lost or changed: {lost}"
        if self.name == "resume":
            assert self.at("run/checkpoint.safetensors").exists() or self.at("run/model.json").exists()
        if self.name == "review":
            names = sorted(path.name for path in self.at("decided").iterdir())
            assert names in (["added.tsv", "labels.tsv", "retracted.tsv"], ["labels.tsv"]), names
        if self.name == "tune":
            journal = (self.base / "study" / "study.log").read_text()
            assert self.at("study/study.log").read_text().startswith(journal)
        if self.name in OUTPUTS:
            self.cut = self.output.read_bytes()

    def _look(self):
        """Commands that find the model or knowledge base as it was, or replaced as a whole."""
        if self.name in ("force", "calibrate", "index", "update", "train"):
            return [("check", self.at("model"))]
        return [("kb", "status", self.at("kb.db"))] if self.name.startswith("kb_") else []

    def _next(self):
        """The command that goes on."""
        folder = self.at(FOLDERS.get(self.name, "nowhere"))
        arguments = [part for part in self.arguments if part not in ("--resume", "--force")]
        if self.name == "split" and self.at("dataset").exists():
            arguments[-1] = self.at("again")
        if (folder / "checkpoint.safetensors").exists():
            arguments.append("--resume")
        elif (folder / "model.json").exists():
            arguments.append("--force")
        elif self.name == "complete" and self.at(".missing.tsv.search").exists():
            arguments.append("--resume")
        return tuple(arguments)

    def _run(self, *several):
        last = [("check", self.at(FOLDERS[self.name]))] if self.name in FOLDERS else []
        assert call(self.log, *several, *last) == 0, self.log.read_text()

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)


NAMES = ("train", "resume", "force", "update", "tune", "review", "convert", "convert_folder", "complete", "calibrate")
"""The commands that are killed."""

WRITING = (*NAMES, *("export", "index", "split", "kb_import"), *(name for name in OUTPUTS if name not in NAMES))
"""All commands that write."""


def prepare(folder):
    """The prepared folder of `tools`, with an unfinished run in it."""
    folder.mkdir()
    tools.prepare(folder)
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
