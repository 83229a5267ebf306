"""What the routes of one server share, and how they answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import anyio.to_thread
from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic_core import to_json

from doxa.errors import DoxaError
from doxa.server.batcher import Batcher
from doxa.server.limits import Limits, SlowLane
from doxa.server.metrics import Metrics
from doxa.server.runner import Runner
from doxa.server.security import Keys, Principal
from doxa.server.served import Served, Source

if TYPE_CHECKING:
    from doxa.storage.store.knowledge_base import KnowledgeBase

log = logging.getLogger(__name__)

API = "/api/v1"

LOOK = 1.0
"""Seconds between two looks for a newly published model."""


@dataclass
class Context:
    """The parts of a server."""

    source: Source
    keys: Keys
    limits: Limits
    metrics: Metrics
    batcher: Batcher
    slow: SlowLane
    origins: tuple[str, ...] = ()
    runner: Runner | None = None
    lane: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(8))

    _watch: asyncio.Task[None] | None = None
    _names: asyncio.Task[Any] | None = None

    async def start(self) -> None:
        """Load the model and begin to answer."""
        self.batcher.start()
        await self.refresh()
        if self.source.kb is not None:
            self.runner = Runner(self.source.kb)
            await self.runner.start()
            self._watch = asyncio.create_task(self._watching())
        if self.source.ready:
            self._names = asyncio.create_task(self._index_names())

    async def stop(self) -> None:
        """Finish what waits."""
        for task in (self._watch, self._names):
            if task is not None:
                task.cancel()
        if self.runner is not None:
            await self.runner.stop()
        await anyio.to_thread.run_sync(self.batcher.stop)

    async def _index_names(self) -> None:
        """Index the names of the first model, after the first requests."""
        await asyncio.sleep(LOOK)
        await self.quick(self.source.current.index_names)

    async def _watching(self) -> None:
        """Put models in use that jobs or other programs publish."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                await self.refresh()
            except (DoxaError, OSError) as fault:
                log.warning("the live model cannot be loaded, the former one stays in use: %s", fault)

    def signed(self, who: Principal) -> KnowledgeBase:
        """The knowledge base, where decisions are signed with the name of the sender."""
        kb: KnowledgeBase = self.source.store()
        return kb.signed_by(who.name)

    async def refresh(self) -> bool:
        """Put a newly published model in use, without a pause; whether there was one."""
        changed = await anyio.to_thread.run_sync(self.source.refresh)
        if self.source.ready:
            self.metrics.model.info({"version": self.source.current.version})
        return bool(changed)

    async def slow_json(self, work: Callable[[], Any]) -> bytes:
        """The result of a slow function as JSON; the event loop does none of it."""
        content: bytes = await self.slow.run(lambda: encoded(work()))
        return content

    async def quick(self, work: Callable[[], Any]) -> Any:
        """Run a function of a few milliseconds in a thread."""
        return await anyio.to_thread.run_sync(work, limiter=self.lane)


async def context_of(request: Request) -> Context:
    """The parts of the server that a request came to; a plain function would take a thread for each request."""
    context: Context = request.app.state.context
    return context


Parts = Annotated[Context, Depends(context_of)]


def encoded(data: Any) -> bytes:
    """Data as JSON; numbers that JSON cannot hold become null."""
    return to_json(data, inf_nan_mode="null")


def as_json(data: Any, headers: dict[str, str] | None = None) -> Response:
    """A response with data as JSON."""
    return Response(encoded(data), headers=headers, media_type="application/json")


def version_headers(served: Served) -> dict[str, str]:
    """The headers of a response that depends on the model and nothing else."""
    return {"ETag": served.etag, "Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}


async def by_version(
    request: Request, served: Served, answer: Callable[[], Awaitable[Any]], media_type: str = "application/json"
) -> Response:
    """The answer of this version of the model, or 304 if the client has it already."""
    headers = version_headers(served)
    tags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if served.etag in tags:
        return Response(status_code=304, headers=headers)
    content = await answer()
    return Response(content if isinstance(content, bytes) else encoded(content), headers=headers, media_type=media_type)
