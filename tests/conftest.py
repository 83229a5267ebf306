import sys

import pytest
import torch
from hypothesis import settings

from doxa import cli

settings.register_profile("doxa", derandomize=True, deadline=None)  # the same cases every time
settings.load_profile("doxa")


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


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
