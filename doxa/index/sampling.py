"""The sum of exponentials of a softmax, from the largest logits and a weighted sample of the rest.

    Σ exp l_i  ≈  Σ_{i best} exp l_i  +  1/n · Σ_{j drawn, not best} exp l_j / q_j

The n entities are drawn by cell: first a cell c, then one of its n_c candidates, all with the same chance. So

    q_j = chance_c / n_c,    chance_c = .9 · n_c exp(.7 s_c) / Σ n exp(.7 s)  +  .1 · n_c / Σ n

where s_c is the logit of the centroid. The estimate is unbiased whatever the chances are; cells with large logits are
drawn more often, so that its error is small. The uniform tenth bounds the weight of an entity whose cell looked poor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data.vocabulary import Ids

Numbers = NDArray[np.float64]

SHARPNESS, UNIFORM = 0.7, 0.1
"""Factor on the centroid's logit, and the share of draws that do not look at it."""


class LogTotal(NamedTuple):
    """The logarithm of an estimated sum of exponentials, and the sum's standard error as a share of it."""

    value: float
    relative_error: float


def cell_chances(counts: Ids, scores: Numbers) -> Numbers:
    """The chance that a draw falls into each cell, (C,), from its number of candidates and its centroid's logit."""
    exponents = np.where(counts > 0, SHARPNESS * scores, -np.inf)  # a cell without candidates may have any score
    weights = counts * np.exp(exponents - exponents.max())
    return np.asarray((1 - UNIFORM) * weights / weights.sum() + UNIFORM * counts / counts.sum())


def draw(chances: Numbers, counts: Ids, count: int, random: np.random.Generator) -> tuple[Ids, Ids]:
    """Cells, sorted, and places in them of `count` draws: one in each of `count` equal parts of the total chance."""
    levels = (np.arange(count) + random.random(count)) / count
    ends = np.cumsum(chances)
    cells = np.searchsorted(ends, levels * ends[-1], side="right")
    cells = np.minimum(cells, np.flatnonzero(counts)[-1])  # beyond the last end by rounding
    return cells, (random.random(count) * counts[cells]).astype(np.int64)


def log_total(best: Numbers, drawn: Numbers, log_chance: Numbers) -> LogTotal:
    """Estimate log Σ exp from the best logits and those of the draws, −∞ for a draw that is one of the best.

    `log_chance` is log q of each draw. The standard error is that of independent draws; draws from equal parts of the
    chance vary less.
    """
    weighted = drawn - log_chance
    top = max(best.max(initial=-np.inf), weighted.max(initial=-np.inf))
    if not np.isfinite(top):
        return LogTotal(-np.inf, 0.0)
    values = np.exp(weighted - top)
    total = np.exp(best - top).sum() + values.mean()
    error = values.std(ddof=1) / np.sqrt(len(values)) / total
    return LogTotal(float(top + np.log(total)), float(error))
