"""Credence of proposals: the share of proposals of such rank and probability that is right.

Training lacks the V validation facts. Each of them is hidden in turn and joins the candidates of completion
(`doxa.calibration.candidates`); the share g of hidden facts among candidates with such features is fitted:

    g = curve(weights · features),    g / (1 − g) = hidden facts per candidate

A missing fact is a candidate with features like those of a hidden fact. If M facts are missing, the share of missing
facts among the candidates is

    credence = min(MOST, M / V · g / (1 − g))

M cannot be learned from a knowledge base. It is stated as the base rate, M / (M + facts of training). Decisions about
proposals move the log odds of credence (`doxa.calibration.labels`), but only those of about the credence that was
decided on: the best proposals say little of the next ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.candidates import CandidateTable, Pools, candidates, hidden_candidates
from doxa.calibration.curves import MIN_LABELS, Curve, fit_shares
from doxa.calibration.labels import Adjustment, fit_adjustment, logistic
from doxa.calibration.rules import RuleWeights
from doxa.calibration.thresholds import Numbers
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS, Slot

log = logging.getLogger(__name__)

MISSING = 0.1
"""Share of facts that the training facts lack, unless stated otherwise."""

MAX_SCORES = 3e10
"""Scores of queries against entities that the fit may need; beyond it, a sample is used, and credence is less exact."""

CHEAP_SCORES = 1e9
"""Scores up to which the fit is part of training; beyond it, `complete` fits when it is first needed."""

OTHER_SIDE = 4.0
"""Queries per query of a sampled entity: those of the answers, whose own ranks are needed too."""

SAMPLE = 100_000
"""Candidates that are no validation facts, in the first, rough fit."""

LEAST = 0.003
"""Odds in the rough fit from which on a candidate is used in the second one."""

SUPPORT, LEAST_SUPPORT = 200, 20
"""Candidates that must show a share of validation facts for it to be believed: as many as there are such facts, between
these bounds. With fewer facts than candidates no share could come near 1, however good the model is."""

STRENGTHS = ((10.0, 0.5), (30.0, 0.2), (100.0, 0.1))
"""Penalties on the weights of a relation, each with the deviation of its curve from the common one, that are tried.

The log loss of held-out candidates decides: the few relations of the atlas differ, and of those of FB15k a sample has
too few candidates to tell."""

FOLDS = 3
"""Parts of the cross-fit."""

MOST = 0.99
"""The highest credence of a proposal: the number of missing facts is an assumption, so nothing is certain."""


@dataclass(frozen=True, eq=False)
class LocalAdjustment:
    """A change of log odds by labels whose log odds were from `low` to `high`.

    Beyond them it fades within 1 + |change| of log odds, so that credence stays an increasing function of the score.
    """

    change: Adjustment
    low: float
    high: float

    def apply(self, log_odds: Numbers, relation: Ids) -> Numbers:
        """The new log odds, (n,)."""
        near = np.clip(log_odds, self.low, self.high)
        change = self.change.apply(near, relation) - near
        fading = 1 - np.abs(log_odds - near) / (1 + np.abs(change))
        return np.asarray(log_odds + np.maximum(fading, 0.0) * change)


@dataclass(frozen=True, eq=False)
class ProposalCurve:
    """From the features of a candidate to the number of hidden facts per candidate, of `count` validation facts.

    `rough` (9,) are weights and offset of the rough fit, by which hopeless candidates are dropped early. `ceiling` is
    the highest share of hidden facts among enough candidates (`SUPPORT`): no curve is trusted beyond it. `scale` is the
    share of the candidates that the curve was fitted to over that of the hidden facts. `decided` is what decided
    proposals changed, in order.
    """

    rough: Numbers
    weights: RuleWeights
    curve: Curve
    ceiling: float
    scale: float
    count: int
    decided: tuple[LocalAdjustment, ...] = ()

    @classmethod
    def fit(
        cls,
        pbe: PBE,
        facts: TripleIndex,
        valid: NDArray[np.int64],
        seed: int = 0,
        report: Callable[[float], None] | None = None,
    ) -> tuple[ProposalCurve | None, CandidateTable | None]:
        """The curve of a model that was trained on `facts`, and the candidates it was fitted to.

        None instead of the curve where too few facts of `valid` are candidates; None instead of the candidates where
        these are a sample.
        """
        hidden = TripleIndex(valid, facts.entities, facts.relations).without(facts.triples)
        if len(hidden) < MIN_LABELS:
            return None, None
        table, right, scale = _sampled(pbe, facts, hidden, np.random.default_rng([seed, 16]), report)
        every = table.take(~right) if scale == 1 else None
        if min(right.sum(), (~right).sum()) < MIN_LABELS:
            return None, every
        rough = _rough_fit(table.features, right, np.random.default_rng([seed, 17]))
        kept = _rough_odds(rough, table) >= LEAST
        table, right = table.take(kept), right[kept]
        if min(right.sum(), (~right).sum()) < MIN_LABELS:
            return None, every
        part = np.random.default_rng([seed, 18]).permutation(len(table)) % FOLDS
        fits = (_cross_fit(table, right, part, facts.relations, *strength, seed) for strength in STRENGTHS)
        best = min(fits, key=lambda fit: min(fit.curve.losses.values()))
        return cls(rough, best.weights, best.curve, best.ceiling, scale, len(hidden)), every

    def odds(self, table: CandidateTable) -> Numbers:
        """Hidden facts per candidate with such features, (n,); 0 for a hopeless candidate."""
        odds = np.zeros(len(table))
        rows = np.flatnonzero(_rough_odds(self.rough, table) >= LEAST)
        hopeful = table.take(rows)
        scores = self.weights.decision_score(hopeful.features, hopeful.relation)
        share = np.minimum(self.curve.probability(scores, hopeful.relation), self.ceiling)
        odds[rows] = self.scale * share / (1 - share)
        return odds

    def credence(self, table: CandidateTable, missing: float) -> Numbers:
        """The probability that each candidate is one of `missing` missing facts, (n,)."""
        credence = np.minimum(missing / self.count * self.odds(table), MOST)
        for change in self.decided:
            credence = np.minimum(logistic(change.apply(_logit(credence), table.relation)), MOST)
        return credence

    def adjust(self, credence: Numbers, relation: Ids, true: NDArray[np.bool_]) -> ProposalCurve:
        """The same, moved by decided proposals, (n,) each, with the credence that they had."""
        if not len(true):
            return self
        log_odds = _logit(credence)
        change = fit_adjustment(log_odds, relation, true, len(self.curve.slopes))
        return replace(self, decided=(*self.decided, LocalAdjustment(change, log_odds.min(), log_odds.max())))

    def grow(self, relations: int) -> ProposalCurve:
        """The same with `relations` more relations, which use what was fitted over all relations."""
        decided = tuple(replace(one, change=one.change.grow(relations)) for one in self.decided)
        return replace(self, weights=self.weights.grow(relations), curve=self.curve.grow(relations), decided=decided)

    def as_dict(self, names: Callable[[int], str]) -> dict[str, Any]:
        """Plain data for the model folder; relations by name."""
        return {
            "rough": self.rough.tolist(),
            "weights": self.weights.as_dict(names),
            "curve": self.curve.as_dict(names),
            "ceiling": self.ceiling,
            "scale": self.scale,
            "count": self.count,
            "decided": [one.change.as_dict(names) | {"low": one.low, "high": one.high} for one in self.decided],
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], relations: int, ids: Callable[[list[str]], Ids]) -> ProposalCurve:
        """The inverse of `as_dict`."""
        decided = stored.get("decided", [])  # model folders of earlier versions have none
        return cls(
            rough=np.array(stored["rough"], float),
            weights=RuleWeights.from_dict(stored["weights"], relations, ids),
            curve=Curve.from_dict(stored["curve"], relations, ids),
            ceiling=float(stored["ceiling"]),
            scale=float(stored["scale"]),
            count=int(stored["count"]),
            decided=tuple(
                LocalAdjustment(Adjustment.from_dict(one, relations, ids), float(one["low"]), float(one["high"]))
                for one in decided
            ),
        )


def is_cheap(facts: TripleIndex, valid: NDArray[np.int64]) -> bool:
    """Whether the fit is short beside training."""
    return proposal_queries(facts, valid) * float(facts.entities) <= CHEAP_SCORES


def proposal_queries(facts: TripleIndex, valid: NDArray[np.int64]) -> int:
    """Queries that the fit asks unless it samples."""
    pools = Pools(facts)
    return sum(map(pools.cost, range(facts.relations))) + 2 * len(valid)


def missing_facts(trained: int, base_rate: float) -> float:
    """How many facts are missing beside those of training, if that is the share `base_rate` of both."""
    return trained * base_rate / (1 - base_rate)


class _Fit(NamedTuple):
    """Weights, curve and ceiling for one strength of the priors."""

    weights: RuleWeights
    curve: Curve
    ceiling: float


def _cross_fit(
    table: CandidateTable,
    right: NDArray[np.bool_],
    part: Ids,
    relations: int,
    shrinkage: float,
    prior: float,
    seed: int,
) -> _Fit:
    """Fit the weights, and the curve to scores by weights that did not see the candidate.

    To the scores that a candidate was fitted with, the curve would be too steep at the top.
    """
    features, relation, label = table.features, table.relation, np.where(right, 1, -1).astype(np.int8)

    def weights(rows: NDArray[np.bool_]) -> RuleWeights:
        return RuleWeights.fit(features[rows], relation[rows], label[rows], relations, shrinkage)

    whole = weights(part >= 0)
    scores, level = np.zeros(len(table)), _means(whole.decision_score(features, relation), relation)
    for number in range(FOLDS):
        rows = part == number
        by_others = weights(~rows).decision_score(features, relation)  # whose level differs: scores have no offset
        scores[rows] = (by_others - _means(by_others, relation) + level)[rows]
    curve = fit_shares(scores, relation, right.astype(float), relations, seed, prior)
    support = int(np.clip(right.sum(), LEAST_SUPPORT, SUPPORT))
    return _Fit(whole, curve, _ceiling(curve.probability(scores, relation), right, support))


def _means(scores: Numbers, relation: Ids) -> Numbers:
    """The mean score of the relation of each candidate, (n,)."""
    counts, sums = np.bincount(relation), np.bincount(relation, scores)
    return np.asarray((sums / np.maximum(counts, 1))[relation])


class _Sample(NamedTuple):
    """Candidates, which of them are hidden facts, and the share of all candidates over that of all hidden facts."""

    table: CandidateTable
    right: NDArray[np.bool_]
    scale: float


def _sampled(
    pbe: PBE,
    facts: TripleIndex,
    hidden: TripleIndex,
    random: np.random.Generator,
    report: Callable[[float], None] | None,
) -> _Sample:
    """The candidates and hidden facts of all relations, or a sample of both within MAX_SCORES.

    A sample has the candidates of some entities: a candidate belongs to its head if its tail is among the best answers,
    otherwise to its tail.
    """
    pools, known = Pools(facts), facts.union(hidden.triples)
    relations = [relation for relation in range(facts.relations) if pools.cost(relation)]
    queries, cost = MAX_SCORES / facts.entities, sum(map(pools.cost, relations))
    about, rows = None, np.arange(len(hidden))
    if cost + 2 * len(hidden) > queries:
        count = max(1, int(facts.entities * min(1.0, 0.7 * queries / (cost * OTHER_SIDE))))
        about = np.sort(random.permutation(facts.entities)[:count])
        rows = np.sort(random.permutation(len(hidden))[: max(MIN_LABELS, int(0.3 * queries / 2))])
    sample = hidden.triples[rows]
    others, facts_hidden = [CandidateTable.empty()], [CandidateTable.empty()]
    for place, relation in enumerate(relations):
        table = candidates(pbe, known, pools, relation, about)
        if about is not None:
            by_head = table.answers(pbe)[:, 1]
            table = table.take(np.isin(np.where(by_head, *table.triples[:, ENTITY_SLOTS].T), about))
        others.append(table)
        of_relation = sample[sample[:, Slot.RELATION] == relation]
        if len(of_relation):
            facts_hidden.append(hidden_candidates(pbe, known, pools, of_relation))
        if report:
            report((place + 1) / len(relations))
    table = CandidateTable.concat(others + facts_hidden)
    scale = (1.0 if about is None else len(about) / facts.entities) / (len(sample) / len(hidden))
    return _Sample(table, np.arange(len(table)) >= sum(map(len, others)), scale)


def _rough_fit(features: Numbers, right: NDArray[np.bool_], random: np.random.Generator) -> Numbers:
    """Weights and offset of a logistic regression on the hidden facts and a sample of the others."""
    from sklearn.linear_model import LogisticRegression  # only fitting needs it, and answering should start quickly

    others = np.flatnonzero(~right)
    sample = others if len(others) <= SAMPLE else random.permutation(others)[:SAMPLE]
    rows = np.sort(np.concatenate([np.flatnonzero(right), sample]))
    spread = features[rows].std(axis=0)
    spread = np.where(spread > 1e-6, spread, 1.0)
    regression = LogisticRegression(max_iter=300).fit(features[rows] / spread, right[rows])
    offset = regression.intercept_[0] + np.log(len(sample) / len(others))
    return np.append(regression.coef_[0] / spread, offset)


def _ceiling(share: Numbers, right: NDArray[np.bool_], support: int) -> float:
    """The highest share of validation facts among the `support` or more best candidates; half a candidate is wrong."""
    order = np.argsort(-share, kind="stable")
    count = np.arange(1, len(order) + 1)
    shares = np.cumsum(right[order]) / (count + 0.5)
    return float(shares[min(support, len(order)) - 1 :].max())


def _logit(credence: Numbers) -> Numbers:
    bounded = np.clip(credence, 1e-9, MOST)
    return np.asarray(np.log(bounded / (1 - bounded)))


def _rough_odds(rough: Numbers, table: CandidateTable) -> Numbers:
    return np.asarray(np.exp(np.minimum(table.features @ rough[:-1] + rough[-1], 30.0)))
