"""A map: entities of chosen relations in two dimensions, similar ones near each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from doxa.calibration.thresholds import Numbers
from doxa.curation.explain import flat
from doxa.curation.similar import clusters, directions
from doxa.data.results import Result
from doxa.data.vocabulary import Ids
from doxa.errors import CannotAnswer, one_of
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS, Slot

LAYOUTS = ("tsne", "pca")


@dataclass(frozen=True, eq=False)
class Map(Result):
    """Entities in two dimensions: names, places in the unit square, (n, 2), and the group of each."""

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

    The `most` entities with most facts are kept. The layout is t-SNE of the vectors' directions, or their two main
    axes (pca). Entities are grouped by the slot they occur in, or by similarity into `groups` clusters.
    """
    one_of("layout", layout, LAYOUTS)
    relations = [relations] if isinstance(relations, str) and relations else relations
    ids = model.vocabularies.relations.require(relations) if relations else np.arange(len(model.vocabularies.relations))
    facts = model.known.triples
    facts = facts[np.isin(facts[:, Slot.RELATION], ids)]
    counts = np.bincount(facts[:, ENTITY_SLOTS].ravel(), minlength=len(model.vocabularies.entities))
    entities = np.sort(np.argsort(-counts, kind="stable")[: min(most, int((counts > 0).sum()))])
    if len(entities) < 3:
        raise CannotAnswer(f"the relations have {len(entities)} entities; at least 3 are needed for a map")
    if groups:
        group, labels = _by_similarity(model, entities, groups, seed)
    else:
        group, labels = _by_slot(facts, entities)
    names = tuple(model.vocabularies.entities.names.gather(entities).to_list())
    title = ", ".join(relations) if relations else "all relations"
    vectors = directions(model, entities).double().numpy()
    return Map(title, names, _placed(vectors, layout, seed), group, labels)


def _by_slot(facts: Ids, entities: Ids) -> tuple[Ids, tuple[str, ...]]:
    """Groups of entities: those seen as head, as tail, or as both."""
    head, tail = (np.isin(entities, facts[:, slot]) for slot in ENTITY_SLOTS)
    return np.where(head & tail, 2, np.where(tail, 1, 0)), ("head", "tail", "both")


def _by_similarity(model: Model, entities: Ids, count: int, seed: int) -> tuple[Ids, tuple[str, ...]]:
    """Groups of entities with similar vectors, each named by two of its members."""
    group = np.zeros(len(entities), np.int64)
    members = clusters(model, min(count, len(entities)), entities, seed)
    for number, cluster in enumerate(members):
        group[np.searchsorted(entities, cluster.entities)] = number
    return group, tuple(f"like {', '.join(cluster.names[:2])}" for cluster in members)


def _placed(vectors: Numbers, layout: str, seed: int) -> Numbers:
    """Places in the unit square, (n, d) → (n, 2)."""
    if layout == "pca" or len(vectors) < 10:
        return flat(vectors)
    from sklearn.manifold import TSNE  # slow to import, and needed only here

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    layout_of = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, metric="cosine")
    places = np.asarray(layout_of.fit_transform(vectors), float)
    return np.asarray((places - places.min(axis=0)) / np.maximum(np.ptp(places, axis=0), 1e-12))
