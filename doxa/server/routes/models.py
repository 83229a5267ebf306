"""Model versions, what the live one is, and how good it is on its validation facts."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from doxa.data.beliefs import Beliefs
from doxa.model import Model
from doxa.server import schemas
from doxa.server.context import Parts, as_json, by_version
from doxa.server.problems import PROBLEMS
from doxa.server.security import Requires
from doxa.slots import Slot

router = APIRouter(tags=["models"], dependencies=[Depends(Requires("reader"))], responses=PROBLEMS)

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
    return await by_version(request, served, lambda: parts.slow.run(work))


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
