"""Labels: how far labeled beliefs move the credence of a model that is already calibrated.

    new log odds = scale · old log odds + shift + shift of the relation

    minimize   Σ log loss of the labels + ½ · PRIOR_LABELS · v · (SPREAD² · (scale − 1)² + δ² + Σ_r δ_r² / RELATION)

with δ the common change of the log odds, and δ_r the further change of a relation: normal priors around the old curve.
v is the mean squared error of the old credence on the labels. For a calibrated credence p it is the mean of p (1 − p),
the information that a label carries on a shift, so the old curve counts as PRIOR_LABELS labels. Labels that contradict
the old curve raise v and move credence more slowly.

δ is the change at the mean log odds of the labels, weighted by their squared errors, so that labels that err in one
direction shift the curve instead of turning it: the scale is learned from differences between them. A relation without
labels moves by the common part alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.thresholds import Numbers
from doxa.data.vocabulary import Ids

PRIOR_LABELS = 150
"""Labels that the old curve and the old thresholds count as.

This and the next two were chosen on WN18RR and NELL (`experiments/curation/label_prior.py`): 18 to 2,000 labels
of the same mixture, of other shares of true beliefs, with a curve that is shifted or too steep, with a relation that
is wrong, and 18 to 200 false beliefs of the highest credence. The values have a low mean and a low largest excess of
log loss on other beliefs over the best values for each case.
"""

SPREAD = 2.0
"""Deviation of the prior of a shift over that of the scale."""

RELATION = 10.0
"""Variance of the prior of a relation's shift over that of the common shift."""

MIN_ERROR = 0.05
"""The smallest v, so that labels which only agree with the old curve do not make it more certain."""

MIN_SCALE = 0.05
"""The smallest scale: credence stays an increasing function of the score."""

MAX_LOG_ODDS = 10.0
"""Old log odds count as at most this when labels are fitted, so that one label cannot turn the scale."""

ROUNDS, TOLERANCE = 100, 1e-9


@dataclass(frozen=True, eq=False)
class Adjustment:
    """A change of log odds by labels: `scale` and `shift` for all relations, `shifts`, (R,), added per relation."""

    scale: float
    shift: float
    shifts: Numbers

    def apply(self, log_odds: Numbers, relation: Ids) -> Numbers:
        """The new log odds, (n,); an unknown relation, whose id is negative, has the common shift."""
        further = np.where(relation >= 0, self.shifts[relation], 0.0)
        return np.asarray(self.scale * log_odds + self.shift + further)

    def after(self, earlier: Adjustment | None) -> Adjustment:
        """The earlier adjustment followed by this one, as one."""
        if earlier is None:
            return self
        return Adjustment(
            self.scale * earlier.scale,
            self.scale * earlier.shift + self.shift,
            self.scale * earlier.shifts + self.shifts,
        )

    def grow(self, relations: int) -> Adjustment:
        """The same with `relations` more relations, which have the common shift."""
        return replace(self, shifts=np.append(self.shifts, np.zeros(relations)))

    def as_dict(self, names: Callable[[int], str]) -> dict[str, Any]:
        """Plain data for the model folder; relations by name where they have a shift."""
        shifted = np.flatnonzero(self.shifts).tolist()
        return {
            "scale": self.scale,
            "shift": self.shift,
            "by_relation": {names(relation): float(self.shifts[relation]) for relation in shifted},
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], relations: int, ids: Callable[[list[str]], Ids]) -> Adjustment:
        """The inverse of `as_dict`."""
        shifts, by_relation = np.zeros(relations), stored["by_relation"]
        if by_relation:
            shifts[ids(list(by_relation))] = list(by_relation.values())
        return cls(stored["scale"], stored["shift"], shifts)


def fit_adjustment(log_odds: Numbers, relation: Ids, true: NDArray[np.bool_], relations: int) -> Adjustment:
    """The adjustment of old log odds, (n,), to labels; without labels nothing moves."""
    if not len(true):
        return Adjustment(1.0, 0.0, np.zeros(relations))
    kept = np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    squares = (logistic(kept) - true) ** 2
    center = float(np.average(kept, weights=squares + 1e-9))
    strength = PRIOR_LABELS * max(float(squares.mean()), MIN_ERROR)
    change, shift, shifts = _newton(kept, kept - center, relation, true, relations, strength)
    if 1 + change < MIN_SCALE:  # the loss is convex, so the best scale is at the bound
        change = MIN_SCALE - 1
        bounded = kept + change * (kept - center)
        _, shift, shifts = _newton(bounded, np.zeros(len(kept)), relation, true, relations, strength)
    return Adjustment(1 + change, shift - change * center, shifts)


def _newton(
    log_odds: Numbers, x: Numbers, relation: Ids, true: NDArray[np.bool_], relations: int, strength: float
) -> tuple[float, float, Numbers]:
    """scale − 1, δ and δ_r by Newton's method with step halving; `strength` is the precision of the prior of δ.

    The Hessian is diagonal in the relations, so they are eliminated and a system of two equations is left.
    """
    common_precision, relation_precision = strength * np.array([SPREAD**2, 1.0]), strength / RELATION
    sign, inputs = np.where(true, -1.0, 1.0), np.stack([x, np.ones(len(x))])
    common, shifts = np.zeros(2), np.zeros(relations)

    def total(values: Numbers) -> Numbers:
        return np.asarray(np.bincount(relation, values, minlength=relations), float)

    def logit(common: Numbers, shifts: Numbers) -> Numbers:
        return np.asarray(log_odds + common @ inputs + shifts[relation])

    def loss(common: Numbers, shifts: Numbers) -> float:
        prior = common_precision @ common**2 + relation_precision * shifts @ shifts
        return float(np.logaddexp(0, sign * logit(common, shifts)).sum() + prior / 2)

    for _ in range(ROUNDS):
        chance = logistic(logit(common, shifts))
        error, weight = chance - true, chance * (1 - chance)
        gradient = inputs @ error + common_precision * common
        relation_gradient = total(error) + relation_precision * shifts
        diagonal = total(weight) + relation_precision
        mixed = np.stack([total(weight * x), total(weight)])
        hessian = (inputs * weight) @ inputs.T + np.diag(common_precision) - mixed / diagonal @ mixed.T
        step = np.linalg.solve(hessian, gradient - mixed @ (relation_gradient / diagonal))
        relation_step = (relation_gradient - step @ mixed) / diagonal
        size, before = 1.0, loss(common, shifts)
        while size > TOLERANCE and loss(common - size * step, shifts - size * relation_step) > before:
            size /= 2
        common, shifts = common - size * step, shifts - size * relation_step
        if size * max(np.abs(step).max(), np.abs(relation_step).max()) < TOLERANCE:
            break
    return float(common[0]), float(common[1]), shifts


def logistic(log_odds: Numbers) -> Numbers:
    """The probability of log odds, σ(x) = 1 / (1 + exp(−x))."""
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -500, 500))))
