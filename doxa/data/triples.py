"""Index of known facts: the answers of a query, counts per relation, mapping kinds.

It filters ranks, marks known answers, and keeps true facts out of the negatives.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from doxa.data.vocabulary import Ids
from doxa.slots import Slot

Pairs = tuple[Ids, Ids]
"""(query, answer): answer[i] is a known answer of query number query[i]."""

MANY = 1.5
"""Answers per query, on average, from which a relation counts as "N" on that side (Bordes et al., 2013)."""


LOOP_PRIOR = 1.0
"""Facts that the overall share of self-loops counts for in the share of one relation, see `loop_shares`."""


class TripleIndex:
    """A set of triples of ids that answers many queries at once, by binary search."""

    def __init__(self, triples: NDArray[np.int64], entities: int, relations: int) -> None:
        self.entities, self.relations = entities, relations
        known = triples if triples.min(initial=0) >= 0 else triples[(triples >= 0).all(axis=1)]
        self._keys = distinct((known[:, 0] * relations + known[:, 1]) * entities + known[:, 2])

    def __len__(self) -> int:
        return len(self._keys)

    @cached_property
    def triples(self) -> NDArray[np.int64]:
        """(n, 3), sorted."""
        pair, tail = np.divmod(self._keys, self.entities)
        head, relation = np.divmod(pair, self.relations)
        return np.stack([head, relation, tail], axis=1)

    def union(self, triples: NDArray[np.int64]) -> TripleIndex:
        together = TripleIndex(triples, self.entities, self.relations)
        together._keys = distinct(np.concatenate([self._keys, together._keys]))
        return together

    def grow(self, entities: int, relations: int, more: NDArray[np.int64]) -> TripleIndex:
        """These facts and more, in larger vocabularies.

        The order of facts does not depend on the sizes of the vocabularies, so only the new facts are sorted.
        """
        together = TripleIndex(more, entities, relations)
        pair, tail = self._by_slot[Slot.TAIL]
        if relations != self.relations:
            pair = pair + self.triples[:, 0] * (relations - self.relations)
        keys = pair * entities + tail
        place = np.searchsorted(keys, together._keys)
        new = keys[np.minimum(place, len(keys) - 1)] != together._keys if len(keys) else np.ones(len(place), bool)
        together._keys = np.insert(keys, place[new], together._keys[new])
        return together

    def without(self, triples: NDArray[np.int64]) -> TripleIndex:
        """The facts that are not among these."""
        rest = TripleIndex(np.zeros((0, 3), np.int64), self.entities, self.relations)
        rest._keys = np.setdiff1d(
            self._keys, TripleIndex(triples, self.entities, self.relations)._keys, assume_unique=True
        )
        return rest

    def contains(self, head: Ids, relation: Ids, tail: Ids) -> NDArray[np.bool_]:
        keys = (head * self.relations + relation) * self.entities + tail
        keys = np.where((head < 0) | (relation < 0) | (tail < 0), -1, keys)
        return np.searchsorted(self._keys, keys, side="right") > np.searchsorted(self._keys, keys, side="left")

    def rows_of(self, triples: NDArray[np.int64]) -> Ids:
        """The row of each of these known facts in `self.triples`."""
        keys = (triples[:, 0] * self.relations + triples[:, 1]) * self.entities + triples[:, 2]
        return np.searchsorted(self._keys, keys)

    def answers(self, slot: Slot, head: Ids | None, relation: Ids | None, tail: Ids | None) -> Pairs:
        """The known answers of every query; the column of the missing slot is not read and may be None."""
        keys, values = self._by_slot[slot]
        return _lookup(keys, values, self._query(slot, head, relation, tail))

    def count_answers(self, slot: Slot, head: Ids | None, relation: Ids | None, tail: Ids | None) -> Ids:
        """How many known answers every query has."""
        return _range(self._by_slot[slot][0], self._query(slot, head, relation, tail))[1]

    def _query(self, slot: Slot, head: Ids | None, relation: Ids | None, tail: Ids | None) -> Ids:
        """One number per query, made of its two given ids."""
        if slot is Slot.TAIL:
            assert head is not None
            assert relation is not None
            return head * self.relations + relation
        first = relation if slot is Slot.HEAD else head
        assert first is not None
        assert tail is not None
        return first * self.entities + tail

    def seen(self, slot: Slot) -> Pairs:
        """(relation, entity) pairs: the entities that occur in that slot of each relation, sorted."""
        pairs = distinct(self.triples[:, Slot.RELATION] * self.entities + self.triples[:, slot])
        return np.divmod(pairs, self.entities)

    @cached_property
    def counts(self) -> Ids:
        """How many facts each relation has."""
        return np.bincount(self.triples[:, Slot.RELATION], minlength=self.relations)

    @cached_property
    def loop_shares(self) -> NDArray[np.float64]:
        """The share of self-loops ⟨e, r, e⟩ among the facts of each relation, (R,).

            share = (loops of r + LOOP_PRIOR · overall share) / (facts of r + LOOP_PRIOR)

        The overall share has half a loop more than counted, so that no share is 0.
        """
        triples = self.triples
        looped = triples[triples[:, Slot.HEAD] == triples[:, Slot.TAIL], Slot.RELATION]
        overall = (len(looped) + 0.5) / (len(self) + 1)
        loops = np.bincount(looped, minlength=self.relations)
        return np.asarray((loops + LOOP_PRIOR * overall) / (self.counts + LOOP_PRIOR))

    def several_answers(self, slot: Slot) -> NDArray[np.float64]:
        """Per relation, the share of queries for `slot` that have more than one known answer, (R,).

        Two queries are added to each relation, one with several answers and one without.
        """
        triples = self.triples
        queries = triples[:, Slot.RELATION] * self.entities + triples[:, slot.other]
        queries, counts = np.unique(queries, return_counts=True)
        relation = queries // self.entities
        several = np.bincount(relation, counts > 1, minlength=self.relations)
        return np.asarray((several + 1) / (np.bincount(relation, minlength=self.relations) + 2))

    def facts_with_others(self, slot: Slot) -> NDArray[np.float64]:
        """Per relation, the share of facts whose query for `slot` has another known answer, (R,).

        Two facts are added to each relation, one with another answer and one without.
        """
        triples = self.triples
        queries = triples[:, Slot.RELATION] * self.entities + triples[:, slot.other]
        queries, counts = np.unique(queries, return_counts=True)
        others = np.bincount(queries // self.entities, np.where(counts > 1, counts, 0), minlength=self.relations)
        return np.asarray((others + 1) / (self.counts + 2))

    @cached_property
    def tails_per_head(self) -> NDArray[np.float64]:
        """How many tails a head of each relation has on average; 0 for a relation without facts."""
        return self._answers_per(Slot.HEAD)

    @cached_property
    def heads_per_tail(self) -> NDArray[np.float64]:
        """How many heads a tail of each relation has on average; 0 for a relation without facts."""
        return self._answers_per(Slot.TAIL)

    def _answers_per(self, slot: Slot) -> NDArray[np.float64]:
        return self.counts / np.maximum(np.bincount(self.seen(slot)[0], minlength=self.relations), 1)

    def mapping_kinds(self) -> list[str]:
        """1-1, 1-N, N-1 or N-N for each relation: "N" where a query has `MANY` answers or more on average."""
        heads, tails = self.heads_per_tail >= MANY, self.tails_per_head >= MANY
        return [f"{'N' if h else 1}-{'N' if t else 1}" for h, t in zip(heads, tails, strict=True)]

    @cached_property
    def _by_slot(self) -> _BySlot:
        return _BySlot(self)


class _BySlot:
    """For each slot the queries of all facts, sorted, and their answers; each made when first asked for."""

    def __init__(self, facts: TripleIndex) -> None:
        self._facts = facts
        self._made: dict[Slot, Pairs] = {}

    def __getitem__(self, slot: Slot) -> Pairs:
        if slot not in self._made:
            facts, columns = self._facts, self._facts.triples.T
            if slot is Slot.TAIL:  # the order of the facts themselves
                self._made[slot] = facts._keys // facts.entities, np.ascontiguousarray(columns[Slot.TAIL])
            else:
                queries = facts._query(slot, *columns)
                order = np.argsort(queries, kind="stable")
                self._made[slot] = queries[order], columns[slot][order]
        return self._made[slot]


def distinct(keys: Ids) -> Ids:
    """The distinct keys, sorted. By sorting: several times faster than numpy's hashing `unique`."""
    if not len(keys):
        return keys
    ordered = np.sort(keys)
    new: NDArray[np.bool_] = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    return ordered[new]


def _range(keys: Ids, wanted: Ids) -> Pairs:
    """Where the first of each wanted key stands, and how many there are."""
    start = np.searchsorted(keys, wanted, side="left")
    return start, np.searchsorted(keys, wanted, side="right") - start


def _lookup(keys: Ids, answers: Ids, wanted: Ids) -> Pairs:
    start, counts = _range(keys, wanted)
    query = np.repeat(np.arange(len(wanted)), counts)
    within = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    return query, answers[np.repeat(start, counts) + within]
