"""complete, audit and map: what is probably missing, what looks wrong, and where entities lie."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse

from doxa.curation.complete import SearchProgress
from doxa.data.beliefs import Beliefs
from doxa.errors import DoxaError
from doxa.model import Model
from doxa.server import schemas
from doxa.server.batches import NDJSON
from doxa.server.completion import new_beliefs, require_affordable
from doxa.server.context import API, Context, Parts, by_version, encoded
from doxa.server.problems import PROBLEMS, Refused, of_error
from doxa.server.routes.names import facts_of
from doxa.server.security import Requires
from doxa.server.served import Served
from doxa.slots import Slot

router = APIRouter(prefix=API, tags=["curation"], dependencies=[Depends(Requires("reader"))], responses=PROBLEMS)

Names = Annotated[list[schemas.Name], Query(max_length=20)]
OneEntity = Annotated[str | None, Query(max_length=schemas.LONGEST_NAME, description="Only beliefs about it.")]
OneRelation = Annotated[str | None, Query(max_length=schemas.LONGEST_NAME, description="Only beliefs of it.")]

KEPT_SUSPECTS = 1000

LOOK = 0.1
"""Seconds between two lines about the progress of a search."""

LINES = """{"progress":0.5,"relation":"located in","count":12}
{"proposal":{"rank":1,"head":"Lyon","relation":"located in","tail":"France","credence":0.9}}
{"summary":{"expected_right":0.9}}
"""


@router.get(
    "/complete",
    summary="New beliefs, streamed",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}, "example": LINES}}}},
)
async def complete(
    parts: Parts,
    entity: Names = [],  # noqa: B006
    relation: Names = [],  # noqa: B006
    min_credence: float = Query(0.2, ge=0, le=1),
    top: int = Query(100, ge=1, le=10_000),
    base_rate: schemas.BaseRate = None,
    contradicting: bool = Query(True, description="Also second answers where a relation rarely has two."),
) -> Response:
    """The most credible new beliefs as lines of JSON: lines with `progress` while the search goes on, then one line per
    `proposal`, the most credible first, and a last line with the `summary`, or with the `problem` that ended it.
    Closing the connection ends the search."""
    source, served = parts.source, parts.source.current
    served.model.must_answer("classification")
    await parts.slow.run(require_affordable, served, entity, relation, parts.limits.searched)

    def search(report: Callable[[SearchProgress], None]) -> dict[str, Any]:
        return new_beliefs(
            source,
            served,
            entities=entity,
            relations=relation,
            min_credence=min_credence,
            top=top,
            base_rate=base_rate,
            contradicting=contradicting,
            report=report,
        ).as_dict()

    return StreamingResponse(_lines(parts, search), media_type=NDJSON, headers={"Cache-Control": "no-store"})


class _Ended(Exception):
    """The client has gone."""


async def _lines(parts: Context, search: Callable[[Callable[[SearchProgress], None]], Any]) -> AsyncIterator[bytes]:
    """Progress while the search runs in a thread, then its result, line by line."""
    progress: queue.SimpleQueue[SearchProgress] = queue.SimpleQueue()
    ended = False

    def report(now: SearchProgress) -> None:
        if ended:
            raise _Ended
        progress.put(now)

    async def work() -> dict[str, Any]:
        try:
            proposals: dict[str, Any] = await parts.slow.run(search, report)
            return proposals
        except DoxaError as fault:
            return {"problem": of_error(fault)}
        except Refused as fault:
            return {"problem": {"status": fault.response.status_code, "detail": str(fault)}}
        except _Ended:
            return {}

    task = asyncio.create_task(work())
    try:
        while not task.done():
            await asyncio.wait([task], timeout=LOOK)
            latest = None
            while not progress.empty():
                latest = progress.get()
            if latest is not None:
                shown = {"progress": latest.fraction, "relation": latest.relation, "count": latest.count}
                yield encoded(shown) + b"\n"
    finally:
        ended = True
    result = task.result()
    for proposal in result.pop("proposals", ()):
        yield encoded({"proposal": proposal}) + b"\n"
    yield encoded(result if "problem" in result else {"summary": result}) + b"\n"


@router.get("/audit", response_model=schemas.Suspects, summary="Known beliefs that look wrong")
async def audit(
    request: Request,
    parts: Parts,
    entity: OneEntity = None,
    relation: OneRelation = None,
    top: int = Query(100, ge=1, le=KEPT_SUSPECTS),
    base_rate: schemas.BaseRate = None,
) -> Response:
    """The most suspect known beliefs, each with the reason and a likelier tail; of one entity or relation, or of all
    where the knowledge base is small enough."""
    served = parts.source.current

    def work() -> Any:
        if entity or relation or base_rate is not None:
            return _suspects(parts, served, entity, relation, top, base_rate)
        whole = served.kept("audit", lambda: _suspects(parts, served, None, None, KEPT_SUSPECTS, None))
        return whole | {"suspects": whole["suspects"][:top]}

    return await by_version(request, served, lambda: parts.slow_json(work))


def _suspects(
    parts: Context, served: Served, entity: str | None, relation: str | None, top: int, base_rate: float | None
) -> dict[str, Any]:
    model = served.model
    facts = facts_of(model, entity) if entity else model.known.triples
    if relation:
        facts = facts[facts[:, Slot.RELATION] == model.vocabularies.relations.id(relation)]
    cost = len(facts) * len(model.vocabularies.entities)
    if cost > parts.limits.audited:
        raise Refused(
            413,
            f"an audit of {len(facts):,} beliefs takes too long for a request",
            "name an entity or a relation; `doxa audit MODEL` audits all beliefs",
        )
    suspects = model.audit(Beliefs.from_triples(model.vocabularies, facts), top, base_rate=base_rate)
    return suspects.as_dict()


@router.get("/map", response_model=schemas.MapOut, summary="Entities in two dimensions")
async def map_(
    request: Request,
    parts: Parts,
    relation: Names = [],  # noqa: B006
    most: int = Query(800, ge=3, le=20_000, description="Entities with most facts that are shown."),
    layout: Literal["tsne", "pca"] = "pca",
    groups: int = Query(0, ge=0, le=40, description="Clusters by similarity; 0 = by slot."),
) -> Response:
    """Places of entities in the unit square, similar ones near each other. `tsne` shows groups better and is limited to
    3,000 entities; `pca` is quick."""
    served = parts.source.current
    count = min(most, 3000) if layout == "tsne" else most
    key = ("map", tuple(relation), count, layout, groups)
    work = lambda: _map(served.model, relation, count, layout, groups)  # noqa: E731
    return await by_version(request, served, lambda: parts.slow_json(lambda: served.kept(key, work)))


def _map(model: Model, relations: list[str], most: int, layout: str, groups: int) -> dict[str, Any]:
    from doxa.curation.map import draw_map

    drawn = draw_map(model, relations, most, layout, groups)
    return drawn.as_dict()
