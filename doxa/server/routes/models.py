"""Model versions, what the live one is, and how good it is on its validation facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import polars as pl
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from doxa.data.beliefs import Beliefs
from doxa.errors import CannotAnswer, UnknownName
from doxa.model import Model
from doxa.server import schemas
from doxa.server.context import API, Context, Parts, as_json, by_version
from doxa.server.living import version_dict
from doxa.server.problems import PROBLEMS
from doxa.server.security import Principal, Requires
from doxa.slots import Slot
from doxa.storage.store.knowledge_base import KnowledgeBase

router = APIRouter(prefix=API, tags=["models"], dependencies=[Depends(Requires("reader"))], responses=PROBLEMS)

Admin = Annotated[Principal, Depends(Requires("admin"))]
Number = Annotated[int, Path(ge=1, le=2**62)]

DECISIONS = 1000
"""Last decisions of the log that may be between two versions."""

VALIDATED = 2000
"""Validation facts that figures are computed on."""


@router.get("/models", response_model=schemas.Models, summary="Versions of the model")
async def models(parts: Parts) -> Response:
    """All versions in order; a model folder is one version."""
    return as_json({"models": await parts.quick(parts.source.versions)})


@router.get("/models/live", response_model=schemas.ModelInfo, summary="The model in use")
async def live(request: Request, parts: Parts) -> Response:
    """Sizes, settings, training, calibration and learning curve of the model in use, and the facts of each relation."""
    served = parts.source.current

    def work() -> Any:
        return {"version": served.version, "number": served.number, "source": parts.source.name} | about(served.model)

    return await by_version(request, served, lambda: parts.quick(work))


def about(model: Model) -> dict[str, Any]:
    """Everything that a model says about itself."""
    judge, names = model.calibration, model.vocabularies.relations
    thresholds = judge.thresholds.by_relation
    relations = [
        {"relation": names[one], "facts": int(count), "threshold": float(thresholds[one])}
        for one, count in enumerate(model.known.counts.tolist())
    ]
    return {
        "info": model.info().as_dict(),
        "curve": list(model.curve),
        "calibration": judge.curve.as_dict(lambda number: names[number]),
        "relations": sorted(relations, key=lambda one: -int(one["facts"])),
    }


@router.get("/models/live/validation", response_model=dict[str, Any], summary="Figures on validation facts")
async def validation(request: Request, parts: Parts) -> Response:
    """The evaluation report on validation facts (at most 2,000, the same ones each time). These facts also chose
    thresholds and calibration, so that the figures are a little too good; a job evaluates on the test split."""
    served = parts.source.current
    work = lambda: served.kept("validation", lambda: validated(served.model))  # noqa: E731
    return await by_version(request, served, lambda: parts.slow_json(work))


@router.post("/models/{number:int}/publish", response_model=schemas.Models, summary="Publish a version")
async def publish(parts: Parts, who: Admin, number: Number) -> Response:
    """Make a version live. When the response arrives, questions are answered by it."""
    return await _publish(parts, who, lambda kb: number)


@router.post("/models/rollback", response_model=schemas.Models, summary="Return to the former version")
async def rollback(parts: Parts, who: Admin) -> Response:
    """Make the version live that the live one came from, or the last one before it."""
    return await _publish(parts, who, _former)


def _former(kb: KnowledgeBase) -> int:
    live, versions = kb.models.live(), kb.models.all()
    if live is not None and live.parent is not None:
        return live.parent
    earlier = [one.id for one in versions if live is None or one.id < live.id]
    if not earlier:
        raise CannotAnswer("there is no former version")
    return earlier[-1]


async def _publish(parts: Context, who: Principal, choose: Callable[[KnowledgeBase], int]) -> Response:
    kb = parts.signed(who)

    def work() -> None:
        parts.source.publish(kb, choose(kb))

    await parts.slow.run(work)
    await parts.refresh()
    return as_json({"models": await parts.quick(parts.source.versions)})


@router.get("/models/compare", response_model=schemas.Compared, summary="What changed between two versions")
async def compare(parts: Parts, a: int = Query(ge=1, le=2**62), b: int = Query(ge=1, le=2**62)) -> Response:
    """The figures of two versions, and the decisions between their snapshots (the last 1,000)."""
    kb: KnowledgeBase = parts.source.store()

    def work() -> Any:
        versions = {one.id: one for one in kb.models.all()}
        for number in (a, b):
            if number not in versions:
                raise UnknownName(f"no model version {number}")
        first, last = sorted(versions[number].snapshot for number in (a, b))
        decisions = kb.entries(DECISIONS).filter((pl.col("decision") > first) & (pl.col("decision") <= last))
        return {"a": version_dict(versions[a]), "b": version_dict(versions[b]), "decisions": decisions.to_dicts()}

    return as_json(await parts.quick(work))


def validated(model: Model) -> dict[str, Any]:
    """The evaluation report on validation facts, and the rank of the tail by relation."""
    facts = model.valid
    if len(facts) > VALIDATED:
        facts = facts[np.sort(np.random.default_rng(0).permutation(len(facts))[:VALIDATED])]
    if not len(facts):
        return {"beliefs": 0, "skipped": {"all": "the model has no validation facts"}}
    report = model.evaluate(Beliefs.from_triples(model.vocabularies, facts), popularity=False)
    counts = np.bincount(facts[:, Slot.RELATION], minlength=len(model.vocabularies.relations))
    beliefs = {model.vocabularies.relations[one]: int(counts[one]) for one in np.flatnonzero(counts).tolist()}
    return {"beliefs": len(facts), "beliefs_by_relation": beliefs} | report.as_dict()
