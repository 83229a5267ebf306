"""Calibration curves: from a number, such as log credence (Eq. 1), to the probability that a belief is true.

    Platt      probability = σ(slope · x + offset)
    isotonic   probability = the increasing step function that fits the labels best, of Platt's logit

each with one curve for all relations or one per relation. A relation's slope and offset have a normal prior around the
common ones, of deviation PRIOR, so that a relation with few labels stays near the common curve. Cross-validated log
loss decides which of the four kinds is used: the first whose loss is the lowest, or higher by less than its standard
error.

A probability holds for the mixture of true and false beliefs it was fitted to; negatives made in equal numbers do not
have the base rate of the world. A belief with odds o in a mixture with the share π of positives has the odds
o · (π′/(1−π′)) / (π/(1−π)) in a mixture with the share π′, the base rate.

Labels that come later adjust the log odds of a fitted curve (`doxa.calibration.labels`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.labels import Adjustment, fit_adjustment, logistic
from doxa.calibration.thresholds import Numbers
from doxa.data.vocabulary import Ids

log = logging.getLogger(__name__)

MIN_LABELS = 10
"""Positives and negatives, of each, that fitting a curve needs."""

MIN_RELIABLE = 200
"""Labeled beliefs below which calibration cannot be verified."""

FOLDS = 5

PRIOR = 0.5
"""Standard deviation of a relation's slope and offset around the common ones, when the input has deviation 1."""

FLAT_SLOPE = 0.01
"""Slope of the curve of a model that does not separate true from false, when the input has deviation 1."""

KINDS = ("platt", "platt by relation", "isotonic", "isotonic by relation")


@dataclass(frozen=True, eq=False)
class Curve:
    """From calibration input and relation to a probability.

    `slopes` and `offsets`, (R,), equal the common ones for a relation without labels. `steps` are logits and their
    probabilities, (n,) each; empty for Platt. `log_odds` is the shift of the log odds by the base rate. `losses` are
    the cross-validated log losses that decided the kind. `adjustment` is the change of the log odds by later labels.
    `base_rate` is the share of true beliefs in the mixture that the probabilities hold for.
    """

    kind: str
    slope: float
    offset: float
    slopes: Numbers
    offsets: Numbers
    steps: tuple[Numbers, Numbers] = (np.zeros(0), np.zeros(0))
    log_odds: float = 0.0
    losses: dict[str, float] = field(default_factory=dict)
    adjustment: Adjustment | None = None
    base_rate: float = 0.5

    @classmethod
    def unfitted(cls, relations: int) -> Curve:
        """σ(x): the order of its values has a meaning, their size has none."""
        return cls("none", 1.0, 0.0, np.ones(relations), np.zeros(relations))

    def probability(
        self, inputs: Numbers, relation: Ids, base_rate: float | None = None, against: Numbers | float = 0.0
    ) -> Numbers:
        """The probability of each belief, (n,), in a mixture with the share `base_rate` of true ones if that is set.

        `against` is what contradictions take from the log odds.
        """
        shift = 0.0 if base_rate is None else log_odds_of(base_rate) - log_odds_of(self.base_rate)
        return logistic(self.logit(inputs, relation) + shift - against)

    def logit(self, inputs: Numbers, relation: Ids) -> Numbers:
        """The log odds of each belief, (n,)."""
        by_relation = (relation >= 0) & ("by relation" in self.kind)
        slope = np.where(by_relation, self.slopes[relation], self.slope)
        offset = np.where(by_relation, self.offsets[relation], self.offset)
        logit = slope * inputs + offset
        if len(self.steps[0]):
            chance = np.interp(logit, *self.steps)
            logit = np.log(chance) - np.log1p(-chance)
        logit = logit + self.log_odds
        return logit if self.adjustment is None else self.adjustment.apply(logit, relation)

    def adjust(self, inputs: Numbers, relation: Ids, label: NDArray[np.int8], against: Numbers | float = 0.0) -> Curve:
        """The same, moved by labels as far as their number carries (`doxa.calibration.labels`).

        `against` is what contradictions take from the log odds of the labeled beliefs.
        """
        log_odds = self.logit(inputs, relation) - against
        change = fit_adjustment(log_odds, relation, label == 1, len(self.slopes))
        return replace(self, adjustment=change.after(self.adjustment))

    def grow(self, relations: int) -> Curve:
        """The same with `relations` more relations, which use the common curve."""
        if not relations:
            return self
        return replace(
            self,
            slopes=np.append(self.slopes, np.full(relations, self.slope)),
            offsets=np.append(self.offsets, np.full(relations, self.offset)),
            adjustment=self.adjustment and self.adjustment.grow(relations),
        )

    def as_dict(self, names: Callable[[int], str]) -> dict[str, Any]:
        """Plain data for the model folder; relations by name where they differ from the common curve."""
        differing = np.flatnonzero((self.slopes != self.slope) | (self.offsets != self.offset))
        return {
            "kind": self.kind,
            "slope": self.slope,
            "offset": self.offset,
            "by_relation": {names(r): [float(self.slopes[r]), float(self.offsets[r])] for r in differing.tolist()},
            "steps": [part.tolist() for part in self.steps],
            "log_odds": self.log_odds,
            "losses": self.losses,
            "adjustment": self.adjustment and self.adjustment.as_dict(names),
            "base_rate": self.base_rate,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], relations: int, ids: Callable[[list[str]], Ids]) -> Curve:
        """The inverse of `as_dict`."""
        slopes, offsets = np.full(relations, stored["slope"]), np.full(relations, stored["offset"])
        by_relation = stored["by_relation"]
        if by_relation:
            rows = ids(list(by_relation))
            slopes[rows], offsets[rows] = np.array(list(by_relation.values())).T
        steps = (np.array(stored["steps"][0], float), np.array(stored["steps"][1], float))
        adjustment = stored.get("adjustment")  # model folders of earlier versions have none
        base_rate = stored.get(
            "base_rate", float(logistic(np.array(stored["log_odds"])))
        )  # nor this: as many negatives
        return cls(stored["kind"], stored["slope"], stored["offset"], slopes, offsets, steps, stored["log_odds"],
                   stored["losses"], adjustment and Adjustment.from_dict(adjustment, relations, ids),
                   base_rate)  # fmt: skip


def fit_curve(
    inputs: Numbers,
    relation: Ids,
    label: NDArray[np.int8],
    relations: int,
    base_rate: float = 0.0,
    seed: int = 0,
    group: Ids | None = None,
) -> Curve:
    """The curve with the lowest cross-validated log loss, fitted to all labels.

    `base_rate` is the share of positives among the beliefs to be judged; 0 takes the share among the labels. Beliefs of
    the same `group`, such as one triple with several mentions, stay together in cross-validation.
    """
    true = label == 1
    if min(true.sum(), (~true).sum()) < MIN_LABELS:
        log.warning("too few validation beliefs to calibrate credence: take its order seriously, not its size")
        return Curve.unfitted(relations)
    if len(true) < MIN_RELIABLE:
        log.warning("only %d labeled validation beliefs: too few to tell how well credence is calibrated", len(true))
    best = fit_shares(inputs, relation, true.astype(float), relations, seed, group=group)
    share = float(true.mean())
    if best.slope <= 0:
        log.warning(
            "the model does not separate true from false validation beliefs: credence is nearly the same for all"
        )
        best = _nearly_flat(inputs, share, relations)
    shift = log_odds_of(base_rate) - log_odds_of(share) if base_rate else 0.0
    return replace(best, log_odds=float(shift), base_rate=float(base_rate or share))


def _nearly_flat(inputs: Numbers, share: float, relations: int) -> Curve:
    """The share of true beliefs for every belief, but for a slope that keeps the order of the inputs."""
    slope = FLAT_SLOPE / (float(inputs.std()) or 1.0)
    offset = log_odds_of(share) - slope * float(inputs.mean())
    return Curve("platt", slope, offset, np.full(relations, slope), np.full(relations, offset))


def log_odds_of(share: float) -> float:
    """log(share / (1 − share))."""
    return float(np.log(share) - np.log1p(-share))


def fit_shares(
    inputs: Numbers,
    relation: Ids,
    share: Numbers,
    relations: int,
    seed: int = 0,
    prior: float = PRIOR,
    group: Ids | None = None,
) -> Curve:
    """The same for targets between 0 and 1, such as confidences: their expected value given the input."""
    folds = list(_folds(share, seed, group))

    def losses_of(kind: str) -> Numbers:
        parts = []
        for fold, rest in folds:
            curve = _fit_kind(kind, inputs[rest], relation[rest], share[rest], relations, prior)
            parts.append(_log_loss(curve.probability(inputs[fold], relation[fold]), share[fold]))
        return np.concatenate(parts)

    each = {kind: losses_of(kind) for kind in KINDS}
    losses = {kind: round(float(values.mean()), 6) for kind, values in each.items()}
    lowest = min(KINDS, key=lambda kind: losses[kind])
    best = next(kind for kind in KINDS if _within_error(each[kind] - each[lowest]))
    return replace(_fit_kind(best, inputs, relation, share, relations, prior), losses=losses)


def _within_error(differences: Numbers) -> bool:
    """Whether the mean is at most its standard error."""
    return bool(differences.mean() <= differences.std() / np.sqrt(len(differences)))


def _fit_kind(kind: str, inputs: Numbers, relation: Ids, share: Numbers, relations: int, prior: float = PRIOR) -> Curve:
    """The curve of one kind, fitted to all targets."""
    center, spread = float(inputs.mean()), float(inputs.std()) or 1.0
    x = (inputs - center) / spread
    common = _newton(x, np.zeros(len(x), np.int64), share, 1, np.zeros((1, 2)), prior=100.0)[0]
    lines = np.tile(common, (relations, 1))
    if "by relation" in kind:
        lines = _newton(x, relation, share, relations, lines, prior=prior)
    slopes, offsets = lines[:, 0] / spread, lines[:, 1] - lines[:, 0] * center / spread
    curve = Curve(kind, common[0] / spread, common[1] - common[0] * center / spread, slopes, offsets)
    if kind.startswith("isotonic"):
        each = "by relation" in kind
        logit = (slopes[relation] if each else curve.slope) * inputs + (offsets[relation] if each else curve.offset)
        curve = replace(curve, steps=_isotonic(logit, share))
    return curve


def _newton(
    x: Numbers, group: Ids, share: Numbers, groups: int, start: Numbers, prior: float, rounds: int = 30
) -> Numbers:
    """Slope and offset of each group, (G, 2): logistic regression with a normal prior around `start`, by Newton's
    method for all groups at once."""
    lines = start.copy()
    precision = 1 / prior**2
    for _ in range(rounds):
        chance = logistic(lines[group, 0] * x + lines[group, 1])
        error, curve = chance - share, np.maximum(chance * (1 - chance), 1e-9)

        def total(values: Numbers) -> Numbers:
            return np.asarray(np.bincount(group, values, minlength=groups), float)

        gradient = np.stack([total(error * x), total(error)], axis=1) + precision * (lines - start)
        a, b, c = total(curve * x * x) + precision, total(curve * x), total(curve) + precision
        determinant = a * c - b * b
        step = np.stack([c * gradient[:, 0] - b * gradient[:, 1], a * gradient[:, 1] - b * gradient[:, 0]], axis=1)
        step /= determinant[:, None]
        lines -= np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-8:
            break
    return lines


def _isotonic(logit: Numbers, share: Numbers) -> tuple[Numbers, Numbers]:
    """Isotonic regression of the targets on the logit: positions and heights of the steps, never quite 0 or 1.

    A step of m targets that are all 1 has the height (m + 1)/(m + 2), or that of the step below if this is higher: few
    beliefs carry no certainty. A step of zeros has 1/(m + 2), or the height of the step above if this is lower.
    """
    from sklearn.isotonic import IsotonicRegression  # only fitting needs it, and answering should start quickly

    regression = IsotonicRegression(out_of_bounds="clip").fit(logit, share)
    heights, fitted = np.array(regression.y_thresholds_, float), regression.predict(logit)
    between = heights[(heights > 0) & (heights < 1)]
    zeros, ones = np.count_nonzero(fitted == 0), np.count_nonzero(fitted == 1)
    heights[heights == 0] = min([1 / (zeros + 2), *between[:1]])
    heights[heights == 1] = max([(ones + 1) / (ones + 2), *between[-1:]])
    return np.asarray(regression.X_thresholds_, float), heights


def _folds(share: Numbers, seed: int, group: Ids | None = None) -> Iterator[tuple[Ids, Ids]]:
    """(validation rows, other rows) of each fold, stratified by whether the target reaches ½; groups stay together."""
    random = np.random.default_rng([seed, 6])
    part: Ids = np.zeros(len(share), np.int64)
    for likely in (True, False):
        rows = random.permutation(np.flatnonzero((share >= 0.5) == likely))
        part[rows] = np.arange(len(rows)) % FOLDS
    if group is not None:
        first, place = np.unique(group, return_index=True, return_inverse=True)[1:]
        part = part[first][place.reshape(-1)]
    for number in range(FOLDS):
        yield np.flatnonzero(part == number), np.flatnonzero(part != number)


def _log_loss(probability: Numbers, share: Numbers) -> Numbers:
    """The log loss of each belief."""
    kept = np.clip(probability, 1e-12, 1 - 1e-12)
    return -(share * np.log(kept) + (1 - share) * np.log1p(-kept))
