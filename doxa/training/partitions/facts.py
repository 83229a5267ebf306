"""Known facts as a task of partitioned training asks for them: by rows of its partitions."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from doxa.data.triples import Pairs, TripleIndex
from doxa.data.vocabulary import Ids
from doxa.slots import Slot


class LocalFacts(TripleIndex):
    """The facts of the whole model, asked and answered in rows of a part of its entities; `ids` are those of the rows.

    Counts are those of all facts. Answers are those that are in the part.
    """

    def __init__(self, facts: TripleIndex, ids: Ids) -> None:
        self._whole, self._ids = facts, ids
        self.entities, self.relations = len(ids), facts.relations

    def answers(self, slot: Slot, head: Ids | None, relation: Ids | None, tail: Ids | None) -> Pairs:
        query, answer = self._whole.answers(slot, *self._global(head, relation, tail))
        if slot is Slot.RELATION:
            return query, answer
        place = np.searchsorted(self._sorted[0], answer)
        place = np.minimum(place, len(self._ids) - 1)
        here = self._sorted[0][place] == answer
        return query[here], self._sorted[1][place[here]]

    def count_answers(self, slot: Slot, head: Ids | None, relation: Ids | None, tail: Ids | None) -> Ids:
        return self._whole.count_answers(slot, *self._global(head, relation, tail))

    def contains(self, head: Ids, relation: Ids, tail: Ids) -> NDArray[np.bool_]:
        return self._whole.contains(self._ids[head], relation, self._ids[tail])

    @property
    def tails_per_head(self) -> NDArray[np.float64]:
        return self._whole.tails_per_head

    @property
    def heads_per_tail(self) -> NDArray[np.float64]:
        return self._whole.heads_per_tail

    def _global(self, head: Ids | None, relation: Ids | None, tail: Ids | None) -> tuple[Ids | None, ...]:
        return (None if head is None else self._ids[head], relation, None if tail is None else self._ids[tail])

    @cached_property
    def _sorted(self) -> tuple[Ids, Ids]:
        """The ids in order, and the row of each."""
        order = np.argsort(self._ids)
        return self._ids[order], order
