"""The process that decodes Parquet files before this one does; one process checks all files in turn."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from doxa.errors import BadFile
from doxa.formats import parquet_check

_lock = threading.Lock()
_running: dict[int, subprocess.Popen[str]] = {}
"""The checking process of this process, by its id: a forked process starts one of its own."""


@contextlib.contextmanager
def checker(name: str, seconds: float) -> Iterator[Callable[[Any], dict[str, Any]]]:
    """A function that sends a message and returns the answer, for one file; `name` is that of the file in messages.

    A file that ends the process, or takes longer than `seconds`, is refused.
    """
    with _lock:
        process = _process()
        timer = threading.Timer(seconds, process.kill)
        timer.daemon = True
        timer.start()
        state = "idle"

        def ask(message: Any) -> dict[str, Any]:
            nonlocal state
            state = "unanswered"
            _send(process, message)
            line = process.stdout.readline() if process.stdout else ""
            answer = json.loads(line) if line.endswith("\n") else {"fault": "decoding it ends the process"}
            if line:
                state = "waiting" if "columns" in answer else "idle"
            if "fault" in answer:
                raise BadFile(f"{name}: not a whole Parquet file ({answer['fault']})")
            return dict(answer)

        try:
            yield ask
        finally:
            timer.cancel()
            if state == "waiting":
                _send(process, None)
            elif state == "unanswered":  # it ended, or this process was interrupted
                _stop()


def _send(process: subprocess.Popen[str], message: Any) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(message), file=process.stdin, flush=True)


def _process() -> subprocess.Popen[str]:
    process = _running.get(os.getpid())
    if process is None or process.poll() is not None:
        process = subprocess.Popen(
            [sys.executable, "-I", parquet_check.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        _running.clear()
        _running[os.getpid()] = process
    return process


@atexit.register
def _stop() -> None:
    """End the checking process, if there is one."""
    process = _running.pop(os.getpid(), None)
    if process is not None:
        process.kill()
        process.communicate()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
