import math
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from doxa import cli, systems
from doxa.pbe import PBE
from doxa.training import race

ROOT = Path(__file__).parent.parent

settings.register_profile("doxa", derandomize=True, deadline=None)  # the same cases every time
settings.load_profile("doxa")


@pytest.fixture(scope="session", autouse=True)
def _no_race():
    """Where a test names no score, it trains the score translation and runs no race; tests of the race undo this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "FEWEST_POSITIVES", math.inf)
        patch.setattr(systems, "FIXED", ({"score": "translation"},) * 2)
        yield


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def memory_limits(monkeypatch):
    """The memory limits that tables of scores are made with, as a set that fills."""
    limits, blocks = set(), PBE.blocks

    def note(self, count, width=None, memory=0):
        limits.add(memory)
        return blocks(self, count, width, memory)

    monkeypatch.setattr(PBE, "blocks", note)
    return limits


@pytest.fixture
def doxa(monkeypatch, capsys):
    """Run a command; returns exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["doxa", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory):
    """A folder as after `make demo`: .venv/bin/doxa and the demo, trained once for all tests."""
    folder = tmp_path_factory.mktemp("tour")
    (folder / ".venv" / "bin").mkdir(parents=True)
    command = folder / ".venv" / "bin" / "doxa"
    start = shlex.join([sys.executable, "-c", "from doxa.cli import main; main()"])
    command.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
    command.chmod(0o755)
    assert "\n\t$(BIN)/doxa demo --out demo --force\n" in (ROOT / "Makefile").read_text(), "what make demo runs"
    shell(folder, ".venv/bin/doxa demo --out demo --force")
    return folder


def shell(folder, command, code=0):
    """What a command prints, errors included."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, check=False)
    assert run.returncode == code, run.stderr.decode()
    return run.stdout.decode() + run.stderr.decode()
