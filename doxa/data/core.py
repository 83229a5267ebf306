"""The dense core of a graph: a small sample on which settings can be compared (as in GraSH, Kochsiek et al., 2022).

A k-core is what remains when entities in fewer than k beliefs are dropped until none is left. Entities of the core keep
many of their beliefs, where a random sample of the beliefs would leave each entity with few.
"""

from __future__ import annotations

import numpy as np

from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Ids


def dense_core(beliefs: Beliefs, size: int) -> Beliefs:
    """About `size` beliefs of the densest part of the graph, in vocabularies of only the names they use."""
    rows = core_rows(beliefs.head, beliefs.tail, len(beliefs.vocabularies.entities), size)
    return beliefs if len(rows) == len(beliefs) else beliefs.take(rows).compact()


def core_rows(head: Ids, tail: Ids, entities: int, size: int) -> Ids:
    """The rows of the core: entities of the smallest degree leave, layer by layer, until at most `size` rows remain.

    A layer is all entities whose degree is at most k, the largest smallest degree so far; so each core is a k-core
    until the last layer, of which only as many entities leave, in the order of their ids, as are needed. Where that
    would leave nothing, the rows before the last layer are kept.
    """
    rows, level = np.arange(len(head)), 0
    while len(rows) > size:
        ends = head[rows], tail[rows]
        degree = np.bincount(ends[0], minlength=entities) + np.bincount(ends[1], minlength=entities)
        level = max(level, int(degree[degree > 0].min()))
        layer = np.flatnonzero((degree > 0) & (degree <= level))
        place = np.full(entities, len(layer))
        place[layer] = np.arange(len(layer))
        leaves = np.minimum(place[ends[0]], place[ends[1]])
        remaining = len(rows) - np.cumsum(np.bincount(leaves, minlength=len(layer) + 1)[:-1])
        last = min(int(np.searchsorted(-remaining, -size)), len(layer) - 1)
        kept = rows[leaves > last]
        if not len(kept):
            break
        rows = kept
    return rows
