"""Negatives: corrupted triples for triplet classification (Section 5.4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from doxa.data.beliefs import Beliefs
from doxa.data.mentions import Ragged
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.slots import ENTITY_SLOTS, Slot

ATTEMPTS = 50
"""Draws per belief before it is left without a negative; from half of them on the other slot is corrupted."""


def corrupt_triples(
    beliefs: Beliefs, known: TripleIndex, seed: int, negatives_from: str = "relation"
) -> tuple[Beliefs, Ids]:
    """A corrupted triple for each belief: head or tail replaced, never a known fact (Section 5.4).

    The replacement is an entity seen in that slot of the relation (`negatives_from="relation"`), or any entity
    (`"all"`). A belief with an unseen entity keeps it and has the other one replaced. Returns the negatives and the
    rows they were made from; beliefs without a replacement or with an unknown relation are left out.
    """
    random = np.random.default_rng([seed, 3])
    pools = {slot: Ragged.from_lengths(entity, np.bincount(relation, minlength=known.relations).astype(np.int64))
             for slot in ENTITY_SLOTS for relation, entity in [known.seen(slot)]}  # fmt: skip
    triples = beliefs.triples.copy()
    open_rows = np.flatnonzero(beliefs.relation >= 0)
    side = random.integers(0, 2, len(triples)) * Slot.TAIL
    side = np.where(beliefs.head < 0, Slot.TAIL, np.where(beliefs.tail < 0, Slot.HEAD, side))
    replaced = np.zeros(len(triples), bool)
    for attempt in range(ATTEMPTS):
        if not len(open_rows):
            break
        if attempt == ATTEMPTS // 2:
            free = open_rows[beliefs.seen[open_rows]]
            side[free] = Slot.TAIL - side[free]
        drawn = triples[open_rows]
        for slot, pool in pools.items():
            rows = np.flatnonzero(side[open_rows] == slot)
            if negatives_from == "all":
                drawn[rows, slot] = random.integers(0, known.entities, len(rows))
                continue
            relation = drawn[rows, Slot.RELATION]
            sizes = pool.lengths[relation]
            rows, relation, sizes = rows[sizes > 0], relation[sizes > 0], sizes[sizes > 0]
            drawn[rows, slot] = pool.values[pool.offsets[relation] + random.integers(0, sizes)]
        same = (drawn == beliefs.triples[open_rows]).all(axis=1)
        false = ~same & ~known.contains(*drawn.T)
        triples[open_rows[false]] = drawn[false]
        replaced[open_rows[false]] = True
        open_rows = open_rows[~false]
    source = np.flatnonzero(replaced)
    label = np.full(len(source), -1, np.int8)
    return replace(beliefs.take(source), head=triples[source, 0], tail=triples[source, 2], label=label), source


def labeled_beliefs(beliefs: Beliefs, known: TripleIndex, seed: int, negatives_from: str = "relation") -> Beliefs:
    """The beliefs with their labels; without negatives among them, each positive followed by a corrupted triple.

    A belief that cannot be corrupted is left out. `known` must hold the beliefs themselves.
    """
    if has_negatives(beliefs):
        return beliefs
    negatives, source = corrupt_triples(beliefs, known, seed, negatives_from)
    alternating = np.arange(2 * len(source)).reshape(2, -1).T.reshape(-1)
    return stack(beliefs.take(source), negatives).take(alternating)


def stack(positives: Beliefs, negatives: Beliefs) -> Beliefs:
    """Positives and then negatives, labeled as such; the texts of mentions are dropped."""
    label = np.repeat(np.array([1, -1], np.int8), [len(positives), len(negatives)])
    return replace(Beliefs.concat([positives, negatives]), label=label, text=None)


def has_negatives(beliefs: Beliefs) -> bool:
    """Whether any belief is labeled false, so that no corrupted triples are needed."""
    return beliefs.label is not None and bool((beliefs.label == -1).any())
