"""From log probabilities to verdicts, by a threshold per relation, and to probabilities of answers, by temperatures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from doxa.data.vocabulary import Ids

Numbers = NDArray[np.float64]

BLUR = 0.5
"""Width of the bell that stands for a score when a threshold is chosen, see `best_threshold`."""

HELD = 0.3
"""How strongly a relation's weights are held near those of all, see `Weighing.fit`."""

NORMAL_MIDDLE = 1.349
"""Width of the middle half of a normal distribution, in deviations."""

CUTS = 512
"""Thresholds tried for a relation at most."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """σ_r: a belief is held true *at or above* its relation's threshold (Section 5.4).

    `by_relation` is NaN where validation said nothing about a relation; `overall` stands in there.
    """

    by_relation: Numbers
    overall: float

    @classmethod
    def fit(cls, scores: Numbers, relation: Ids, label: NDArray[np.int8], relations: int) -> Thresholds:
        """The thresholds that suit labeled beliefs best (`best_threshold`), per relation and over all."""
        by_relation = np.full(relations, np.nan)
        order = np.argsort(relation, kind="stable")
        starts = np.searchsorted(relation[order], np.arange(relations + 1))
        for number in np.unique(relation):
            rows = order[starts[number] : starts[number + 1]]
            by_relation[number] = best_threshold(scores[rows], label[rows])
        return cls(by_relation, best_threshold(scores, label))

    def of(self, relation: Ids) -> Numbers:
        """Each belief's threshold; the overall one also for a relation never seen, which is negative."""
        own = np.where(relation >= 0, self.by_relation[relation], np.nan)
        return np.where(np.isnan(own), self.overall, own)


def best_threshold(scores: Numbers, label: NDArray[np.int8]) -> float:
    """σ that makes "true at or above σ" right most often, halfway between two scores it parts (Section 5.4).

    Each score counts as a bell around itself, `BLUR` · deviation / n^(1/5) wide, lest σ hang on where a few beliefs
    happen to lie; the deviation is told from the middle half of them where it is less there, lest a few far ones blur
    all. Of several equally good ones the lowest; below (above) all scores when everything (nothing) is best held true.
    At most `CUTS` are tried, evenly spread among the scores.
    """
    from scipy.special import ndtr  # only fitting needs it, and answering should start quickly

    ordered = np.unique(scores)
    cuts = np.concatenate([[-np.inf], (ordered[1:] + ordered[:-1]) / 2, [np.inf]])
    if len(cuts) > CUTS:
        cuts = cuts[np.linspace(0, len(cuts) - 1, CUTS).round().astype(np.int64)]
    deviation, middle = float(np.std(scores)), float(np.subtract(*np.percentile(scores, [75, 25]))) / NORMAL_MIDDLE
    width = max(BLUR * (min(deviation, middle) or deviation) / len(scores) ** 0.2, 1e-9)
    right = np.zeros(len(cuts))
    for start in range(0, len(scores), CUTS):
        some = slice(start, start + CUTS)
        above = ndtr((scores[some, None] - cuts) / width)
        right += np.where(label[some, None] == 1, above, 1 - above).sum(0)
    best = cuts[np.argmax(right > right.max() - 1e-9)]
    return float(np.clip(best, ordered[0] - 1, ordered[-1] + 1))


@dataclass(frozen=True, eq=False)
class Weighing:
    """How much each sign of truth counts in a relation's verdicts: `by_relation` (R, k), those of all relations
    (`overall`, (k,)) where validation said nothing about it."""

    by_relation: Numbers
    overall: Numbers

    @classmethod
    def fit(cls, signs: Numbers, relation: Ids, label: NDArray[np.int8], relations: int) -> Weighing:
        """Logistic regression of labels on signs, (n, k), over all; and per relation, held near those of all.

        In units in which a sign has deviation 1, by `HELD` · (difference of weights)².
        """
        spread = signs.std(axis=0)
        spread = np.where(spread > 1e-6, spread, 1.0)  # a sign that is the same everywhere, but for rounding
        units = (signs - signs.mean(axis=0)) / spread
        start = np.zeros(signs.shape[1] + 1)
        overall = _regression(units, label, start)
        by_relation = np.tile(overall[:-1], (relations, 1))
        for number in np.unique(relation):
            rows = relation == number
            by_relation[number] = _regression(units[rows], label[rows], overall)[:-1]
        return cls(by_relation / spread, overall[:-1] / spread)

    def grown(self, relations: int) -> Weighing:
        """With so many relations more, of which nothing is known."""
        return Weighing(np.concatenate([self.by_relation, np.tile(self.overall, (relations, 1))]), self.overall)

    def evidence(self, signs: Numbers, relation: Ids) -> Numbers:
        """The weighted sum of each belief's signs."""
        return np.asarray((signs * self.by_relation[relation]).sum(axis=1))


def _regression(signs: Numbers, label: NDArray[np.int8], around: Numbers) -> Numbers:
    """Weights and offset, (k + 1,), of the logistic regression, held around some."""
    from scipy.optimize import minimize

    given, true = np.column_stack([signs, np.ones(len(signs))]), np.where(label == 1, 1.0, -1.0)
    held = np.append(np.full(signs.shape[1], HELD), HELD / 20)

    def surprise(weights: Numbers) -> tuple[float, Numbers]:
        margins, away = true * (given @ weights), weights - around
        slopes = -true / (1 + np.exp(np.minimum(margins, 500)))
        return float(np.logaddexp(0, -margins).sum() + held @ away**2), given.T @ slopes + 2 * held * away

    return np.asarray(minimize(surprise, around, jac=True).x)


@dataclass(frozen=True)
class Temperatures:
    """Probabilities of answers are softmaxes of logits / temperature, one temperature per kind of question.

    `relation_said` is for a relation asked for with a mention, `relation` without.
    """

    head: float = 1.0
    relation: float = 1.0
    relation_said: float = 1.0
    tail: float = 1.0


def best_temperature(logits: Tensor, truth: Tensor) -> float:
    """The T that makes the truth most likely under softmax(logits / T); (n, C), (n,) → T in [1/50, 50].

    T is held near 1 as if log T were normal with deviation ½ beforehand, so that a few beliefs cannot move it far.
    """
    from scipy.optimize import minimize_scalar  # only fitting needs it, and answering should start quickly

    def surprise(log_temperature: float) -> float:
        shares = (logits.double() / np.exp(log_temperature)).log_softmax(1)
        return -float(shares.gather(1, truth[:, None]).sum()) + 2 * log_temperature**2

    return float(np.exp(minimize_scalar(surprise, bounds=(-np.log(50), np.log(50)), method="bounded").x))


def best_mention_exponent(pair: Tensor, words: Tensor, truth: Tensor) -> float:
    """How much words should count beside the entities: share = β/α of the α, β that make the truth most likely under
    softmax(α · pair + β · words); (n, R), (n, R), (n,) → share in [1/50, 50].

    Both are held near 1 as a temperature is.
    """
    from scipy.optimize import minimize

    def surprise(logs: Numbers) -> float:
        alpha, beta = np.exp(np.clip(logs, -4, 4))
        shares = (alpha * pair.double() + beta * words.double()).log_softmax(1)
        return -float(shares.gather(1, truth[:, None]).sum()) + 2 * float(np.square(logs).sum())

    alpha, beta = np.exp(minimize(surprise, np.zeros(2), method="Nelder-Mead").x)
    return float(np.clip(beta / alpha, 1 / 50, 50))
