"""Neighbors: entities of like vectors, groups of them, and pairs that may be one entity under two names.

The likeness of two entities is the cosine of their vectors: 1 for the same direction, 0 for unrelated ones.
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.calibration.thresholds import Numbers
from doxa.data.vocabulary import Ids
from doxa.errors import UsageError
from doxa.inference.answer import largest
from doxa.model import Model

MEMBERS = 5
"""Vocabularies that stand for a cluster."""


class Likeness(NamedTuple):
    """An entity and how alike it is to the one asked about."""

    name: str
    likeness: float


class Duplicate(NamedTuple):
    """Two entities that may be one: how alike their vectors and their names are, and how many beliefs they have in
    common, the same relation to the same other entity."""

    first: str
    second: str
    likeness: float
    name_likeness: float
    shared: int


class Cluster(NamedTuple):
    """A group of entities: its ids, and the names nearest to its middle."""

    entities: Ids
    names: tuple[str, ...]


def directions(model: Model, entities: Ids | None = None) -> Tensor:
    """Vectors of length 1 of some entities or all, (n, d)."""
    vectors = model.pbe.score.entity.weight.detach()
    vectors = vectors if entities is None else vectors[torch.from_numpy(entities)]
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / lengths.clamp_min(1e-12)


def similar(model: Model, entity: str, top: int = 10, relation: str | None = None) -> list[Likeness]:
    """The entities most alike to one, most alike first; of a relation, only those that stand in beliefs of it."""
    own = model.vocabularies.entities.id(entity)
    among = np.arange(len(model.vocabularies.entities))
    if relation is not None:
        number = model.vocabularies.relations.id(relation)
        facts = model.known.triples
        among = np.unique(facts[facts[:, 1] == number][:, [0, 2]])
    among = among[among != own]
    cosine = directions(model, among) @ directions(model, np.array([own]))[0]
    place = largest(cosine[None], min(top, len(among)))[0]
    return [Likeness(model.vocabularies.entities[int(among[one])], float(cosine[one])) for one in place]


def duplicates(model: Model, top: int = 100, least: float = 0.5) -> list[Duplicate]:
    """Pairs of entities each of which is the other's most alike, most alike first, of likeness `least` or more.

    Two that a known belief links are left out: nobody links an entity with itself.
    """
    vectors = directions(model)
    count = len(vectors)
    nearest, likeness = np.zeros(count, np.int64), np.zeros(count)
    for rows in model.pbe.blocks(count, count):
        cosine = vectors[torch.from_numpy(rows)] @ vectors.T
        cosine[torch.arange(len(rows)), torch.from_numpy(rows)] = -torch.inf
        value, place = cosine.max(1)
        nearest[rows], likeness[rows] = place.numpy(), value.double().numpy()
    first = np.flatnonzero((nearest[nearest] == np.arange(count)) & (np.arange(count) < nearest) & (likeness >= least))
    first = first[np.argsort(-likeness[first], kind="stable")]
    names, sides = model.vocabularies.entities, _sides(model)
    found: list[Duplicate] = []
    for one in first.tolist():
        other = int(nearest[one])
        if len(found) == top or other in sides.others(one):
            continue
        alike = difflib.SequenceMatcher(None, names[one].lower(), names[other].lower()).ratio()
        shared = len(sides.of(one) & sides.of(other))
        found.append(Duplicate(names[one], names[other], float(likeness[one]), alike, shared))
    return found


def clusters(model: Model, count: int = 20, entities: Ids | None = None, seed: int = 0) -> list[Cluster]:
    """Entities in `count` groups of like vectors (k-means), the largest group first."""
    from sklearn.cluster import MiniBatchKMeans  # only this needs it, and answering should start quickly

    chosen = np.arange(len(model.vocabularies.entities)) if entities is None else entities
    if not 1 <= count <= len(chosen):
        raise UsageError(f"{count} clusters of {len(chosen):,} entities; expected at least 1 and at most one for each")
    vectors = directions(model, chosen).double().numpy()
    made = MiniBatchKMeans(count, random_state=seed, n_init=3, batch_size=4096).fit(vectors)
    gap: Numbers = np.linalg.norm(vectors - made.cluster_centers_[made.labels_], axis=1)
    found = []
    for number in range(count):
        members = np.flatnonzero(made.labels_ == number)
        middle = members[np.argsort(gap[members], kind="stable")][:MEMBERS]
        if len(members):
            names = tuple(model.vocabularies.entities[int(entity)] for entity in chosen[middle])
            found.append(Cluster(chosen[members], names))
    return sorted(found, key=lambda cluster: -len(cluster.entities))


class _Sides:
    """Known facts by the entity that stands in them."""

    def __init__(self, triples: NDArray[np.int64], relations: int) -> None:
        head, relation, tail = triples.T
        entity, other = np.concatenate([head, tail]), np.concatenate([tail, head])
        side = np.concatenate([relation, relation + relations])
        order = np.argsort(entity, kind="stable")
        self._entity, self._side, self._other = entity[order], side[order], other[order]

    def _rows(self, entity: int) -> slice:
        return slice(*np.searchsorted(self._entity, [entity, entity + 1]))

    def of(self, entity: int) -> set[tuple[int, int]]:
        rows = self._rows(entity)
        return set(zip(self._side[rows].tolist(), self._other[rows].tolist(), strict=True))

    def others(self, entity: int) -> set[int]:
        return set(self._other[self._rows(entity)].tolist())


def _sides(model: Model) -> _Sides:
    return _Sides(model.known.triples, len(model.vocabularies.relations))
