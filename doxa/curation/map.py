"""A map: entities of chosen relations in two dimensions, similar ones near each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from doxa.calibration.thresholds import Numbers
from doxa.curation.explain import flat
from doxa.curation.group_names import names_of_groups
from doxa.curation.similar import clusters, directions
from doxa.data.results import Result
from doxa.data.vocabulary import Ids
from doxa.errors import CannotAnswer, one_of
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS, Slot

LAYOUTS = ("tsne", "pca")

PER_HUB = 10
"""Neighbors of one hub that are picked before those of other hubs have their turn."""

TITLE = 3
"""Relations that the title of a map names; the others are counted."""


@dataclass(frozen=True, eq=False)
class Map(Result):
    """Entities in two dimensions: names, places in the unit square, (n, 2), and the group of each.

    The entities with most facts come first.
    """

    title: str
    names: tuple[str, ...]
    places: Numbers
    group: Ids
    groups: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Map({self.title}: {len(self):,} entities in {len(self.groups)} groups)"

    def to_frame(self) -> pl.DataFrame:
        """One row per entity: name, x, y, group."""
        group = [self.groups[number] for number in self.group]
        return pl.DataFrame({"name": self.names, "x": self.places[:, 0], "y": self.places[:, 1], "group": group})

    def as_dict(self) -> dict[str, Any]:
        """The map as plain data: title, groups, and one entry per entity."""
        return {"title": self.title, "groups": list(self.groups), "entities": self.to_frame().to_dicts()}


def draw_map(
    model: Model,
    relations: Sequence[str] | str = (),
    most: int = 800,
    layout: str = "tsne",
    groups: int = 0,
    seed: int = 0,
) -> Map:
    """A map of the entities in known facts of these relations; of all relations if none is named.

    The `most` entities with most facts of these relations are kept, see `by_degree`. The layout is t-SNE of the
    vectors' directions, or their two main axes (pca). Entities are grouped by the slot they occur in, or by similarity
    into `groups` clusters. A cluster is named by what its members share, for example "located in · Germany".
    """
    one_of("layout", layout, LAYOUTS)
    relations = [relations] if isinstance(relations, str) and relations else list(relations)
    ids = model.vocabularies.relations.require(relations) if relations else np.arange(len(model.vocabularies.relations))
    facts = model.known.triples
    facts = facts[np.isin(facts[:, Slot.RELATION], ids)]
    entities = by_degree(facts, model.known.triples, len(model.vocabularies.entities))[:most]
    if len(entities) < 3:
        raise CannotAnswer(f"the relations have {len(entities)} entities; at least 3 are needed for a map")
    if groups:
        group, labels = _by_similarity(model, entities, groups, seed)
    else:
        group, labels = _by_slot(facts, entities, relations)
    names = tuple(model.vocabularies.entities.names.gather(entities).to_list())
    vectors = directions(model, entities).double().numpy()
    return Map(_title(relations), names, _placed(vectors, layout, seed), group, labels)


def by_degree(facts: Ids, known: Ids, count: int) -> Ids:
    """The entities of these facts, (n, 3), those in most of them first; `count` is the number of all entities.

    Entities in equally many of these facts are ordered by their number of `known` facts of all relations, but in turns:
    first PER_HUB entities of each hub, then PER_HUB others, and so on. The hub of an entity is its neighbor in most of
    these facts, so a hub with thousands of neighbors does not crowd out the others.
    """
    degree, prominence = degrees(facts, count), degrees(known, count)
    entity, other = (facts[:, slots].T.ravel() for slots in (ENTITY_SLOTS, ENTITY_SLOTS[::-1]))
    order = np.lexsort((other, -degree[other], entity == other, entity))
    entities, first = np.unique(entity[order], return_index=True)
    hub = other[order][first]
    order = np.lexsort((entities, -prominence[entities], hub, -degree[entities]))
    entities, hub = entities[order], hub[order]
    starts = np.flatnonzero(np.diff(hub, prepend=-1) | np.diff(degree[entities], prepend=-1))
    turn = (np.arange(len(entities)) - np.repeat(starts, np.diff(starts, append=len(entities)))) // PER_HUB
    return np.asarray(entities[np.lexsort((entities, -prominence[entities], turn, -degree[entities]))])


def degrees(facts: Ids, count: int) -> Ids:
    """The number of facts that each of `count` entities is in; a fact between an entity and itself counts once."""
    head, tail = (facts[:, slot] for slot in ENTITY_SLOTS)
    return np.bincount(np.concatenate([head, tail[head != tail]]), minlength=count)


def _title(relations: Sequence[str]) -> str:
    rest = f" and {len(relations) - TITLE} more" if len(relations) > TITLE else ""
    return ", ".join(relations[:TITLE]) + rest if relations else "all relations"


def _by_slot(facts: Ids, entities: Ids, relations: Sequence[str]) -> tuple[Ids, tuple[str, ...]]:
    """Groups of entities: those seen as head only, as tail only, or as both."""
    head, tail = (np.isin(entities, facts[:, slot]) for slot in ENTITY_SLOTS)
    of = f" of {relations[0]}" if len(relations) == 1 else ""
    return np.where(head & tail, 2, np.where(tail, 1, 0)), (f"head{of}", f"tail{of}", f"head and tail{of}")


def _by_similarity(model: Model, entities: Ids, count: int, seed: int) -> tuple[Ids, tuple[str, ...]]:
    """Groups of entities with similar vectors, named by what their members share."""
    members = clusters(model, min(count, len(entities)), np.sort(entities), seed)
    group = np.zeros(len(model.vocabularies.entities), np.int64)
    for number, cluster in enumerate(members):
        group[cluster.entities] = number
    group = group[entities]
    return group, names_of_groups(model, entities, group, [cluster.names[0] for cluster in members])


def _placed(vectors: Numbers, layout: str, seed: int) -> Numbers:
    """Places in the unit square, (n, d) → (n, 2)."""
    if layout == "pca" or len(vectors) < 10:
        return flat(vectors)
    from sklearn.manifold import TSNE  # slow to import, and needed only here

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    layout_of = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, metric="cosine")
    places = np.asarray(layout_of.fit_transform(vectors), float)
    return np.asarray((places - places.min(axis=0)) / np.maximum(np.ptp(places, axis=0), 1e-12))
