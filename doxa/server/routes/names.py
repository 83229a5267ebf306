"""Names by what is typed, and what is known of an entity."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import polars as pl
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from doxa.data.beliefs import Beliefs
from doxa.model import Model
from doxa.server import schemas
from doxa.server.context import API, Parts, by_version
from doxa.server.problems import PROBLEMS
from doxa.server.security import Requires
from doxa.slots import ENTITY_SLOTS, Slot

router = APIRouter(prefix=API, tags=["names"], dependencies=[Depends(Requires("reader"))], responses=PROBLEMS)


@router.get("/names", response_model=schemas.Names, summary="Names that match what was typed")
async def names(
    request: Request,
    parts: Parts,
    q: str = Query("", max_length=1000, description="What was typed."),
    kind: Literal["entity", "relation"] = "entity",
    limit: int = Query(10, ge=1, le=100),
) -> Response:
    """Names that begin with the query, have a word that does, or differ by a few letters; names with more facts first.
    An empty query lists the names with most facts."""
    served = parts.source.current

    def work() -> Any:
        index = served.entities if kind == "entity" else served.relations
        return {"query": q, "kind": kind, "names": [match._asdict() for match in index.search(q, limit)]}

    return await by_version(request, served, lambda: parts.quick(work))


@router.get("/entities/{name:path}", response_model=schemas.EntityOut, summary="What is known of an entity")
async def entity(
    request: Request,
    parts: Parts,
    name: str = Path(max_length=schemas.LONGEST_NAME, examples=["Lyon"]),
    top: int = Query(200, ge=0, le=10_000, description="Number of facts to list."),
) -> Response:
    """The known facts of an entity, and how many it has in each slot of each relation. What is probably missing, what
    looks wrong and what is alike: see complete, audit and similar with the same entity."""
    served = parts.source.current
    return await by_version(request, served, lambda: parts.quick(lambda: entity_facts(served.model, name, top)))


def facts_of(model: Model, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The known facts of an entity as ids, (n, 3)."""
    number, triples = model.vocabularies.entities.id(name), model.known.triples
    return np.asarray(triples[(triples[:, ENTITY_SLOTS] == number).any(axis=1)])


def entity_facts(model: Model, name: str, top: int) -> dict[str, Any]:
    """Counts by relation and slot, and the first `top` facts with their confidence."""
    names, facts = model.vocabularies, facts_of(model, name)
    number = names.entities.id(name)
    relations = []
    for slot in ENTITY_SLOTS:
        ids, counts = np.unique(facts[facts[:, slot] == number, Slot.RELATION], return_counts=True)
        relations += [
            {"relation": names.relations[one], "slot": str(slot), "facts": count}
            for one, count in zip(ids.tolist(), counts.tolist(), strict=True)
        ]
    shown = facts[:top]
    frame = Beliefs.from_triples(names, shown).to_frame().select("head", "relation", "tail")
    confidence = _confidence(model, shown)
    return {
        "name": names.entities[number],
        "total": len(facts),
        "relations": sorted(relations, key=lambda one: -one["facts"]),
        "facts": frame.with_columns(pl.Series("confidence", confidence, pl.Float64, nan_to_null=True)).to_dicts(),
    }


def _confidence(model: Model, facts: np.ndarray[Any, np.dtype[np.int64]]) -> list[float]:
    """The confidence of known facts, NaN where they have none."""
    if not len(model.known_confidence) or not len(facts):
        return [np.nan] * len(facts)
    stored = np.concatenate([model.train, model.valid])
    entity = np.isin(stored[:, Slot.HEAD], facts[:, Slot.HEAD]).nonzero()[0]
    by_fact = {tuple(stored[row].tolist()): float(model.known_confidence[row]) for row in entity}
    return [by_fact.get(tuple(fact), np.nan) for fact in facts.tolist()]
