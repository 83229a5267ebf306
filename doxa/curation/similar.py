"""Similarity: entities with similar vectors, clusters of them, and pairs that may be duplicates.

The similarity of two entities is the cosine of their vectors: 1 for the same direction, 0 for unrelated entities.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.calibration.thresholds import Numbers
from doxa.data.results import Result
from doxa.data.vocabulary import Ids
from doxa.errors import UsageError
from doxa.inference.answer import largest
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS, Slot

MEMBERS = 5
"""Names that describe a cluster."""


class SimilarEntity(NamedTuple):
    """An entity and its similarity to the entity in question."""

    name: str
    similarity: float


@dataclass(frozen=True)
class Similar(Result):
    """The entities most similar to `entity`, the most similar first."""

    entity: str
    entities: tuple[SimilarEntity, ...]

    def __len__(self) -> int:
        return len(self.entities)

    def __iter__(self) -> Iterator[SimilarEntity]:
        return iter(self.entities)

    def __getitem__(self, place: int) -> SimilarEntity:
        return self.entities[place]

    def __repr__(self) -> str:
        best = f", first {self.entities[0].name!r}" if self.entities else ""
        return f"Similar({len(self)} entities similar to {self.entity!r}{best})"

    def to_frame(self) -> pl.DataFrame:
        """One row per entity: name and similarity."""
        return pl.DataFrame(self.entities, schema={"name": pl.String, "similarity": pl.Float64}, orient="row")

    def as_dict(self) -> dict[str, Any]:
        """The entity in question, and the similar ones with their similarity."""
        return {"entity": self.entity, "similar": [one._asdict() for one in self.entities]}


class Duplicate(NamedTuple):
    """Two entities that may be one: similarity of vectors and names, and the number of facts they share.

    They share a fact where both have the same relation to the same other entity.
    """

    first: str
    second: str
    similarity: float
    name_similarity: float
    shared_facts: int


@dataclass(frozen=True)
class Duplicates(Result):
    """Pairs of entities that may be duplicates, the most similar first."""

    pairs: tuple[Duplicate, ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Duplicate]:
        return iter(self.pairs)

    def __getitem__(self, place: int) -> Duplicate:
        return self.pairs[place]

    def __repr__(self) -> str:
        return f"Duplicates({len(self):,} pairs)"

    def to_frame(self) -> pl.DataFrame:
        """One row per pair."""
        types = (pl.String, pl.String, pl.Float64, pl.Float64, pl.Int64)
        return pl.DataFrame(self.pairs, schema=dict(zip(Duplicate._fields, types, strict=True)), orient="row")

    def as_dict(self) -> dict[str, Any]:
        """The pairs as plain data."""
        return {"pairs": [pair._asdict() for pair in self.pairs]}


class Cluster(NamedTuple):
    """A group of similar entities: their ids, and the names nearest to the center."""

    entities: Ids
    names: tuple[str, ...]


def directions(model: Model, entities: Ids | None = None) -> Tensor:
    """Entity vectors scaled to length 1, (n, d), of these entities or of all."""
    vectors = model.pbe.score.entity.weight.detach()
    vectors = vectors if entities is None else vectors[torch.from_numpy(entities)]
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / lengths.clamp_min(1e-12)


def similar(model: Model, entity: str, top: int = 10, relation: str | None = None) -> Similar:
    """The `top` entities most similar to one; with `relation`, only among entities in known facts of it."""
    number = model.vocabularies.entities.id(entity)
    candidates = np.arange(len(model.vocabularies.entities))
    if relation is not None:
        facts = model.known.triples
        facts = facts[facts[:, Slot.RELATION] == model.vocabularies.relations.id(relation)]
        candidates = np.unique(facts[:, ENTITY_SLOTS])
    candidates = candidates[candidates != number]
    cosine = directions(model, candidates) @ directions(model, np.array([number]))[0]
    best = largest(cosine[None], min(top, len(candidates)))[0]
    names = model.vocabularies.entities
    return Similar(entity, tuple(SimilarEntity(names[int(candidates[place])], float(cosine[place])) for place in best))


def duplicates(model: Model, top: int = 100, min_similarity: float = 0.5) -> Duplicates:
    """Pairs of entities that may be one entity under two names, the most similar first.

    Each is the other's most similar entity, with `min_similarity` or more. Pairs that a known fact links are left out.
    """
    vectors = directions(model)
    count = len(vectors)
    nearest, similarity = np.zeros(count, np.int64), np.zeros(count)
    for rows in model.pbe.blocks(count, count):
        cosine = vectors[torch.from_numpy(rows)] @ vectors.T
        cosine[torch.arange(len(rows)), torch.from_numpy(rows)] = -torch.inf
        value, place = cosine.max(1)
        nearest[rows], similarity[rows] = place.numpy(), value.double().numpy()
    mutual = (nearest[nearest] == np.arange(count)) & (np.arange(count) < nearest)
    first = np.flatnonzero(mutual & (similarity >= min_similarity))
    first = first[np.argsort(-similarity[first], kind="stable")]
    names, facts = model.vocabularies.entities, _FactsByEntity(model.known.triples, len(model.vocabularies.relations))
    pairs: list[Duplicate] = []
    for one in first.tolist():
        other = int(nearest[one])
        if len(pairs) == top or other in facts.linked_to(one):
            continue
        by_name = difflib.SequenceMatcher(None, names[one].lower(), names[other].lower()).ratio()
        shared = len(facts.of(one) & facts.of(other))
        pairs.append(Duplicate(names[one], names[other], float(similarity[one]), by_name, shared))
    return Duplicates(tuple(pairs))


def clusters(model: Model, count: int = 20, entities: Ids | None = None, seed: int = 0) -> list[Cluster]:
    """Entities in `count` clusters of similar vectors (k-means), the largest first."""
    from sklearn.cluster import MiniBatchKMeans  # slow to import, and needed only here

    ids = np.arange(len(model.vocabularies.entities)) if entities is None else entities
    if not 1 <= count <= len(ids):
        raise UsageError(f"{count} clusters of {len(ids):,} entities; expected at least 1 and at most one per entity")
    vectors = directions(model, ids).double().numpy()
    kmeans = MiniBatchKMeans(count, random_state=seed, n_init=3, batch_size=4096).fit(vectors)
    distance: Numbers = np.linalg.norm(vectors - kmeans.cluster_centers_[kmeans.labels_], axis=1)
    groups = []
    for number in range(count):
        members = np.flatnonzero(kmeans.labels_ == number)
        central = members[np.argsort(distance[members], kind="stable")][:MEMBERS]
        if len(members):
            names = tuple(model.vocabularies.entities[int(entity)] for entity in ids[central])
            groups.append(Cluster(ids[members], names))
    return sorted(groups, key=lambda cluster: -len(cluster.entities))


class _FactsByEntity:
    """The known facts of each entity."""

    def __init__(self, triples: NDArray[np.int64], relations: int) -> None:
        head, relation, tail = triples.T
        entity, other = np.concatenate([head, tail]), np.concatenate([tail, head])
        query = np.concatenate([relation, relation + relations])
        order = np.argsort(entity, kind="stable")
        self._entity, self._query, self._other = entity[order], query[order], other[order]

    def _rows(self, entity: int) -> slice:
        return slice(*np.searchsorted(self._entity, [entity, entity + 1]))

    def of(self, entity: int) -> set[tuple[int, int]]:
        """(relation and slot, other entity) of every fact."""
        rows = self._rows(entity)
        return set(zip(self._query[rows].tolist(), self._other[rows].tolist(), strict=True))

    def linked_to(self, entity: int) -> set[int]:
        """The other entities of its facts."""
        return set(self._other[self._rows(entity)].tolist())
