"""Credence of proposals: the share of proposals of such rank and probability that is right.

Training lacks the V validation facts. Each of them is hidden in turn and joins the candidates of completion
(`doxa.calibration.candidates`); the share g of hidden facts among candidates with such features is fitted:

    g = curve(weights · features),    g / (1 − g) = hidden facts per candidate

A missing fact is a candidate with features like those of a hidden fact. If M facts are missing, the share of missing
facts among the candidates is

    credence = min(1, M / V · g / (1 − g))

M cannot be learned from a knowledge base. It is stated as the base rate, M / (M + facts of training).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.candidates import CandidateTable, Pools, candidates, hidden_candidates
from doxa.calibration.curves import MIN_LABELS, Curve, fit_shares
from doxa.calibration.rules import RuleWeights
from doxa.calibration.thresholds import Numbers
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.pbe import PBE
from doxa.slots import Slot

log = logging.getLogger(__name__)

MISSING = 0.1
"""Share of facts that the training facts lack, unless stated otherwise."""

MAX_SCORES = 1e9
"""Scores of queries against entities that the fit may need; beyond it, a sample of the relations is used."""

SAMPLE = 100_000
"""Candidates that are no validation facts, in the first, rough fit."""

LEAST = 0.003
"""Odds in the rough fit from which on a candidate is used in the second one."""

SUPPORT = 200
"""Candidates that must show a share of validation facts for it to be believed."""

SHRINKAGE, FOLDS = 10.0, 3
"""Penalty on the weights of a relation, and parts of the cross-fit.

The curve is fitted to scores of weights that did not see the candidate: with its own scores it would be too steep at
the top. Chosen by log loss of held-out candidates on FB15k and the atlas; 3 and 30 are about as good, .3 is worse."""


@dataclass(frozen=True, eq=False)
class ProposalCurve:
    """From the features of a candidate to the number of hidden facts per candidate, of `count` validation facts.

    `rough` (9,) are weights and offset of the rough fit, by which hopeless candidates are dropped early. `ceiling` is
    the highest share of validation facts among at least SUPPORT candidates: no curve is trusted beyond it.
    """

    rough: Numbers
    weights: RuleWeights
    curve: Curve
    ceiling: float
    count: int

    @classmethod
    def fit(
        cls,
        pbe: PBE,
        facts: TripleIndex,
        valid: NDArray[np.int64],
        seed: int = 0,
        report: Callable[[float], None] | None = None,
    ) -> ProposalCurve | None:
        """Fit to the candidates of a model that was trained on `facts`; None where too few facts of `valid` are."""
        hidden = TripleIndex(valid, facts.entities, facts.relations).without(facts.triples)
        if len(hidden) < MIN_LABELS:
            return None
        table, right = _sampled(pbe, facts, hidden, np.random.default_rng([seed, 16]), report)
        if min(right.sum(), (~right).sum()) < MIN_LABELS:
            return None
        rough = _rough_fit(table.features, right, np.random.default_rng([seed, 17]))
        kept = _rough_odds(rough, table) >= LEAST
        table, right = table.take(kept), right[kept]
        if min(right.sum(), (~right).sum()) < MIN_LABELS:
            return None
        features, relation, label = table.features, table.relation, np.where(right, 1, -1).astype(np.int8)

        def weights(rows: NDArray[np.bool_]) -> RuleWeights:
            return RuleWeights.fit(features[rows], relation[rows], label[rows], facts.relations, SHRINKAGE)

        part = np.random.default_rng([seed, 18]).permutation(len(table)) % FOLDS
        scores = np.zeros(len(table))
        for number in range(FOLDS):
            rows = part == number
            scores[rows] = weights(~rows).decision_score(features[rows], relation[rows])
        curve = fit_shares(scores, relation, right.astype(float), facts.relations, seed)
        ceiling = _ceiling(curve.probability(scores, relation), right)
        return cls(rough, weights(np.ones(len(table), bool)), curve, ceiling, len(hidden))

    def odds(self, table: CandidateTable) -> Numbers:
        """Hidden facts per candidate with such features, (n,); 0 for a hopeless candidate."""
        odds = np.zeros(len(table))
        rows = np.flatnonzero(_rough_odds(self.rough, table) >= LEAST)
        hopeful = table.take(rows)
        scores = self.weights.decision_score(hopeful.features, hopeful.relation)
        share = np.minimum(self.curve.probability(scores, hopeful.relation), self.ceiling)
        odds[rows] = share / (1 - share)
        return odds

    def credence(self, table: CandidateTable, missing: float) -> Numbers:
        """The probability that each candidate is one of `missing` missing facts, (n,)."""
        return np.minimum(missing / self.count * self.odds(table), 1.0)

    def grow(self, relations: int) -> ProposalCurve:
        """The same with `relations` more relations, which use what was fitted over all relations."""
        return replace(self, weights=self.weights.grow(relations), curve=self.curve.grow(relations))

    def as_dict(self, names: Callable[[int], str]) -> dict[str, Any]:
        """Plain data for the model folder; relations by name."""
        return {
            "rough": self.rough.tolist(),
            "weights": self.weights.as_dict(names),
            "curve": self.curve.as_dict(names),
            "ceiling": self.ceiling,
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], relations: int, ids: Callable[[list[str]], Ids]) -> ProposalCurve:
        """The inverse of `as_dict`."""
        return cls(
            rough=np.array(stored["rough"], float),
            weights=RuleWeights.from_dict(stored["weights"], relations, ids),
            curve=Curve.from_dict(stored["curve"], relations, ids),
            ceiling=float(stored["ceiling"]),
            count=int(stored["count"]),
        )


def missing_facts(trained: int, base_rate: float) -> float:
    """How many facts are missing beside those of training, if that is the share `base_rate` of both."""
    return trained * base_rate / (1 - base_rate)


def _sampled(
    pbe: PBE,
    facts: TripleIndex,
    hidden: TripleIndex,
    random: np.random.Generator,
    report: Callable[[float], None] | None,
) -> tuple[CandidateTable, NDArray[np.bool_]]:
    """The candidates and hidden facts of all relations that have some, or of a sample within MAX_SCORES.

    Also which of them are hidden facts.
    """
    pools, known = Pools(facts), facts.union(hidden.triples)
    relations = random.permutation(np.flatnonzero(hidden.counts))
    cost = np.cumsum([pools.cost(r) + 2 * hidden.counts[r] for r in relations]) * float(facts.entities)
    used = relations[: max(1, int(np.searchsorted(cost, MAX_SCORES, side="right")))]
    others, facts_hidden = [], []
    for place, relation in enumerate(used.tolist()):
        of_relation = hidden.triples[hidden.triples[:, Slot.RELATION] == relation]
        others.append(candidates(pbe, known, pools, relation))
        facts_hidden.append(hidden_candidates(pbe, known, pools, of_relation))
        if report:
            report((place + 1) / len(used))
    table = CandidateTable.concat(others + facts_hidden)
    return table, np.arange(len(table)) >= sum(map(len, others))


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


def _ceiling(share: Numbers, right: NDArray[np.bool_]) -> float:
    """The highest share of validation facts among the SUPPORT or more best candidates; half a candidate is wrong."""
    order = np.argsort(-share, kind="stable")
    count = np.arange(1, len(order) + 1)
    shares = np.cumsum(right[order]) / (count + 0.5)
    return float(shares[min(SUPPORT, len(order)) - 1 :].max())


def _rough_odds(rough: Numbers, table: CandidateTable) -> Numbers:
    return np.asarray(np.exp(np.minimum(table.features @ rough[:-1] + rough[-1], 30.0)))
