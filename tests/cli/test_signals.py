"""The command line under signals: killed, interrupted, resumed. Real processes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from doxa import formats as files
from doxa.model import Model
from tests.model_folders import part
from tests.worlds import board


def run_doxa(*arguments, **options):
    code = "from doxa.cli import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], **options)


def test_killed_and_resumed_ends_like_never_killed(tmp_path):
    """SIGKILL in the middle of a run, then --resume: the same weights, bit for bit."""
    data = tmp_path / "b.tsv"
    files.write(board(12), data)
    options = ["--score", "translation", "--set", "epochs=80", "--set", "dimension=16", "--set", "batch_size=16",
               "--set", "patience=0", "--set", "threads=1", "--set", "checkpoint_seconds=0.1"]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    whole = run_doxa("train", data, "--out", tmp_path / "whole", *options, **quiet)
    killed = run_doxa("train", data, "--out", tmp_path / "killed", *options, **quiet)
    deadline = time.monotonic() + 60
    while not (tmp_path / "killed" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "killed" / "model.json").exists()
    assert run_doxa("ask", tmp_path / "killed", "a", "r", "?", **quiet).wait() == 1
    assert run_doxa("train", data, "--out", tmp_path / "killed", *options, "--resume", **quiet).wait() == 0
    assert whole.wait() == 0
    weights = [part(tmp_path / name, "weights") for name in ("whole", "killed")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert len(list((tmp_path / "killed").iterdir())) == 6  # no checkpoint, and nothing of the killed run


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_leave_a_usable_model_that_can_be_resumed(number, code, tmp_path):
    data, out = tmp_path / "b.tsv", tmp_path / "m"
    files.write(board(12), data)
    options = ["--score", "translation", "--set", "epochs=100000", "--set", "dimension=16", "--set", "threads=1",
               "--set", "patience=0", "--set", "checkpoint_seconds=0.1"]  # fmt: skip
    run = run_doxa("train", data, "--out", out, *options, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (out / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(number)
    _, err = run.communicate(timeout=60)
    assert run.returncode == code
    assert "the model is usable" in err
    model = Model.load(out)
    assert model.origin["interrupted"]
    assert len(model.tails("1,1", "up")) == 10
    assert (out / "checkpoint.safetensors").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_interrupted_while_it_writes_leaves_the_old_file(number, code, tmp_path):
    """Standard input stays open, so that the command is in the middle of its work."""
    (tmp_path / "out.tsv").write_text("a\tr\tb\n")
    run = run_doxa("data", "convert", "-", tmp_path / "out.tsv", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".doxa-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(tmp_path.glob(".doxa-*"))
    run.send_signal(number)
    assert run.wait(60) == code
    assert b"Traceback" not in run.stderr.read()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.tsv", "a\tr\tb\n")]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="reads children from /proc")
def test_workers_do_not_outlive_a_killed_run(tmp_path):
    data = tmp_path / "b.tsv"
    files.write(board(12), data)
    options = ["--score", "translation", "--workers", "2", "--set", "epochs=100000", "--set", "patience=0"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = run_doxa("train", data, "--out", tmp_path / "m", *options, **quiet)
    deadline, children = time.monotonic() + 60, []
    while len(children) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        with open(f"/proc/{run.pid}/task/{run.pid}/children") as listed:
            children = listed.read().split()
    run.kill()
    run.wait()
    while any(_running(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(children) == 2
    assert not any(_running(child) for child in children)


def _running(process):
    try:
        with open(f"/proc/{process}/stat") as state:
            return state.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disks_and_arguments_that_are_no_text_have_sentences_of_their_own():
    with open("/dev/full", "w") as full:
        run = run_doxa("systems", stdout=full, stderr=subprocess.PIPE, text=True)
        _, err = run.communicate()
    assert run.returncode == 1
    assert "no space left on device" in err
    assert "fault in doxa" not in err
    code = "from doxa.cli import main; main()"
    command = [sys.executable.encode(), b"-c", code.encode(), b"info", b"caf\xe9"]
    ended = subprocess.run(command, capture_output=True, check=False)
    assert ended.returncode == 2
    assert b"is not UTF-8 text" in ended.stderr


class Panic(BaseException):
    """As a library in Rust raises it."""


@pytest.mark.parametrize("error", [SystemError, Panic])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_a_library_turns_into_an_error_is_an_interrupt_and_no_fault(
    doxa, monkeypatch, number, code, error
):
    """Compiled loops, torch and polars raise errors of their own where Ctrl-C meets them."""

    def fails(interrupt):
        try:
            if interrupt:
                signal.raise_signal(number)
        except KeyboardInterrupt:
            raise error("returned a result with an exception set") from None
        raise error("no signal")

    monkeypatch.setattr(sys.modules["doxa.cli.app"], "app", lambda: fails(True))
    assert doxa("data", "list") == (code, "", "")
    monkeypatch.setattr(sys.modules["doxa.cli.app"], "app", lambda: fails(False))
    ended, _, err = doxa("data", "list")
    assert ended == 1
    assert "this is a fault in doxa" in err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_DFL, signal.SIG_IGN])
def test_ctrl_c_is_an_interrupt_unless_it_is_ignored(doxa, monkeypatch, before):
    monkeypatch.setattr(sys.modules["doxa.cli.app"], "app", lambda: signal.raise_signal(signal.SIGINT))
    kept = signal.signal(signal.SIGINT, before)
    try:
        code, _, err = doxa("data", "list")
        assert (code, err) == (0 if before == signal.SIG_IGN else 130, "")
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, kept)
