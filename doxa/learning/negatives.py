"""Negatives: candidates shared by a batch for training, and corrupted beliefs for classification."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from doxa.beliefs import Beliefs, Ids
from doxa.facts import Facts
from doxa.mentions import Ragged
from doxa.pbe import PBE


@dataclass(frozen=True)
class Candidates:
    """Ids from E_h, R and E_t that every belief of a batch is compared with; each sorted and distinct."""

    heads: Tensor
    relations: Tensor
    tails: Tensor


def every_candidate(pbe: PBE) -> Candidates:
    """All of E_h, R and E_t, for exact probabilities."""
    return Candidates(pbe.seen_heads, torch.arange(pbe.relations), pbe.seen_tails)


def draw_candidates(pbe: PBE, count: int, random: np.random.Generator) -> Candidates:
    """`count` distinct ones from each of E_h, R and E_t, all equally likely; all there are where that is fewer."""
    every = every_candidate(pbe)

    def some(ids: Tensor) -> Tensor:
        if count >= len(ids):
            return ids
        return ids[torch.from_numpy(np.sort(random.choice(len(ids), count, replace=False, shuffle=False)))]

    return Candidates(some(every.heads), some(every.relations), some(every.tails))


def corrupt(beliefs: Beliefs, known: Facts, seed: int, attempts: int = 50) -> tuple[Beliefs, Ids]:
    """A false twin of each belief: head or tail replaced by an entity seen in that position of that relation.

    The rule of the paper's Section 5.4, never a known fact. Returns the twins and the rows they were made from:
    a belief for which no such entity turns up in `attempts` draws has none.
    """
    random = np.random.default_rng([seed, 3])
    pools = {column: Ragged.from_lengths(entity, np.bincount(relation, minlength=known.relations).astype(np.int64))
             for column in (0, 2) for relation, entity in [known.positions(column)]}  # fmt: skip
    triples = beliefs.triples.copy()
    open_rows = np.flatnonzero(beliefs.seen)
    side = random.integers(0, 2, len(triples)) * 2
    made = np.zeros(len(triples), bool)
    for attempt in range(attempts):
        if not len(open_rows):
            break
        if attempt == attempts // 2:
            side[open_rows] = 2 - side[open_rows]
        drawn = triples[open_rows]
        for column, pool in pools.items():
            chosen = np.flatnonzero(side[open_rows] == column)
            relation = drawn[chosen, 1]
            sizes = pool.lengths[relation]
            chosen, relation, sizes = chosen[sizes > 0], relation[sizes > 0], sizes[sizes > 0]
            drawn[chosen, column] = pool.values[pool.offsets[relation] + random.integers(0, sizes)]
        same = (drawn == beliefs.triples[open_rows]).all(axis=1)
        false = ~same & ~known.contains(drawn[:, 0], drawn[:, 1], drawn[:, 2])
        triples[open_rows[false]] = drawn[false]
        made[open_rows[false]] = True
        open_rows = open_rows[~false]
    source = np.flatnonzero(made)
    twins = beliefs.take(source)
    label = np.full(len(source), -1, np.int8)
    return replace(twins, head=triples[source, 0], tail=triples[source, 2], label=label), source
