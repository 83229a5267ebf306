"""The application: routes, the gate before them, and the page."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import JSONResponse
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from doxa import __version__
from doxa.server import problems
from doxa.server.batcher import Batcher
from doxa.server.context import API, Context
from doxa.server.gate import Gate
from doxa.server.limits import Limits, SlowLane
from doxa.server.metrics import Metrics
from doxa.server.page import add_page
from doxa.server.routes import (
    accounts,
    beliefs,
    curation,
    export,
    health,
    jobs,
    models,
    names,
    questions,
    reconcile,
    review,
)
from doxa.server.security import Keys, Requires
from doxa.server.served import Source
from doxa.server.tool_route import ToolRoute

ABOUT = """Ask, judge, explain and complete a knowledge base with probabilities.

Reading from this machine needs no token. Everything else needs `Authorization: Bearer TOKEN`.
Errors are `application/problem+json` (RFC 9457). Responses that depend on the model alone have its version as ETag.
"""

SWITCH_INTERVAL = 0.00005
"""Seconds after which a thread that computes lets another one run: the default of 5 ms is felt in response times."""


@dataclass(frozen=True)
class Options:
    """How a server is reached. `token` is the admin's; `local` lets this machine read without it."""

    token: str | None = None
    owner: str = "admin"
    local: bool = True
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


def create_app(source: Source, options: Options | None = None, limits: Limits | None = None) -> FastAPI:
    """The application that serves a source."""
    options, limits = options or Options(), limits or Limits()
    keys = Keys(options.token, options.owner, source.kb.accounts if source.kb is not None else None)
    context = Context(source, keys, limits, Metrics(), Batcher(), SlowLane(limits), options.origins)
    tools = ToolRoute(context)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)
        await context.start()
        try:
            yield
        finally:
            await tools.stop()
            await context.stop()
            sys.setswitchinterval(before)

    app = FastAPI(
        title="doxa",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.context = context
    problems.install(app)
    _add_routes(app)
    app.router.routes.append(Route("/mcp", tools, include_in_schema=False))
    if options.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["authorization", "content-type", "if-none-match"],
            expose_headers=["etag"],
        )
    app.add_middleware(
        Gate,
        keys=keys,
        limits=limits,
        metrics=context.metrics,
        hosts=frozenset(options.hosts),
        origins=frozenset(options.origins),
        local=options.local,
    )
    return app


def families() -> Iterable[APIRouter]:
    """The routers of the API."""
    modules = (questions, names, curation, beliefs, review, jobs, models, export, accounts, reconcile)
    return [module.router for module in modules]


def _add_routes(app: FastAPI) -> None:
    for router in (*families(), health.router):
        app.router.routes.extend(router.routes)  # as they are: include_router would build each of them once more

    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = problems.with_problems(plain())
            schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"token": []}, {}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]

    @app.get(f"{API}/openapi.json", include_in_schema=False, dependencies=[Depends(Requires(None))])
    async def openapi() -> JSONResponse:
        return JSONResponse(app.openapi())

    add_page(app)
