"""Reconciliation over HTTP, for OpenRefine and other clients of the W3C Reconciliation API 0.2."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, Response

from doxa.errors import UsageError
from doxa.server import reconciliation
from doxa.server.context import API, Context, Parts, as_json
from doxa.server.problems import PROBLEMS, Refused
from doxa.server.routes.names import entity_facts
from doxa.server.schemas import LONGEST_NAME, Lenient
from doxa.server.security import Requires

router = APIRouter(
    prefix=f"{API}/reconcile", tags=["reconciliation"], dependencies=[Depends(Requires("reader"))], responses=PROBLEMS
)

MOST_QUERIES, MOST_CELLS = 1000, 10_000

FORM = {"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {
    "queries": {"type": "string", "example": '{"q0": {"query": "Lyon", "limit": 3}}'},
    "extend": {"type": "string", "example": '{"ids": ["Lyon"], "properties": [{"id": "located in"}]}'},
}}}}  # fmt: skip


class Suggestion(Lenient):
    """A name to choose."""

    id: str
    name: str


class Suggestions(Lenient):
    """Names that match a prefix."""

    result: list[Suggestion]


class Properties(Lenient):
    """Properties to extend data with."""

    properties: list[Suggestion]


@router.get("", response_model=dict[str, Any], summary="The service, or matches of queries")
async def service(
    request: Request,
    parts: Parts,
    queries: str | None = Query(None, max_length=100_000, description="A batch of queries as JSON."),
    extend: str | None = Query(None, max_length=100_000, description="A data extension query as JSON."),
) -> Response:
    """The manifest of the service; with `queries` or `extend`, their results."""
    if queries is None and extend is None:
        address = str(request.base_url).rstrip("/") + f"{API}/reconcile"
        return as_json(reconciliation.manifest(address, parts.source.name))
    return await _results(parts, queries, extend)


@router.post(
    "",
    response_model=dict[str, Any],
    summary="Match names, or extend data",
    openapi_extra={"requestBody": {"required": True, "content": FORM}},
)
async def query(request: Request, parts: Parts) -> Response:
    """A form with `queries` (names to match, with types and properties) or `extend` (cells to fill), as JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Refused(415, "expected a form", "send application/x-www-form-urlencoded")
    form = await request.form()
    texts = {name: value for name in ("queries", "extend") if isinstance(value := form.get(name), str)}
    return await _results(parts, texts.get("queries"), texts.get("extend"))


async def _results(parts: Context, queries: str | None, extend: str | None) -> Response:
    served = parts.source.current
    if queries is not None:
        batch = _object(queries, "queries")
        if len(batch) > MOST_QUERIES:
            raise Refused(413, f"{len(batch):,} queries in one batch; at most {MOST_QUERIES:,}")
        if not all(isinstance(one, dict) and isinstance(one.get("query", ""), str) for one in batch.values()):
            raise UsageError("a query has no text", 'expected {"q0": {"query": "Lyon"}}')
        work = lambda: {key: reconciliation.matches(served, one) for key, one in batch.items()}  # noqa: E731
    elif extend is not None:
        wanted = _object(extend, "extend")
        lists = [wanted.get(name) for name in ("ids", "properties")]
        cells = math.prod(len(one) if isinstance(one, list) else 0 for one in lists)
        if cells > MOST_CELLS:
            raise Refused(413, f"{cells:,} cells in one query; at most {MOST_CELLS:,}")
        work = lambda: reconciliation.extend(served, wanted)  # noqa: E731
    else:
        raise UsageError("the form has neither queries nor extend")
    try:
        return as_json(await parts.slow.run(work))
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as fault:
        if isinstance(fault, UsageError):
            raise
        raise UsageError("the query does not fit the specification") from fault


def _object(text: str, name: str) -> dict[str, Any]:
    """A JSON object of the form."""
    try:
        value = json.loads(text)
        text.encode()
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{name} is no JSON object")
    return value


@router.get("/suggest/{kind}", response_model=Suggestions, summary="Suggestions while somebody types")
async def suggest(
    parts: Parts,
    kind: Literal["entity", "property", "type"],
    prefix: str = Query("", max_length=1000),
    cursor: int = Query(0, ge=0, le=1000),
) -> Response:
    """Entities, properties or types whose name matches a prefix."""
    served = parts.source.current

    def work() -> Any:
        if kind == "type":
            return {"result": [reconciliation.TYPE]}
        if kind == "property":
            return {"result": reconciliation.properties(served, prefix, 10)}
        matches = served.entities.search(prefix, cursor + 10)[cursor:]
        return {"result": [{"id": one.name, "name": one.name, "description": f"{one.facts:,} facts"}
                           for one in matches]}  # fmt: skip

    return as_json(await parts.quick(work))


@router.get("/properties", response_model=Properties, summary="Properties to extend data with")
async def properties(
    parts: Parts, type: str = Query("entity", max_length=1000), limit: int = Query(50, ge=1, le=1000)
) -> Response:
    """The relations of the knowledge base, those with most facts first, and their inverses."""
    served = parts.source.current

    def work() -> Any:
        return {"type": type, "limit": limit, "properties": reconciliation.properties(served, "", limit)[:limit]}

    return as_json(await parts.quick(work))


@router.get("/preview", response_class=HTMLResponse, summary="A small page about an entity")
async def preview(parts: Parts, id: str = Query(min_length=1, max_length=LONGEST_NAME)) -> Response:
    """Known facts of an entity, to be shown in a frame."""
    served = parts.source.current

    def work() -> str:
        entity = entity_facts(served.model, id, 12)
        return reconciliation.preview(served, entity["name"], entity["facts"], entity["total"])

    shown_in = " ".join(("'self'", *parts.origins))
    headers = {"Content-Security-Policy": f"default-src 'none'; frame-ancestors {shown_in}"}
    return HTMLResponse(await parts.quick(work), headers=headers)
