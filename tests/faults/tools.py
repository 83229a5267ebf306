"""A fork server: doxa is imported once, and each command runs in a child, which costs a fraction of a second.

The server itself uses torch with one thread, and nothing of polars that starts threads: they do not survive a fork.
"""

import contextlib
import functools
import gc
import hashlib
import importlib
import io
import json
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

QUICK = ["--score", "translation", "--set", "dimension=4", "--set", "batch_size=16", "--set", "num_candidates=8",
         "--set", "threads=1", "--set", "patience=0", "--set", "checkpoint_seconds=0"]  # fmt: skip
"""Options of a training that takes a few steps and writes a checkpoint after each."""

OLD = b"old\n"
"""The content of a file that a command replaces."""

LONGEST = 120
"""Seconds after which a command counts as hanging."""


def import_everything():
    """Import every module of doxa, and what its commands import on first use."""
    import doxa

    for module in pkgutil.walk_packages(doxa.__path__, "doxa."):
        importlib.import_module(module.name)
    for name in (
        "optuna",
        "torch._dynamo",
        "sklearn.isotonic",
        "scipy.special",
        "scipy.optimize",
        "rich.progress",
        "rdflib",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def warm_up():
    """Train a little and build the command line, so that no child has to load compiled loops: most of its time."""
    import polars as pl
    import torch
    import typer.main
    from rich.cells import cell_len

    from doxa.cli import app
    from doxa.data import forks
    from doxa.data.beliefs import Beliefs, no_confidence
    from doxa.data.mentions import Ragged
    from doxa.data.vocabulary import Vocabularies, Vocabulary
    from doxa.model import fit

    torch.set_num_threads(1)
    forks._forked = True  # without the threads of polars
    names = [pl.Series(letters, dtype=pl.String) for letters in (list("abcdefghij"), ["r", "s"], [])]
    vocabularies = Vocabularies(*map(Vocabulary, names, ("entity", "relation", "word")))
    head = torch.arange(40).remainder(10).numpy()
    columns = (vocabularies, head, head % 2, (head * 3 + 1) % 10, Ragged.empty(40), no_confidence(40))
    values = {"dimension": 4, "epochs": 1, "batch_size": 16, "num_candidates": 8, "threads": 1, "patience": 0}
    fit(Beliefs(*columns), Beliefs(*columns), score="translation", **values)
    forks._forked = False
    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(app)
    cell_len("widths of characters, which the bars of progress need: ━…")
    assert not forks._has_threads(), "children would wait for threads that they lack"
    gc.collect()
    gc.freeze()


def shorten_demo():
    """Let the demo learn in one epoch what the atlas says of the places in its questions; it writes the same files."""
    from doxa.demo import atlas, run

    load = atlas.load

    def load_part():
        whole = load()
        names = {name for head, _, tail, _ in run.QUESTIONS for name in (head, tail)}
        kept = (whole.train["head"].is_in(names) | whole.train["tail"].is_in(names)).to_numpy()
        return atlas.Atlas(whole.train.filter(kept), whole.valid[:50], whole.test[:50], whole.planted[kept])

    run.SETTINGS, atlas.load = run.SETTINGS.changed(epochs=1, dimension=4), load_part


def start(action, log):
    """Run a function in a child whose output goes to a file; returns its process id."""
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    child = os.fork()
    if not child:  # until doxa runs, Ctrl-C ends the child, also where the background of a script ignores it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if child:
        return child
    code = 99
    try:
        with open(log, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        code = action() or 0
    except SystemExit as ending:
        code = ending.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def command(*arguments, temporary=None, text=""):
    """A command of doxa as a function for `start`, with a folder for temporary files and text on standard input."""

    from doxa.cli import main  # before the child starts: a signal then meets doxa, not the import of it

    def run():
        if temporary is not None:
            os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
        sys.dont_write_bytecode = True
        sys.argv = ["doxa", *map(str, arguments)]
        main()

    return run


def in_turn(*several, text=""):
    """Several commands of doxa as a function for `start`; the first that fails is the last."""

    def run():
        for arguments in several:
            try:
                command(*arguments, text=text)()
            except SystemExit as ending:
                if ending.code:
                    raise

    return run


class Patience:
    """Seconds until a command counts as hanging; time in which this process itself stood still does not count."""

    def __init__(self, seconds):
        self.left, self.last = seconds, time.monotonic()

    def is_over(self):
        now = time.monotonic()
        self.left, self.last = self.left - min(now - self.last, 1.0), now
        return self.left <= 0


def ended(child, longest=LONGEST):
    """The exit code of a child, negative for a signal; one that hangs is killed."""
    patience = Patience(longest)
    while not patience.is_over():
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"still running after {longest:.0f} s")


def call(log, *several, text=""):
    """Run commands, each a tuple, to their end in one child; returns the exit code of the last."""
    return ended(start(in_turn(*several, text=text), log))


def killed(log, seconds, *arguments, number=signal.SIGKILL):
    """Run a command and send it a signal after these seconds; returns its exit code, that of the signal or before."""
    child = start(command(*arguments), log)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)
    return ended(child)


def processor_seconds():
    """Those of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def content(path):
    """The files of a folder, or the file itself, by name: checksums of their content."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def hidden(folder):
    """Files and folders that a killed process may leave, at any depth."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*"))


@contextlib.contextmanager
def scratch():
    """A temporary folder, in memory where the system has one for that: it is written to very often."""
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="doxa-faults-", dir=shared))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def prepare(folder, old=()):
    """Data, a model, reviewed files, a search, and `old` files to replace, for the trials to copy."""

    def work():
        from doxa import formats
        from doxa.cli import main
        from doxa.data.benchmarks import RECORD
        from tests.worlds import board

        table = board(5, words=False)
        formats.write(table, folder / "b.tsv")
        formats.write(table[:7], folder / "new.tsv")
        (folder / "parts").mkdir()
        for name, rows in (("train", table), ("valid", table[:9])):
            formats.write(rows, folder / "parts" / f"{name}.tsv")
        for name, review in (("first", "accept\nb\tup\ta\t\tsuspect\twrong"), ("second", "reject")):
            rows = f"head\trelation\ttail\tsuggestion\tfinding\treview\na\tup\tb\t\tmissing\t{review}\n"
            (folder / f"{name}.tsv").write_text(rows)

        def run(*arguments):
            sys.argv = ["doxa", *map(str, arguments)]
            code = None
            try:
                main()
            except SystemExit as ending:
                code = ending.code
            assert not code, arguments

        run("train", folder / "b.tsv", "--out", folder / "model", "--set", "epochs=2", *QUICK)
        run("train", folder / "b.tsv", "--out", folder / "product", "--set", "epochs=1", *QUICK, "--score", "complex")
        run("review", "apply", folder / "first.tsv", "--out", folder / "decided")
        run("complete", folder / "model", "--out", folder / "missing.tsv", "--top", 3, "--min-credence", 0)
        (folder / "questions.tsv").write_text("1,1\tup\t?\n?\tright\t2,1\n")
        for name in (name for name in old if not (folder / name).exists()):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(OLD)
        (folder / "runs").mkdir(exist_ok=True)
        shutil.copytree(folder / "parts", folder / "sets" / "wn11")
        shutil.copy(folder / "b.tsv", folder / "sets" / "wn11" / "test.tsv")
        for name in ("data/train.tsv", "model/model.json", "reliability.png"):
            (folder / "earlier" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "earlier" / name).write_bytes(OLD)
        cached = folder / "cache" / "wn18rr"
        shutil.copytree(folder / "parts", cached)
        (cached / RECORD).write_text(json.dumps({"sha256": content(cached)}))
        run("kb", "init", folder / "kb.db")
        run("kb", "import", folder / "kb.db", folder / "b.tsv", "--source", "board")
        run("train", folder / "kb.db", "--out", folder / "live", "--set", "epochs=2", *QUICK)
        run("kb", "add", folder / "kb.db", "1,1", "up", "2,2")
        run("kb", "init", folder / "full.db")
        run("kb", "import", folder / "full.db", folder / "b.tsv", "--source", "board")
        run("train", folder / "full.db", "--out", folder / "first", "--set", "epochs=2", *QUICK)
        run("complete", folder / "first", "--into", folder / "full.db", "--min-credence", 0, "--top", 9)
        run("review", "decide", folder / "full.db", 1, "accept")
        run("review", "decide", folder / "full.db", 2, "reject")
        run("update", folder / "full.db", "--epochs", 1)
        run("kb", "account", "add", folder / "full.db", "bob")
        tune = ("--trials", 1, "--set", "epochs=1", *QUICK)
        run("tune", folder / "b.tsv", "--out", folder / "study", *tune)

    log = folder / "prepare.log"
    assert ended(start(work, log), 600) == 0, log.read_text()
    log.unlink()
