"""A short form of the fault harness, in a process of its own: `make test-faults` runs all of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import writes

ROOT = Path(__file__).parents[2]


def harness(*arguments):
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    run = [sys.executable, "-m", "tests.faults", *arguments, "--seed", "1"]
    ended = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kills_and_damaged_folders():
    harness("kills", "folders", "--scale", "0.003")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kills_and_reviewers_of_a_store():
    harness("store", "reviewers", "--scale", "0.01")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kills_of_a_server():
    harness("server", "--scale", "0.015")


@pytest.mark.skipif(bool(writes.why_not()), reason=writes.why_not() or "writes can be made to fail")
def test_failing_writes():
    harness("writes", "--scale", "0.001")
