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
"""Kernel bandwidth of the smoothed accuracy, in deviations / n^(1/5), see `right_decisions`."""

PRIOR_BELIEFS = 10
"""Labeled beliefs of all relations that are added to those of each relation, see `Thresholds.fit`.

Chosen by cross-validation on validation beliefs (`experiments/calibration/threshold_prior.py`).
"""

NORMAL_QUARTILES = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""

MAX_CUTS = 512
"""Thresholds tried for the beliefs of a relation, or of all, at most."""


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
    def fit(
        cls,
        scores: Numbers,
        relation: Ids,
        label: NDArray[np.int8],
        relations: int,
        prior_beliefs: float = PRIOR_BELIEFS,
    ) -> Thresholds:
        """The most accurate thresholds for labeled triples, per relation and over all.

            σ_r = argmax_σ right_r(σ) + prior_beliefs · right(σ) / n

        `right_r` counts right decisions on the triples of r, `right` those on all n triples (`right_decisions`). So a
        relation with few triples leans on the overall threshold, and one with many has its own. right(σ) is linear
        between the candidates for all triples; these are tried for every relation.
        """
        cuts = candidate_cuts(scores)
        right = right_decisions(scores, label, cuts)
        by_relation = np.full(relations, np.nan)
        order = np.argsort(relation, kind="stable")
        starts = np.searchsorted(relation[order], np.arange(relations + 1))
        for number in np.unique(relation):
            rows = order[starts[number] : starts[number + 1]]
            tried = candidate_cuts(scores[rows])
            if prior_beliefs:
                tried = np.union1d(tried, cuts)
            prior = prior_beliefs / len(scores) * np.interp(tried, cuts, right)
            by_relation[number] = _lowest_best(tried, right_decisions(scores[rows], label[rows], tried) + prior)
        return cls(by_relation, _lowest_best(cuts, right))

    def adjust(self, scores: Numbers, relation: Ids, label: NDArray[np.int8], prior_labels: float) -> Thresholds:
        """The same, moved toward the most accurate thresholds for n labels by n / (n + prior_labels) of the way.

        A relation without labels keeps its threshold.
        """
        if not len(label):
            return self
        best = self.fit(scores, relation, label, len(self.by_relation), prior_beliefs=0)
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


def candidate_cuts(scores: Numbers) -> Numbers:
    """Thresholds to try, ascending: halfway between neighboring scores, and 1 below and above all of them."""
    ordered = np.unique(scores)
    cuts = np.concatenate([[ordered[0] - 1], (ordered[1:] + ordered[:-1]) / 2, [ordered[-1] + 1]])
    if len(cuts) > MAX_CUTS:
        cuts = cuts[np.linspace(0, len(cuts) - 1, MAX_CUTS).round().astype(np.int64)]
    return np.asarray(cuts)


def right_decisions(scores: Numbers, label: NDArray[np.int8], cuts: Numbers) -> Numbers:
    """Kernel-smoothed number of right decisions "true at or above the cut", for each of ascending cuts.

    Each score counts as a normal distribution around it, of width BANDWIDTH · deviation / n^(1/5), so that the place of
    a single triple decides nothing. The deviation is the smaller of the standard deviation and the one estimated from
    the quartiles, so that outliers do not widen the kernel. Below and above all scores, all or none of them count.
    """
    from scipy.special import ndtr  # only fitting needs it, and answering should start quickly

    deviation, middle = float(np.std(scores)), float(np.subtract(*np.percentile(scores, [75, 25]))) / NORMAL_QUARTILES
    width = max(BANDWIDTH * (min(deviation, middle) or deviation) / len(scores) ** 0.2, 1e-9)
    sign, (first, last) = np.where(label == 1, 1.0, -1.0), np.searchsorted(cuts, [scores.min(), scores.max()])
    right = np.full(len(cuts), float((label != 1).sum()))
    right[:first] += sign.sum()
    for start in range(0, len(scores), MAX_CUTS):
        block = slice(start, start + MAX_CUTS)
        right[first:last] += sign[block] @ ndtr((scores[block, None] - cuts[first:last]) / width)
    return right


def _lowest_best(cuts: Numbers, right: Numbers) -> float:
    """The cut with most right decisions (Section 5.4); of several, the lowest."""
    return float(cuts[np.argmax(right > right.max() - 1e-9)])
