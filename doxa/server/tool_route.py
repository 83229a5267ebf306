"""The tools of language models (MCP) over HTTP. Their SDK takes a second to import: the first request waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio.to_thread
from starlette.types import Receive, Scope, Send

from doxa.server.context import Context
from doxa.server.problems import refusal
from doxa.server.security import Principal

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class ToolRoute:
    """An ASGI application for readers. Its sessions begin with the first request and end with `stop`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._sessions: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._running: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal = scope["state"]["principal"]
        if not principal.may("reader"):
            refused = refusal(401, "this needs a token", headers={"WWW-Authenticate": 'Bearer realm="doxa"'})
            await refused(scope, receive, send)
            return
        if self._sessions is None:
            self._sessions = asyncio.get_running_loop().create_future()
            self._running = asyncio.create_task(self._run(self._sessions))
        sessions = await asyncio.shield(self._sessions)  # others wait for it, too
        await sessions.handle_request(scope, receive, send)

    async def stop(self) -> None:
        """End the sessions."""
        self._ended.set()
        if self._running is not None:
            await self._running

    async def _run(self, begun: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """Hold the sessions open in one task, as their library demands."""
        try:
            sessions = await anyio.to_thread.run_sync(self._make)
            async with sessions.run():
                begun.set_result(sessions)
                await self._ended.wait()
        except Exception as fault:
            if begun.done():
                raise
            self._sessions = None  # the next request tries again
            begun.set_exception(fault)

    def _make(self) -> StreamableHTTPSessionManager:
        from doxa.server.tools import http_sender, sessions_of, tool_server

        context = self.context
        return sessions_of(tool_server(context.source, http_sender, context.slow.run, context.limits.searched))
