"""Whether the server lives, whether it is ready, and its figures."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel

from doxa import __version__
from doxa.server.context import Parts
from doxa.server.problems import PROBLEMS, refusal
from doxa.server.security import Requires

router = APIRouter(tags=["health"], responses=PROBLEMS)

ANYBODY = [Depends(Requires(None))]


class Status(BaseModel):
    """The state of the server: the version of doxa, or that of the model in use."""

    status: str
    doxa: str | None = None
    version: str | None = None


@router.get(
    "/healthz", response_model=Status, dependencies=[Depends(Requires(None))], summary="Whether the server lives"
)
async def health() -> JSONResponse:
    """Always 200."""
    return JSONResponse({"status": "ok", "doxa": __version__})


@router.get(
    "/readyz", response_model=Status, dependencies=[Depends(Requires(None))], summary="Whether the server is ready"
)
async def ready(parts: Parts) -> Response:
    """200 as soon as the server answers questions, 503 before."""
    if not parts.source.ready:
        return refusal(503, "no model is loaded", headers={"Retry-After": "1"})
    return JSONResponse({"status": "ready", "version": parts.source.current.version})


@router.get(
    "/metrics",
    dependencies=[Depends(Requires("reader"))],
    response_class=PlainTextResponse,
    summary="Figures for Prometheus",
)
async def metrics(parts: Parts) -> Response:
    """Requests, times, memory and the model in use, in the text format of Prometheus."""
    return Response(parts.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
