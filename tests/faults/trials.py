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
from tests.faults.tools import OLD, QUICK, call, content, hidden

TRAIN = ("--set", "epochs=2", *QUICK)
OUTPUTS = {
    "convert": ("new.tsv",),
    "complete": ("missing.tsv",),
    "audit": ("suspects.csv",),
    "judge": ("judged.tsv",),
    "ask": ("answers.jsonl",),
    "evaluate": ("report.json", "reliability.png"),
    "compare": ("comparison.json",),
    "negatives": ("labeled.tsv",),
    "generate": ("made.csv.zst",),
    "inspect": ("overview.png",),
    "duplicates": ("pairs.tsv",),
    "explain": ("explanation.html",),
    "map": ("map.png", "map.html"),
    "reproduce": ("results/results.md", "results/results.png"),
    "kb_export": ("beliefs.nt",),
    "kb_decisions": ("decisions.tsv",),
    "kb_prov": ("log.ttl",),
    "kb_log": ("log.tsv",),
}
"""Files that a command replaces: each is the old one or the new one, whenever the command was cut."""

TIMED = ("report.json", "comparison.json")
"""Outputs with the seconds that the command took: no two are equal."""

FOLDERS = {"train": "new", "resume": "run", "force": "model", "update": "new", "kb_train": "new"}
"""Model folders that a command writes."""

EXPORTS = {"export": "new.npz", "export_parquet": "new.parquet", "export_words": "new.txt", "export_projector": "new"}
"""Files with the vectors of a model, and a folder of TensorBoard's projector."""

ADDING = ("train", "update", "convert_folder", "split", "get", "kb_init", "kb_backup", "kb_train", *EXPORTS)
"""Commands that only add files."""

NEW = {"split": "dataset", "kb_init": "new.db", "kb_backup": "new.db"}
"""What a command makes under the name that is its last argument, and replaces nothing."""

TUNE = ("--set", "epochs=1", *QUICK)


@dataclass
class Trial:
    """A folder copied from the prepared one, a command in it, and the checks of what the command leaves."""

    name: str
    base: object
    folder: object
    arguments: tuple = ()
    before: dict = field(default_factory=dict)
    cut: dict = field(default_factory=dict)

    def __post_init__(self):
        shutil.copytree(self.base, self.folder)
        os.environ["DOXA_CACHE"] = str(self.at("cache"))
        arguments = {
            "train": lambda: ("train", self.at("b.tsv"), "--out", self.at("new"), *TRAIN),
            "resume": lambda: ("train", self.at("b.tsv"), "--out", self.at("run"), "--resume", *TRAIN),
            "force": lambda: ("train", self.at("b.tsv"), "--out", self.at("model"), "--force", "--seed", 7, *TRAIN),
            "update": lambda: ("update", self.at("model"), self.at("new.tsv"), "--out", self.at("new"), "--epochs", 1),
            "calibrate": lambda: ("calibrate", self.at("model"), self.at("new.tsv")),
            "tune": lambda: ("tune", self.at("b.tsv"), "--out", self.at("study"), "--trials", 1, *TUNE),
            "review": lambda: ("review", "apply", self.at("second.tsv"), "--out", self.at("decided")),
            "convert": lambda: ("data", "convert", self.at("b.tsv"), self.output),
            "convert_folder": lambda: ("data", "convert", self.at("parts"), self.at("numbers"), "--to", "openke"),
            "complete": lambda: ("complete", self.at("model"), "--out", self.output, "--min-credence", 0),
            "index": lambda: ("index", self.at("model")),
            "split": lambda: ("data", "split", self.at("b.tsv"), self.at("dataset")),
            "audit": lambda: ("audit", self.at("model"), "--out", self.output, "--top", 9, "--show", 0),
            "judge": lambda: ("judge", self.at("model"), self.at("b.tsv"), "--out", self.output),
            "ask": lambda: ("ask", self.at("model"), "--questions", self.at("questions.tsv"), "--out", self.output),
            "evaluate": lambda: ("evaluate", self.at("model"), self.at("new.tsv"), "--json", self.output,
                                 "--plot", self.at("reliability.png")),
            "compare": lambda: ("compare", self.at("model"), self.at("model"), self.at("new.tsv"), "--keep-known",
                                "--json", self.output),
            "negatives": lambda: ("data", "negatives", self.at("b.tsv"), self.output),
            "generate": lambda: ("data", "generate", self.output, "--beliefs", 50, "--entities", 9, "--relations", 2),
            "inspect": lambda: ("data", "inspect", self.at("b.tsv"), "--plot", self.output),
            "get": lambda: ("data", "get", "wn18rr", "--out", self.at("got")),
            "duplicates": lambda: ("duplicates", self.at("model"), "--out", self.output, "--min-similarity", -1),
            "explain": lambda: ("explain", self.at("model"), "1,1", "up", "1,2", "--html", self.output),
            "map": lambda: ("map", self.at("model"), "--layout", "pca", "--out", self.at("map")),
            "reproduce": lambda: ("reproduce", "report", "--out", self.at("results")),
            "kb_init": lambda: ("kb", "init", self.at("new.db")),
            "kb_import": lambda: ("kb", "import", self.at("kb.db"), self.at("new.tsv"), "--source", "more"),
            "kb_add": lambda: ("kb", "add", self.at("kb.db"), "a", "up", "b"),
            "kb_retract": lambda: ("kb", "retract", self.at("kb.db"), "1,1", "up", "1,2"),
            "kb_rename": lambda: ("kb", "rename", self.at("kb.db"), "1,1", "corner"),
            "kb_merge": lambda: ("kb", "merge", self.at("kb.db"), "1,1", "1,2"),
            "kb_undo": lambda: ("kb", "undo", self.at("kb.db"), 1),
            "kb_account": lambda: ("kb", "account", "add", self.at("kb.db"), "ann", "--role", "curator"),
            "kb_export": lambda: ("kb", "export", self.at("kb.db"), self.output),
            "kb_decisions": lambda: ("kb", "export", self.at("kb.db"), self.output, "--decisions"),
            "kb_prov": lambda: ("kb", "export", self.at("kb.db"), self.output, "--prov"),
            "kb_log": lambda: ("kb", "log", self.at("kb.db"), "--out", self.output),
            "kb_backup": lambda: ("kb", "backup", self.at("kb.db"), self.at("new.db")),
            "kb_update": lambda: ("update", self.at("kb.db"), "--epochs", 1),
            "kb_train": lambda: ("train", self.at("kb.db"), "--out", self.at("new"), *TRAIN),
        }  # fmt: skip
        exports = {name: ("export", self.at("model"), self.at(file)) for name, file in EXPORTS.items()}
        self.arguments = exports[self.name] if self.name in exports else arguments[self.name]()
        self.before = content(self.folder)

    def at(self, name):
        return self.folder / name

    @property
    def output(self):
        return self.at(OUTPUTS[self.name][0])

    @property
    def log(self):
        return self.folder.with_suffix(".log")

    def finish(self):
        """Check what a command that was cut has left, go on with the next command, and check again.

        What existed is there, or was replaced as a whole. The next command ends well, and nothing of the cut one stays.
        """
        self._check_files()
        self._run(*self._look(), self._next())
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
            lost = [name for name in lost if name not in OUTPUTS.get(self.name, ()) and not name.startswith("kb.db")]
            assert not lost, f"lost or changed: {lost}"
        if self.name == "resume":
            assert self.at("run/checkpoint.safetensors").exists() or self.at("run/model.json").exists()
        if self.name == "review":
            names = sorted(path.name for path in self.at("decided").iterdir())
            assert names in (["added.tsv", "labels.tsv", "retracted.tsv"], ["labels.tsv"]), names
        if self.name == "kb_update":
            assert len(list(self.at("kb.models").glob("*"))) == self._versions() - 1, "a model without a version"
        if self.name == "tune":
            journal = (self.base / "study" / "study.log").read_text()
            assert self.at("study/study.log").read_text().startswith(journal)
        self.cut = {name: self.at(name).read_bytes() for name in OUTPUTS.get(self.name, ())}

    def _versions(self):
        """The number of models that the knowledge base has recorded."""
        with contextlib.closing(sqlite3.connect(self.at("kb.db"))) as connection:
            return connection.execute("SELECT count(*) FROM model_version").fetchone()[0]

    def _look(self):
        """Commands that find the model or knowledge base as it was, or replaced as a whole."""
        if self.name in ("force", "calibrate", "index", "update", "train"):
            return [("check", self.at("model"))]
        places = [self.at(name) for name in ("kb.db", "new.db")] if self.name.startswith("kb_") else []
        return [("kb", "status", place) for place in places if place.exists()]

    def _next(self):
        """The command that goes on."""
        folder = self.at(FOLDERS.get(self.name, "nowhere"))
        arguments = [part for part in self.arguments if part not in ("--resume", "--force")]
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
        assert call(self.log, *several, *last) == 0, self.log.read_text()

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)


NAMES = ("train", "resume", "force", "update", "tune", "review", "convert", "convert_folder", "complete", "calibrate")
"""The commands that are killed."""

CHANGES = ("import", "add", "retract", "rename", "merge", "undo", "account", "update")
"""What changes a knowledge base in place."""

WRITING = tuple(dict.fromkeys((*NAMES, *ADDING, *OUTPUTS, "index", *(f"kb_{name}" for name in CHANGES))))
"""All commands that write."""


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
