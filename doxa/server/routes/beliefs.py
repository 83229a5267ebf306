"""Beliefs of a knowledge base: add, retract, undo, history, log, and import by upload."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import Field

from doxa import formats
from doxa.errors import BadFile
from doxa.formats import Options
from doxa.formats.registry import FORMATS
from doxa.server import schemas
from doxa.server.context import API, Parts, as_json
from doxa.server.problems import PROBLEMS
from doxa.server.routes.review import DecisionOut
from doxa.server.security import Principal, Requires

router = APIRouter(prefix=f"{API}/beliefs", tags=["beliefs"], responses=PROBLEMS)

Curator = Annotated[Principal, Depends(Requires("curator"))]
Reader = Annotated[Principal, Depends(Requires("reader"))]
Admin = Annotated[Principal, Depends(Requires("admin"))]

NonEmpty = Annotated[str, Field(min_length=1, max_length=schemas.LONGEST_NAME)]


class NewBelief(schemas.Body):
    """A belief to add. `source` is a label that is kept; nothing is read from it."""

    head: NonEmpty = Field(examples=["Lyon"])
    relation: NonEmpty = Field(examples=["located in"])
    tail: NonEmpty = Field(examples=["France"])
    mention: schemas.Name | None = Field(None, examples=["Lyon is a city in France"])
    confidence: float | None = Field(None, gt=0, le=1)
    source: schemas.Name | None = None
    note: schemas.Name | None = None


class Retracted(schemas.Body):
    """A belief to retract."""

    head: NonEmpty
    relation: NonEmpty
    tail: NonEmpty
    reason: schemas.Name | None = None
    note: schemas.Name | None = None


class Undone(schemas.Body):
    """A decision to undo."""

    decision: int = Field(ge=1, le=2**62)
    note: schemas.Name | None = None


class LogEntry(schemas.Lenient):
    """A decision of the log; `effective` is false where a later one undid it."""

    decision: int
    at: int = Field(description="Microseconds since 1970.")
    curator: str
    verdict: str
    head: str | None
    relation: str | None
    tail: str | None
    effective: bool


class LogOut(schemas.Lenient):
    """Decisions, in order."""

    decisions: list[LogEntry]


class HistoryOut(LogOut):
    """Whether a belief holds, what states it, and everything that was decided about it."""

    holds: bool
    assertions: list[dict[str, Any]]


class ChangeOut(schemas.Lenient):
    """A belief that was decided since the model in use was trained: whether it holds now, and the model knows it."""

    head: str
    relation: str
    tail: str
    holds: bool
    known: bool
    decision: int
    curator: str


class ChangesOut(schemas.Lenient):
    """Beliefs that were decided since the model in use was trained, in the order of the decisions."""

    changes: list[ChangeOut]


@router.post("", response_model=DecisionOut, summary="Add a belief")
async def add(parts: Parts, who: Curator, belief: NewBelief) -> Response:
    """State a belief."""
    kb, values = parts.signed(who), belief.model_dump(exclude={"head", "relation", "tail"})
    triple = (belief.head, belief.relation, belief.tail)
    return as_json(await parts.quick(lambda: {"decision": kb.add(*triple, **values)}))


@router.post("/retract", response_model=DecisionOut, summary="Retract a belief")
async def retract(parts: Parts, who: Curator, belief: Retracted) -> Response:
    """Remove a belief that the knowledge base holds; no import brings it back, undo does."""
    kb = parts.signed(who)
    triple = (belief.head, belief.relation, belief.tail)
    return as_json(await parts.quick(lambda: {"decision": kb.retract(*triple, reason=belief.reason, note=belief.note)}))


@router.post("/undo", response_model=DecisionOut, summary="Undo a decision")
async def undo(parts: Parts, who: Curator, what: Undone) -> Response:
    """Undo any decision of the log; undoing an undo is a redo."""
    kb = parts.signed(who)
    return as_json(await parts.quick(lambda: {"decision": kb.undo(what.decision, note=what.note)}))


@router.get("/history", response_model=HistoryOut, summary="Where a belief comes from")
async def history(
    parts: Parts, who: Reader, head: schemas.Entity, relation: schemas.Relation, tail: schemas.Entity
) -> Response:
    """Whether a belief holds, what states it, and everything that was decided about it."""
    kb = parts.source.store()
    return as_json(await parts.quick(lambda: kb.history(head, relation, tail)))


@router.get("/log", response_model=LogOut, summary="The last decisions")
async def log(parts: Parts, who: Reader, last: int = Query(50, ge=1, le=10_000)) -> Response:
    """The last decisions of the log, in order."""
    kb = parts.source.store()
    return as_json(await parts.quick(lambda: {"decisions": kb.entries(last).to_dicts()}))


@router.get("/status", response_model=dict[str, int], summary="How much the knowledge base holds")
async def status(parts: Parts, who: Reader) -> Response:
    """Beliefs, names, decisions and open proposals."""
    kb = parts.source.store()
    sizes = await parts.quick(kb.status)
    sizes.pop("live_model", None)
    return as_json(sizes)


@router.get("/changes", response_model=ChangesOut, summary="What was decided since the model was trained")
async def changes(
    parts: Parts,
    who: Reader,
    entity: str | None = Query(None, max_length=schemas.LONGEST_NAME, description="Only beliefs about it."),
) -> Response:
    """Beliefs that were added, accepted, rejected, retracted or restored since the model in use was trained. What is
    known, probable or suspect comes from the model, which learns these decisions with the next update."""
    parts.source.store()

    def work() -> Any:
        about = [one for one in parts.source.changes() if entity is None or entity in (one.head, one.tail)]
        known = parts.source.current.known([(one.head, one.relation, one.tail) for one in about])
        return {"changes": [one._asdict() | {"known": it_is} for one, it_is in zip(about, known, strict=True)]}

    return as_json(await parts.quick(work))


UPLOAD = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.post(
    "/import",
    response_model=DecisionOut,
    summary="Import a file",
    openapi_extra={"requestBody": {"required": True, "content": UPLOAD}},
)
async def import_(
    request: Request,
    parts: Parts,
    who: Admin,
    format: Literal["tsv", "csv", "jsonl", "parquet", "nt", "nq", "ttl"] = "tsv",
    source: schemas.Name = "upload",
    license: schemas.Name | None = None,
    extractor: schemas.Name | None = None,
) -> Response:
    """The body of the request is a file of beliefs, in any format of doxa; all of it is imported, or nothing. `source`
    is a label. The decision can be undone."""
    kb = parts.signed(who)
    with tempfile.TemporaryDirectory(prefix="doxa-upload-") as folder:
        path, digest, size = Path(folder) / f"upload{FORMATS[format][1][0]}", hashlib.sha256(), 0
        async with await anyio.open_file(path, "wb") as content:
            async for piece in request.stream():
                digest.update(piece)
                size += len(piece)
                await content.write(piece)

        def work() -> Any:
            blocks = formats.blocks(path, "raise", True, Options(format=format))
            try:
                number = kb.import_beliefs(
                    blocks, source=source, license=license, sha256=digest.hexdigest(), extractor=extractor
                )
            except BadFile as fault:
                raise BadFile(fault.message.replace(f"{folder}/", ""), *fault.hints) from fault
            kb.accounts.record("import", f"{source}: {size:,} bytes, decision {number}")
            return {"decision": number, "sha256": digest.hexdigest()}

        return as_json(await parts.slow.run(work))
