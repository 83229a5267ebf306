import sys

import pytest
import torch
from hypothesis import settings

from doxa import cli
from doxa.pbe import PBE

settings.register_profile("doxa", derandomize=True, deadline=None)  # the same cases every time
settings.load_profile("doxa")


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
