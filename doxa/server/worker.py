"""A job in a process of its own, at low priority: `python -m doxa.server.worker`, with the job as JSON on its input.

It reports progress into the store. A report that the store refuses, because the job was canceled or another server has
taken it, ends the process. It ends with its server, and takes nothing from others from the beginning: what takes long
to import comes after.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from typing import Any

INTERVAL = 0.5
"""Least seconds between two reports."""

DIE_WITH_PARENT = 1
"""Linux: PR_SET_PDEATHSIG."""


class Stopped(Exception):
    """The job is no longer this process's."""


def main() -> int:
    """Do the job that the server writes to standard input."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.nice(19)
    job = json.load(sys.stdin)
    if os.getppid() != job["server"]:  # it ended before this process had begun
        return 1
    return _do(job)


def _do(job: dict[str, Any]) -> int:
    """Do a job, and record its end."""
    import torch

    from doxa.errors import DoxaError
    from doxa.server.work import run
    from doxa.storage.store.knowledge_base import KnowledgeBase

    torch.set_num_threads(1)
    kb = KnowledgeBase(job["place"], curator=job["curator"])
    last = 0.0

    def report(progress: float, message: str) -> None:
        nonlocal last
        if time.monotonic() - last > INTERVAL:
            last = time.monotonic()
            if os.getppid() != job["server"] or not kb.jobs.report(job["id"], progress, message, job["started"]):
                raise Stopped

    try:
        report(0.0, "")
        message, result = run(kb, job["kind"], job["settings"], report)
        kb.jobs.finish(job["id"], message=message, result=result, started=job["started"])
    except Stopped:
        return 1
    except DoxaError as fault:
        kb.jobs.finish(job["id"], failed=True, message=str(fault), started=job["started"])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
