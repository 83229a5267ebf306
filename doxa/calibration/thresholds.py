"""Thresholds: a triple is classified as true at or above the threshold of its relation (Section 5.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.vocabulary import Ids

Numbers = NDArray[np.float64]

BANDWIDTH = 0.5
"""Kernel bandwidth of the smoothed accuracy, in deviations / n^(1/5), see `best_threshold`."""

NORMAL_QUARTILES = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""

MAX_CUTS = 512
"""Thresholds tried for a relation at most."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """σ_r, one threshold per relation (Section 5.4).

    `by_relation` is NaN for a relation without labeled validation triples; `overall` is used there.
    """

    by_relation: Numbers
    overall: float

    @classmethod
    def unfitted(cls, relations: int) -> Thresholds:
        """The threshold 0 for every relation."""
        return cls(np.full(relations, np.nan), 0.0)

    @classmethod
    def fit(cls, scores: Numbers, relation: Ids, label: NDArray[np.int8], relations: int) -> Thresholds:
        """The most accurate thresholds for labeled triples (`best_threshold`), per relation and over all."""
        by_relation = np.full(relations, np.nan)
        order = np.argsort(relation, kind="stable")
        starts = np.searchsorted(relation[order], np.arange(relations + 1))
        for number in np.unique(relation):
            rows = order[starts[number] : starts[number + 1]]
            by_relation[number] = best_threshold(scores[rows], label[rows])
        return cls(by_relation, best_threshold(scores, label))

    def adjust(self, scores: Numbers, relation: Ids, label: NDArray[np.int8], prior_labels: float) -> Thresholds:
        """The same, moved toward the most accurate thresholds for n labels by n / (n + prior_labels) of the way.

        A relation without labels keeps its threshold.
        """
        if not len(label):
            return self
        best = self.fit(scores, relation, label, len(self.by_relation))
        count = np.bincount(relation, minlength=len(self.by_relation))
        old = self.of(np.arange(len(self.by_relation)))
        moved = old + count / (count + prior_labels) * (best.by_relation - old)
        overall = self.overall + len(label) / (len(label) + prior_labels) * (best.overall - self.overall)
        return Thresholds(np.where(count > 0, moved, self.by_relation), float(overall))

    def of(self, relation: Ids) -> Numbers:
        """The threshold of each triple; `overall` for an unknown relation, whose id is negative."""
        thresholds = np.where(relation >= 0, self.by_relation[relation], np.nan)
        return np.where(np.isnan(thresholds), self.overall, thresholds)

    def grow(self, relations: int) -> Thresholds:
        """The same with `relations` more relations, which use the overall threshold."""
        return Thresholds(np.append(self.by_relation, np.full(relations, np.nan)), self.overall)

    def as_dict(self, names: Callable[[int], str]) -> dict[str, Any]:
        """Plain data for the model folder; relations by name."""
        fitted = np.flatnonzero(~np.isnan(self.by_relation)).tolist()
        return {
            "overall": self.overall,
            "by_relation": {names(relation): float(self.by_relation[relation]) for relation in fitted},
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], relations: int, ids: Callable[[list[str]], Ids]) -> Thresholds:
        """The inverse of `as_dict`."""
        by_relation = np.full(relations, np.nan)
        by_relation[ids(list(stored["by_relation"]))] = list(stored["by_relation"].values())
        return cls(by_relation, stored["overall"])


def best_threshold(scores: Numbers, label: NDArray[np.int8]) -> float:
    """The threshold with the highest kernel-smoothed accuracy of "true at or above it" (Section 5.4).

    Each score counts as a normal distribution around it, of width BANDWIDTH · deviation / n^(1/5), so that a handful
    of triples cannot set the threshold by chance. The deviation is the smaller of the standard deviation and the one
    estimated from the quartiles, so that outliers do not widen the kernel. Candidates lie halfway between neighboring
    scores, and below and above all of them; at most MAX_CUTS are tried. Ties: the lowest threshold.
    """
    from scipy.special import ndtr  # only fitting needs it, and answering should start quickly

    ordered = np.unique(scores)
    cuts = np.concatenate([[-np.inf], (ordered[1:] + ordered[:-1]) / 2, [np.inf]])
    if len(cuts) > MAX_CUTS:
        cuts = cuts[np.linspace(0, len(cuts) - 1, MAX_CUTS).round().astype(np.int64)]
    deviation, middle = float(np.std(scores)), float(np.subtract(*np.percentile(scores, [75, 25]))) / NORMAL_QUARTILES
    width = max(BANDWIDTH * (min(deviation, middle) or deviation) / len(scores) ** 0.2, 1e-9)
    right = np.zeros(len(cuts))
    for start in range(0, len(scores), MAX_CUTS):
        block = slice(start, start + MAX_CUTS)
        above = ndtr((scores[block, None] - cuts) / width)
        right += np.where(label[block, None] == 1, above, 1 - above).sum(0)
    best = cuts[np.argmax(right > right.max() - 1e-9)]
    return float(np.clip(best, ordered[0] - 1, ordered[-1] + 1))
