"""Runs the jobs of a knowledge base, one after the other, each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from typing import Any

import anyio
import anyio.to_thread

from doxa.errors import DoxaError
from doxa.storage.store.knowledge_base import KnowledgeBase

log = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two looks at the list of jobs."""

LAST_WORDS = 500
"""Characters of a failed process's errors that are kept."""


class Runner:
    """Takes waiting jobs, runs them, and ends those that are canceled."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._job: dict[str, Any] | None = None
        self._new = asyncio.Event()

    async def start(self) -> None:
        """Let the jobs wait again that an earlier server left, and begin to run them."""
        count = await anyio.to_thread.run_sync(self.kb.jobs.requeue)
        if count:
            log.warning("%d unfinished jobs are started again", count)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the running job; it waits for the next server."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._kill()
        if self._process is not None:
            await self._process.wait()
            await anyio.to_thread.run_sync(self.kb.jobs.requeue)

    def notice(self) -> None:
        """A job was added: do not wait for the next look."""
        self._new.set()

    def cancel(self, number: int) -> None:
        """End the process of a job that was canceled."""
        if self._job is not None and self._job["id"] == number:
            self._kill()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _run(self) -> None:
        while True:
            try:
                job = await anyio.to_thread.run_sync(self.kb.jobs.start)
                if job is not None:
                    await self._run_job(job)
                    continue
            except DoxaError as fault:
                log.warning("jobs cannot be read: %s", fault)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._new.wait(), INTERVAL)
            self._new.clear()

    async def _run_job(self, job: dict[str, Any]) -> None:
        message = {"place": self.kb.place.location, "curator": self.kb.curator, "server": os.getpid()} | {
            name: job[name] for name in ("id", "kind", "settings", "started")
        }
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        pipe = asyncio.subprocess.PIPE
        self._job = job
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "doxa.server.worker", stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe,
                env=environment,
            )  # fmt: skip
        except OSError as fault:  # no memory or no process left: the runner goes on
            self._job = None
            return await self._failed(job, f"the process cannot be started: {fault}")
        _, errors = await self._process.communicate(json.dumps(message).encode())
        words = errors.decode(errors="replace").strip()[-LAST_WORDS:]
        ended = f"the process ended with code {self._process.returncode}: {words}"
        self._process = self._job = None
        await self._failed(job, ended)

    async def _failed(self, job: dict[str, Any], message: str) -> None:
        """Record that a job failed, unless its process has recorded an end."""
        await anyio.to_thread.run_sync(
            lambda: self.kb.jobs.finish(job["id"], failed=True, message=message, started=job["started"])
        )
