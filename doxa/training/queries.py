"""Queries: the beliefs of a training set, grouped by the query that they answer.

All answers of a query share its sum of exponentials, so their exact likelihood costs one softmax instead of one each:

    Σ_a w_a log Pr(a|q) = Σ_a w_a D(q, a) − (Σ_a w_a) log Σ_c exp D(q, c)                  (Eqs 4, 8–10)

Nothing here depends on the weights of a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from doxa.data.vocabulary import Ids
from doxa.scores.pairwise import Floats
from doxa.slots import ENTITY_SLOTS, Slot

KEPT = 3
"""Vectors that a step keeps of each query: its point, then the gradients of its first and its second known vector."""


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries for one slot: the ids of both known parts, (n,) each, and the answers of all queries end to end.

    The answers of query i are those from bounds[i] to before bounds[i + 1]; each has a weight.
    """

    slot: Slot
    known: tuple[Ids, Ids]
    bounds: Ids
    answers: Ids
    weights: Floats

    @classmethod
    def of(cls, slot: Slot, triples: NDArray[np.int64], weights: Floats) -> Queries:
        """The distinct queries for this slot of triples (n, 3) with weights (n,)."""
        first, second = known_slots(slot)
        order = np.lexsort((triples[:, second], triples[:, first]))
        pairs = triples[order][:, [first, second]]
        starts = np.flatnonzero(np.concatenate([[True], (pairs[1:] != pairs[:-1]).any(axis=1)]))
        known = np.ascontiguousarray(pairs[starts].T)
        bounds = np.append(starts, len(triples))
        return cls(slot, (known[0], known[1]), bounds, triples[order, slot], weights[order])

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def take(self, numbers: Ids) -> Queries:
        """These queries, in this order."""
        lengths = self._lengths[numbers]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(bounds[-1]) + np.repeat(self.bounds[numbers] - bounds[:-1], lengths)
        first, second = self.known
        return Queries(self.slot, (first[numbers], second[numbers]), bounds, self.answers[places], self.weights[places])

    @cached_property
    def _lengths(self) -> Ids:
        return np.diff(self.bounds)

    @cached_property
    def rows(self) -> Ids:
        """The number of the query of each answer."""
        return np.repeat(np.arange(len(self)), self._lengths)

    @property
    def counts(self) -> Floats:
        """How many answers each query has."""
        return self._lengths.astype(self.weights.dtype)

    @cached_property
    def totals(self) -> Floats:
        """The weight of each query, that of all its answers."""
        return np.add.reduceat(self.weights, self.bounds[:-1]) if len(self) else self.weights


def known_slots(slot: Slot) -> tuple[Slot, Slot]:
    """The two slots that a query for this one has."""
    first, second = (other for other in Slot if other is not slot)
    return first, second


@dataclass(frozen=True, eq=False)
class Additions:
    """What a step adds to the gradient of a table besides its softmax: `factor` times vector `source` to row `target`.

    Targets are sorted. `counts` are how many beliefs of the step have each row, for the regularization.
    """

    targets: Ids
    sources: Ids
    factors: Floats
    counts: Floats

    def within(self, first: int, last: int) -> tuple[Ids, Ids, Floats]:
        """Those of the rows from `first` to before `last`; targets count from `first`."""
        start, end = np.searchsorted(self.targets, (first, last))
        return self.targets[start:end] - first, self.sources[start:end], self.factors[start:end]


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """The queries of a step by slot, and what they add to the rows of both tables."""

    queries: Mapping[Slot, Queries]
    entities: Additions
    relations: Additions

    @classmethod
    def of(cls, queries: Mapping[Slot, Queries], entities: int, relations: int) -> QueryBatch:
        """A belief is regularized in equal shares by the queries of each slot."""
        of_entities: list[tuple[Ids, Ids, Floats, Floats]] = []
        of_relations: list[tuple[Ids, Ids, Floats, Floats]] = []
        first = 0
        for slot, asked in queries.items():
            ones, numbers = np.ones_like(asked.weights), np.arange(len(asked))
            lists = [of_entities if each in ENTITY_SLOTS else of_relations for each in (slot, *known_slots(slot))]
            lists[0].append((asked.answers, first + asked.rows, -asked.weights, ones))
            for place, ids in enumerate(asked.known, start=1):
                rows = first + place * len(asked) + numbers
                lists[place].append((ids, rows, ones[: len(asked)], asked.counts))
            first += KEPT * len(asked)
        shares = len(queries)
        return cls(queries, _additions(of_entities, entities, shares), _additions(of_relations, relations, shares))

    @property
    def vectors(self) -> int:
        """How many vectors the step keeps."""
        return KEPT * sum(map(len, self.queries.values()))


def _additions(parts: list[tuple[Ids, Ids, Floats, Floats]], rows: int, shares: int) -> Additions:
    """Of targets, sources, factors, and beliefs that count in so many shares."""
    targets, sources, factors, beliefs = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(targets, kind="stable")
    counts = (np.bincount(targets, beliefs, minlength=rows) / shares).astype(factors.dtype)
    return Additions(targets[order], sources[order], factors[order], counts)
