"""Known facts as ids, looked up from any side: to filter ranks, mark answers, and never draw a truth as a falsehood."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from doxa.data.beliefs import Ids

Pairs = tuple[Ids, Ids]
"""(question, answer): answer[i] is a known answer of question number question[i]."""


class TripleIndex:
    """A set of triples that answers "which ones are known?" for many questions at once, by binary search."""

    def __init__(self, triples: NDArray[np.int64], entities: int, relations: int) -> None:
        self.entities, self.relations = entities, relations
        known = triples[(triples >= 0).all(axis=1)]
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

    def grown(self, entities: int, relations: int, more: NDArray[np.int64]) -> TripleIndex:
        """These facts and some more, among more entities and relations.

        A fact's place in the order does not depend on how many there are, so only the new ones are sorted.
        """
        together = TripleIndex(more, entities, relations)
        pair, tail = self._by_head_relation
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

    def places(self, triples: NDArray[np.int64]) -> Ids:
        """Where each of these known facts stands among `triples`."""
        keys = (triples[:, 0] * self.relations + triples[:, 1]) * self.entities + triples[:, 2]
        return np.searchsorted(self._keys, keys)

    def tails(self, head: Ids, relation: Ids) -> Pairs:
        """Known tails of every (head, relation)."""
        return _lookup(*self._by_head_relation, head * self.relations + relation)

    def heads(self, relation: Ids, tail: Ids) -> Pairs:
        """Known heads of every (relation, tail)."""
        return _lookup(*self._by_relation_tail, relation * self.entities + tail)

    def tail_counts(self, head: Ids, relation: Ids) -> Ids:
        """How many tails of every (head, relation) are known."""
        return _counted(self._by_head_relation[0], head * self.relations + relation)[1]

    def head_counts(self, relation: Ids, tail: Ids) -> Ids:
        """How many heads of every (relation, tail) are known."""
        return _counted(self._by_relation_tail[0], relation * self.entities + tail)[1]

    def links(self, head: Ids, tail: Ids) -> Pairs:
        """Known relations of every (head, tail)."""
        return _lookup(*self._by_head_tail, head * self.entities + tail)

    def positions(self, column: int) -> Pairs:
        """(relation, entity) pairs seen in the head (column 0) or tail (column 2) position, sorted."""
        pairs = distinct(self.triples[:, 1] * self.entities + self.triples[:, column])
        return np.divmod(pairs, self.entities)

    @cached_property
    def counts(self) -> Ids:
        """How many facts each relation has."""
        return np.bincount(self.triples[:, 1], minlength=self.relations)

    @cached_property
    def tails_per_head(self) -> NDArray[np.float64]:
        """How many tails a head of each relation has on average; 0 for a relation without facts."""
        return self.counts / np.maximum(np.bincount(self.positions(0)[0], minlength=self.relations), 1)

    @cached_property
    def heads_per_tail(self) -> NDArray[np.float64]:
        """How many heads a tail of each relation has on average; 0 for a relation without facts."""
        return self.counts / np.maximum(np.bincount(self.positions(2)[0], minlength=self.relations), 1)

    @cached_property
    def _by_head_relation(self) -> Pairs:
        return self._keys // self.entities, np.ascontiguousarray(self.triples[:, 2])

    @cached_property
    def _by_relation_tail(self) -> Pairs:
        return _sorted(self.triples[:, 1] * self.entities + self.triples[:, 2], self.triples[:, 0])

    @cached_property
    def _by_head_tail(self) -> Pairs:
        return _sorted(self.triples[:, 0] * self.entities + self.triples[:, 2], self.triples[:, 1])


def distinct(keys: Ids) -> Ids:
    """The distinct keys, sorted. By sorting: several times faster than numpy's hashing `unique`."""
    if not len(keys):
        return keys
    ordered = np.sort(keys)
    new: NDArray[np.bool_] = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    return ordered[new]


def _sorted(keys: Ids, answers: Ids) -> Pairs:
    order = np.argsort(keys, kind="stable")
    return keys[order], answers[order]


def _counted(keys: Ids, wanted: Ids) -> Pairs:
    """Where the first of each wanted key stands, and how many there are."""
    start = np.searchsorted(keys, wanted, side="left")
    return start, np.searchsorted(keys, wanted, side="right") - start


def _lookup(keys: Ids, answers: Ids, wanted: Ids) -> Pairs:
    start, counts = _counted(keys, wanted)
    question = np.repeat(np.arange(len(wanted)), counts)
    within = np.arange(len(question)) - np.repeat(np.cumsum(counts) - counts, counts)
    return question, answers[np.repeat(start, counts) + within]
