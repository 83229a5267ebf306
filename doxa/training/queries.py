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


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries for one slot: the ids of both known parts, (n,) each, and the distinct answers of all, end to end.

    The answers of query i are those from bounds[i] to before bounds[i + 1]. Each has a weight, and the number of
    beliefs that state it.
    """

    slot: Slot
    known: tuple[Ids, Ids]
    bounds: Ids
    answers: Ids
    weights: Floats
    beliefs: Floats

    @classmethod
    def of(cls, slot: Slot, triples: NDArray[np.int64], weights: Floats) -> Queries:
        """The distinct queries for this slot of triples (n, 3) with weights (n,)."""
        columns = [*known_slots(slot), slot]
        order = np.lexsort(triples[:, columns[::-1]].T)
        ordered = triples[order][:, columns]
        facts = _starts(ordered)
        beliefs = np.diff(np.append(facts, len(ordered))).astype(weights.dtype)
        summed = np.add.reduceat(weights[order], facts)
        first, second, answers = np.ascontiguousarray(ordered[facts].T)
        starts = _starts(ordered[facts][:, :2])
        bounds = np.append(starts, len(facts))
        return cls(slot, (first[starts], second[starts]), bounds, answers, summed, beliefs)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def take(self, numbers: Ids) -> Queries:
        """These queries, in this order."""
        lengths = np.diff(self.bounds)[numbers]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(bounds[-1]) + np.repeat(self.bounds[numbers] - bounds[:-1], lengths)
        first, second = (ids[numbers] for ids in self.known)
        columns = (column[places] for column in (self.answers, self.weights, self.beliefs))
        return Queries(self.slot, (first, second), bounds, *columns)

    @cached_property
    def rows(self) -> Ids:
        """The number of the query of each answer."""
        return np.repeat(np.arange(len(self)), np.diff(self.bounds))

    @cached_property
    def totals(self) -> Floats:
        """The weight of each query, that of all its answers."""
        return np.bincount(self.rows, self.weights, len(self)).astype(self.weights.dtype)


def _starts(ordered: NDArray[np.int64]) -> Ids:
    """Where in ordered rows another one begins."""
    return np.flatnonzero(np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)]))


def known_slots(slot: Slot) -> tuple[Slot, Slot]:
    """The two slots that a query for this one has."""
    first, second = (other for other in Slot if other is not slot)
    return first, second


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The rows of a table that queries have as known parts, end to end.

    `sections` are the places of each known slot of the queries for a slot. `counts` are how many beliefs have each row
    of the table, known or answer, for the regularization.
    """

    ids: Ids
    sections: Mapping[tuple[Slot, Slot], slice]
    counts: Floats

    @classmethod
    def of(cls, slots: tuple[Slot, ...], queries: Mapping[Slot, Queries], rows: int) -> KnownRows:
        """Of the table of these slots. A belief is regularized in equal shares by the queries of each slot."""
        columns, sections, first = [np.zeros(0, np.int64)], {}, 0
        counts = np.zeros(rows)
        for slot, asked in queries.items():
            if slot in slots:
                counts += np.bincount(asked.answers, asked.beliefs, rows)
            of_query = np.bincount(asked.rows, asked.beliefs, len(asked))
            for known, ids in zip(known_slots(slot), asked.known, strict=True):
                if known in slots:
                    columns.append(ids)
                    sections[slot, known] = slice(first, first + len(ids))
                    first += len(ids)
                    counts += np.bincount(ids, of_query, rows)
        kind = next(iter(queries.values())).weights.dtype
        return cls(np.concatenate(columns), sections, (counts / len(queries)).astype(kind))


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """The queries of a step by slot, and the rows of both tables that they have."""

    queries: Mapping[Slot, Queries]
    entities: KnownRows
    relations: KnownRows

    @classmethod
    def of(cls, queries: Mapping[Slot, Queries], entities: int, relations: int) -> QueryBatch:
        of_entities = KnownRows.of(ENTITY_SLOTS, queries, entities)
        return cls(queries, of_entities, KnownRows.of((Slot.RELATION,), queries, relations))
