"""Splits: train, validation and test sets that share no triple, and every name of which training sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Ids
from doxa.errors import DoxaError, UsageError


def split(
    beliefs: Any, shares: tuple[float, ...] | float, seed: int = 0, apart: Sequence[str] = ()
) -> tuple[Beliefs, ...]:
    """Split beliefs into train and one further part per share; every name of a part occurs in train.

    Rows of one triple stay together, and so do rows that share what is kept `apart`: a pair of entities in either
    order (`pair`), a mention (`mention`), a head or a tail. The first belief (in random order) of every entity and
    relation goes to train with its whole group. So a part can be smaller than its share.
    """
    beliefs, shares = Beliefs.of(beliefs), (shares,) if isinstance(shares, int | float) else tuple(shares)
    if any(share < 0 for share in shares) or sum(shares) >= 1:
        raise UsageError(f"cannot split into shares {shares}; expected positive ones that leave something for train")
    first, triple = np.unique(beliefs.triples, axis=0, return_index=True, return_inverse=True)[1:]
    group = _groups(beliefs, triple.reshape(-1), apart)
    groups = int(group.max(initial=-1)) + 1
    sizes = np.bincount(group[first], minlength=groups)
    order = np.random.default_rng([seed, 0]).permutation(groups)
    position = np.empty(groups, np.int64)
    position[order] = np.arange(groups)
    rows = np.argsort(position[group], kind="stable")
    needed = np.zeros(groups, bool)
    both_ends = np.stack([beliefs.head[rows], beliefs.tail[rows]], axis=1).reshape(-1)
    needed[group[rows[np.unique(both_ends, return_index=True)[1] // 2]]] = True
    needed[group[rows[np.unique(beliefs.relation[rows], return_index=True)[1]]]] = True
    free = order[~needed[order]]
    part_of_group = np.zeros(groups, np.int64)
    filled = np.cumsum(sizes[free])
    start, taken = 0, 0
    for number, share in enumerate(shares, start=1):
        end = max(start, int(np.searchsorted(filled, taken + round(share * len(first)), side="right")))
        part_of_group[free[start:end]] = number
        start, taken = end, int(filled[end - 1]) if end else 0
    part = part_of_group[group]
    return tuple(beliefs.where(part == number) for number in range(len(shares) + 1))


def _groups(beliefs: Beliefs, triple: Ids, apart: Sequence[str]) -> Ids:
    """The group of each row: rows of one triple, and rows linked through what is kept apart, have the same."""
    group = triple
    entities = len(beliefs.vocabularies.entities)
    for key in apart:
        if key == "pair":
            pair = np.minimum(beliefs.head, beliefs.tail) * entities + np.maximum(beliefs.head, beliefs.tail)
            shared = np.unique(pair, return_inverse=True)[1]
        elif key in ("head", "tail"):
            shared = np.unique(getattr(beliefs, key), return_inverse=True)[1]
        elif key == "mention":
            if beliefs.text is None:
                raise DoxaError("these beliefs have no mentions to keep apart")
            mention = beliefs.text.rank("dense").cast(pl.Int64)
            shared = mention.fill_null(pl.Series(np.arange(len(beliefs)) + len(beliefs) + 1)).to_numpy()
            shared = np.unique(shared, return_inverse=True)[1]
        else:
            raise UsageError(f"cannot keep {key!r} apart; expected pair, mention, head or tail")
        group = _linked(group, shared)
    return group


def _linked(first: Ids, second: Ids) -> Ids:
    """Groups of rows connected through either of two groupings."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    size = int(first.max(initial=-1)) + 1
    total = size + int(second.max(initial=-1)) + 1
    links = coo_matrix((np.ones(len(first), np.int8), (first, second + size)), shape=(total, total))
    component = connected_components(links, directed=False)[1]
    return np.unique(component[first], return_inverse=True)[1].astype(np.int64)
