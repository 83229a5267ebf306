"""Synthetic knowledge bases of any size with planted structure, for benchmarks.

Entities form groups on a ring. A relation links every group to one other group, at a fixed distance along the ring. The
tail is drawn within that group, earlier members more often. Heads are drawn unevenly too, so that a few entities occur
in many beliefs. Beliefs are generated block by block.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from doxa.data.beliefs import Beliefs, no_confidence
from doxa.data.mentions import Ragged
from doxa.data.vocabulary import Ids, Vocabularies, Vocabulary

GROUP = 50
"""Entities per group."""

BLOCK = 1_000_000
"""Beliefs per block."""


def triples(beliefs: int, entities: int, relations: int, seed: int = 0) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Ids of heads, relations and tails, in blocks."""
    random = np.random.default_rng([seed, 7])
    groups = max(1, entities // GROUP)
    shift = random.integers(0, groups, relations)
    for start in range(0, beliefs, BLOCK):
        count = min(BLOCK, beliefs - start)
        head = (entities * random.random(count) ** 2).astype(np.int64)
        relation = (relations * random.random(count) ** 2).astype(np.int64)
        place = (GROUP * random.random(count) ** 3).astype(np.int64)
        tail = (head // GROUP + shift[relation]) % groups * GROUP + place
        yield head, relation, np.minimum(tail, entities - 1)


def frames(beliefs: int, entities: int, relations: int, seed: int = 0) -> Iterator[pl.DataFrame]:
    """Frames with the columns head, relation, tail, in blocks."""
    for head, relation, tail in triples(beliefs, entities, relations, seed):
        yield pl.DataFrame(
            {
                "head": _named("entity/", head),
                "relation": _named("relation/", relation),
                "tail": _named("entity/", tail),
            }
        )


def generate(beliefs: int, entities: int, relations: int, seed: int = 0) -> Beliefs:
    """All beliefs at once; the vocabularies hold every entity and relation, drawn or not."""
    head, relation, tail = (
        np.concatenate(part) for part in zip(*triples(beliefs, entities, relations, seed), strict=True)
    )
    names = Vocabularies(
        Vocabulary(_named("entity/", np.arange(entities)), "entity"),
        Vocabulary(_named("relation/", np.arange(relations)), "relation"),
        Vocabulary(pl.Series([], dtype=pl.String), "word"),
    )
    return Beliefs(names, head, relation, tail, Ragged.empty(beliefs), no_confidence(beliefs))


def _named(prefix: str, numbers: Ids) -> pl.Series:
    return prefix + pl.Series(numbers).cast(pl.String)
