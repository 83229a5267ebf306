"""Calibration: from evidence, the log probabilities of Eq. 1, to the chance that a belief is true.

    Platt      credence = σ(slope · x + offset)
    isotonic   credence = the rising steps that fit the labels best, of Platt's logit

each for all beliefs alike or per relation. A relation's slope and offset are drawn to those of all: as if PRIOR were
normal around them, so that a relation with few labeled beliefs hardly leaves the common curve. Which of the four is
used is decided by log loss on labeled beliefs it was not fitted on.

Labels made up in equal numbers do not have the world's share of truths. A belief of odds o in a mixture with the share
π of truths has the odds o · (π′/(1−π′)) / (π/(1−π)) in one with the share π′, the base rate.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.thresholds import Numbers
from doxa.data.vocabulary import Ids

log = logging.getLogger(__name__)

FEWEST = 10
"""True and false beliefs needed, of each, to fit a calibrator."""

ENOUGH = 200
"""Labeled beliefs below which it cannot be told whether credence is calibrated."""

FOLDS = 5

PRIOR = 0.5
"""Standard deviation of a relation's slope and offset around those of all, in units in which the evidence has 1."""

KINDS = ("platt", "platt by relation", "isotonic", "isotonic by relation")


@dataclass(frozen=True, eq=False)
class Calibrator:
    """Evidence and relation to credence. `slopes` and `offsets`, (R,), are those of all where labels said nothing.

    `steps` are logits and the probabilities they stand for, (n,) each; none for Platt. `log_odds` is what the base rate
    adds to the log odds. `losses` are the cross-validated log losses by which the kind was chosen.
    """

    kind: str
    slope: float
    offset: float
    slopes: Numbers
    offsets: Numbers
    steps: tuple[Numbers, Numbers] = (np.zeros(0), np.zeros(0))
    log_odds: float = 0.0
    losses: dict[str, float] = field(default_factory=dict)

    @classmethod
    def unfitted(cls, relations: int) -> Calibrator:
        """σ(x): the order means something, the size nothing."""
        return cls("none", 1.0, 0.0, np.ones(relations), np.zeros(relations))

    def credence(self, evidence: Numbers, relation: Ids) -> Numbers:
        """The chance that each belief is true, (n,)."""
        own = (relation >= 0) & ("by relation" in self.kind)
        slope = np.where(own, self.slopes[relation], self.slope)
        offset = np.where(own, self.offsets[relation], self.offset)
        logit = slope * evidence + offset
        if len(self.steps[0]):
            chance = np.interp(logit, *self.steps)
            logit = np.log(chance) - np.log1p(-chance)
        return _logistic(logit + self.log_odds)

    def as_dict(self, names: Callable[[int], str]) -> dict[str, Any]:
        """For the model's manifest; relations by name where they differ from all."""
        differing = np.flatnonzero((self.slopes != self.slope) | (self.offsets != self.offset))
        return {
            "kind": self.kind,
            "slope": self.slope,
            "offset": self.offset,
            "by_relation": {names(r): [float(self.slopes[r]), float(self.offsets[r])] for r in differing.tolist()},
            "steps": [part.tolist() for part in self.steps],
            "log_odds": self.log_odds,
            "losses": self.losses,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], relations: int, ids: Callable[[list[str]], Ids]) -> Calibrator:
        """Read back what `as_dict` wrote."""
        slopes, offsets = np.full(relations, stored["slope"]), np.full(relations, stored["offset"])
        by_relation = stored["by_relation"]
        if by_relation:
            rows = ids(list(by_relation))
            slopes[rows], offsets[rows] = np.array(list(by_relation.values())).T
        steps = (np.array(stored["steps"][0], float), np.array(stored["steps"][1], float))
        return cls(stored["kind"], stored["slope"], stored["offset"], slopes, offsets, steps, stored["log_odds"],
                   stored["losses"])  # fmt: skip


def fit(
    evidence: Numbers, relation: Ids, label: NDArray[np.int8], relations: int, base_rate: float = 0.0, seed: int = 0
) -> Calibrator:
    """The kind that foretells best the labels it has not seen, fitted to all of them.

    `base_rate` is the share of truths among the beliefs that will be judged; 0 takes that of the labels.
    """
    true = label == 1
    if min(true.sum(), (~true).sum()) < FEWEST:
        log.warning("too few validation beliefs to calibrate credence: take its order seriously, not its size")
        return Calibrator.unfitted(relations)
    if len(true) < ENOUGH:
        log.warning("only %d labeled validation beliefs: too few to tell how well credence is calibrated", len(true))
    best = fit_shares(evidence, relation, true.astype(float), relations, seed)
    if best.slope <= 0:
        log.warning("the model does not tell true from false validation beliefs: credence means little")
        return Calibrator.unfitted(relations)
    share = true.mean()
    moved = np.log(base_rate / (1 - base_rate)) - np.log(share / (1 - share)) if base_rate else 0.0
    return replace(best, log_odds=float(moved))


def fit_shares(evidence: Numbers, relation: Ids, share: Numbers, relations: int, seed: int = 0) -> Calibrator:
    """The same for shares of truth between 0 and 1, such as confidences: their expected value given the evidence."""
    folds = list(_folds(share, seed))

    def loss(kind: str) -> float:
        parts = []
        for fold, rest in folds:
            found = _fitted(kind, evidence[rest], relation[rest], share[rest], relations)
            parts.append(_surprise(found.credence(evidence[fold], relation[fold]), share[fold]))
        return round(float(np.concatenate(parts).mean()), 6)

    losses = {kind: loss(kind) for kind in KINDS}
    best = min(KINDS, key=lambda kind: losses[kind])
    return replace(_fitted(best, evidence, relation, share, relations), losses=losses)


def _fitted(kind: str, evidence: Numbers, relation: Ids, share: Numbers, relations: int) -> Calibrator:
    """One kind, fitted to labeled beliefs."""
    center, spread = float(evidence.mean()), float(evidence.std()) or 1.0
    x = (evidence - center) / spread
    common = _newton(x, np.zeros(len(x), np.int64), share, 1, np.zeros((1, 2)), prior=100.0)[0]
    lines = np.tile(common, (relations, 1))
    if "by relation" in kind:
        lines = _newton(x, relation, share, relations, lines, prior=PRIOR)
    slopes, offsets = lines[:, 0] / spread, lines[:, 1] - lines[:, 0] * center / spread
    found = Calibrator(
        kind, common[0] / spread, common[1] - common[0] * center / spread, slopes, offsets
    )  # fmt: skip
    if kind.startswith("isotonic"):
        own = "by relation" in kind
        logit = (slopes[relation] if own else found.slope) * evidence + (offsets[relation] if own else found.offset)
        found = replace(found, steps=_rising(logit, share))
    return found


def _newton(
    x: Numbers, group: Ids, share: Numbers, groups: int, start: Numbers, prior: float, rounds: int = 30
) -> Numbers:
    """Slope and offset of each group, (G, 2): logistic regression drawn to `start`, all groups at once by Newton."""
    lines = start.copy()
    firmness = 1 / prior**2
    for _ in range(rounds):
        chance = _logistic(lines[group, 0] * x + lines[group, 1])
        error, curve = chance - share, np.maximum(chance * (1 - chance), 1e-9)

        def total(values: Numbers) -> Numbers:
            return np.asarray(np.bincount(group, values, minlength=groups), float)

        pull = np.stack([total(error * x), total(error)], axis=1) + firmness * (lines - start)
        a, b, c = total(curve * x * x) + firmness, total(curve * x), total(curve) + firmness
        determinant = a * c - b * b
        step = np.stack([c * pull[:, 0] - b * pull[:, 1], a * pull[:, 1] - b * pull[:, 0]], axis=1)
        step /= determinant[:, None]
        lines -= np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-8:
            break
    return lines


def _rising(logit: Numbers, share: Numbers) -> tuple[Numbers, Numbers]:
    """Isotonic regression of truth on the logit: where it steps, and to what; never quite 0 or 1."""
    from sklearn.isotonic import IsotonicRegression  # only fitting needs it, and answering should start quickly

    edge = 1 / (len(share) + 2)
    found = IsotonicRegression(y_min=edge, y_max=1 - edge, out_of_bounds="clip").fit(logit, share)
    return np.asarray(found.X_thresholds_, float), np.asarray(found.y_thresholds_, float)


def _folds(share: Numbers, seed: int) -> Iterator[tuple[Ids, Ids]]:
    """(held out, the rest), with as many likely ones in each."""
    random = np.random.default_rng([seed, 6])
    part: Ids = np.zeros(len(share), np.int64)
    for likely in (True, False):
        rows = random.permutation(np.flatnonzero((share >= 0.5) == likely))
        part[rows] = np.arange(len(rows)) % FOLDS
    for number in range(FOLDS):
        yield np.flatnonzero(part == number), np.flatnonzero(part != number)


def _surprise(credence: Numbers, share: Numbers) -> Numbers:
    """Log loss of each."""
    kept = np.clip(credence, 1e-12, 1 - 1e-12)
    return -(share * np.log(kept) + (1 - share) * np.log1p(-kept))


def _logistic(logit: Numbers) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-np.clip(logit, -500, 500))))
