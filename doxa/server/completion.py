"""Search for new beliefs on behalf of a client: what the store has settled is left out, and the cost is limited."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from doxa.calibration.candidates import POOL_SCORED, Pools
from doxa.curation.complete import DEPTH, Proposals, SearchProgress
from doxa.data.vocabulary import Ids
from doxa.server.problems import Refused
from doxa.server.served import Served, Source
from doxa.slots import ENTITY_SLOTS


def new_beliefs(
    source: Source,
    served: Served,
    *,
    entities: Sequence[str],
    relations: Sequence[str],
    min_credence: float,
    top: int,
    base_rate: float | None = None,
    contradicting: bool = True,
    report: Callable[[SearchProgress], None] | None = None,
) -> Proposals:
    """The most credible beliefs that the model does not know and nobody has decided about."""
    return served.model.complete(
        entities=entities,
        relations=relations,
        min_credence=min_credence,
        top=top,
        base_rate=base_rate,
        contradicting=contradicting,
        exclude=source.settled(),
        report=report,
    )


def require_affordable(served: Served, entities: Sequence[str], relations: Sequence[str], most: int) -> None:
    """Refuse a search that computes more than `most` scores."""
    if search_cost(served, entities, relations) > most:
        raise Refused(
            413,
            "this search takes too long for a request",
            "name an entity or a relation; a job, or `doxa complete MODEL`, searches for all new beliefs",
        )


def search_cost(served: Served, entities: Sequence[str], relations: Sequence[str]) -> int:
    """An upper bound of the scores that a search computes: its queries times the candidates of each.

    With an index, a query scores at most POOL_SCORED candidates.
    """
    model, names = served.model, served.model.vocabularies
    ids = names.relations.require(relations).tolist() if relations else range(len(names.relations))
    about = np.unique(names.entities.require(entities)) if entities else None
    queries = sum(_queries(served.pools, relation, about) for relation in ids)
    indexed = model.answering_index() is not None
    return queries * min(len(names.entities), POOL_SCORED if indexed else len(names.entities))


def _queries(pools: Pools, relation: int, about: Ids | None) -> int:
    """Queries of one relation. One about a named entity is followed by one about each of its DEPTH best answers."""
    if about is None:
        return pools.cost(relation)
    sides = [(pools.of(relation, slot), pools.of(relation, slot.other)) for slot in ENTITY_SLOTS]
    asked = sum(_common(pool, about) * (1 + min(DEPTH, len(answers))) for pool, answers in sides)
    return min(asked, pools.cost(relation))


def _common(pool: Ids, about: Ids) -> int:
    """How many of the entities are in a sorted pool."""
    place = np.minimum(np.searchsorted(pool, about), max(len(pool) - 1, 0))
    return int((pool[place] == about).sum()) if len(pool) else 0
