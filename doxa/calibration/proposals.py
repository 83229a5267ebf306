"""Credence of proposals: the share of proposals of such rank and probability that is right.

Training lacks the validation facts. They are hidden from the candidates of completion (`doxa.calibration.candidates`),
and the odds that a candidate is one of them are fitted:

    odds of a validation fact = g / (1 − g),    g = curve(weights · features)

Other missing facts are as likely to be ranked so as validation facts are. With M of them missing beside V validation
facts, the probability that a candidate is a missing fact is

    credence = min(1, M / V · g / (1 − g))

M cannot be learned from a knowledge base. It is stated as the base rate: the share of true facts that is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.candidates import CandidateTable, Pools, candidates
from doxa.calibration.curves import MIN_LABELS, Curve, fit_shares
from doxa.calibration.rules import RuleWeights
from doxa.calibration.thresholds import Numbers
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.pbe import PBE

log = logging.getLogger(__name__)

MISSING = 0.1
"""Share of true facts that is missing from the knowledge base, unless stated otherwise."""

MAX_SCORES = 1e9
"""Scores of queries against entities that the fit may need; beyond it, a sample of the relations is used."""

SAMPLE = 100_000
"""Candidates that are no validation facts, in the first, rough fit."""

LEAST = 0.003
"""Odds in the rough fit from which on a candidate is used in the second one."""

SHRINKAGE, FOLDS = 10.0, 3
"""Penalty on the weights of a relation, and parts of the cross-fit.

The curve is fitted to scores of weights that did not see the candidate: with its own scores it would be too steep at
the top. Chosen by log loss of held-out candidates on FB15k and the atlas; 3 and 30 are about as good, .3 is worse."""


@dataclass(frozen=True, eq=False)
class ProposalCurve:
    """From the features of a candidate to the odds that it is one of `count` validation facts.

    `rough` (9,) are weights and offset of the rough fit, by which hopeless candidates are dropped early.
    """

    rough: Numbers
    weights: RuleWeights
    curve: Curve
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
        """Fit to the candidates that are not in `facts`, those of training; None where too few are in `valid`."""
        hidden = TripleIndex(valid, facts.entities, facts.relations).without(facts.triples)
        if len(hidden) < MIN_LABELS:
            return None
        table = _sampled(pbe, facts, hidden, np.random.default_rng([seed, 16]), report)
        right = hidden.contains(*table.triples.T)
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
        return cls(rough, weights(np.ones(len(table), bool)), curve, len(hidden))

    def odds(self, table: CandidateTable) -> Numbers:
        """The odds that each candidate is one of the hidden validation facts, (n,); 0 for a hopeless one."""
        odds = np.zeros(len(table))
        rows = np.flatnonzero(_rough_odds(self.rough, table) >= LEAST)
        hopeful = table.take(rows)
        scores = self.weights.decision_score(hopeful.features, hopeful.relation)
        share = np.clip(self.curve.probability(scores, hopeful.relation), 0.0, 1 - 1e-9)
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
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], relations: int, ids: Callable[[list[str]], Ids]) -> ProposalCurve:
        """The inverse of `as_dict`."""
        return cls(
            rough=np.array(stored["rough"], float),
            weights=RuleWeights.from_dict(stored["weights"], relations, ids),
            curve=Curve.from_dict(stored["curve"], relations, ids),
            count=int(stored["count"]),
        )


def missing_facts(known: int, base_rate: float = 0.0) -> float:
    """How many facts are missing beside `known` facts if the share `base_rate` of all is; 0 stands for MISSING."""
    share = base_rate or MISSING
    return known * share / (1 - share)


def _sampled(
    pbe: PBE,
    facts: TripleIndex,
    hidden: TripleIndex,
    random: np.random.Generator,
    report: Callable[[float], None] | None,
) -> CandidateTable:
    """The candidates of relations with hidden facts: of all of them, or of a sample within MAX_SCORES."""
    pools = Pools(facts)
    relations = random.permutation(np.flatnonzero(hidden.counts))
    cost = np.cumsum([pools.cost(relation) for relation in relations]) * float(facts.entities)
    used = relations[: max(1, int(np.searchsorted(cost, MAX_SCORES, side="right")))]
    tables = []
    for place, relation in enumerate(used.tolist()):
        tables.append(candidates(pbe, facts, pools, relation))
        if report:
            report((place + 1) / len(used))
    return CandidateTable.concat(tables)


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


def _rough_odds(rough: Numbers, table: CandidateTable) -> Numbers:
    return np.asarray(np.exp(np.minimum(table.features @ rough[:-1] + rough[-1], 30.0)))
