"""Decision rules: the number that is compared with a threshold, and the number that credence is calibrated from.

    rule      decision score                                               calibration input
    product   log Pr(h|r,t) + log Pr(r|h,t) + log Pr(t|h,r), Section 5.4   log credence (Eq. 1)
    entities  log Pr(h|r,t) + log Pr(t|h,r)                                the decision score
    tail      log Pr(t|h,r)                                                the decision score
    score     the scaled D′(h, r, t)                                       the decision score
    learned   weighted sum of features (`RuleWeights`)                     as for `entities`

Only log credence reads the mention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.calibration.labels import logistic
from doxa.calibration.thresholds import Numbers
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.index.entity_index import EntityIndex
from doxa.pbe import PBE, log_credence
from doxa.slots import ENTITY_SLOTS, Slot

SHRINKAGE = 0.3
"""Penalty that keeps the weights of a relation near those of all relations, see `RuleWeights.fit`."""


ROUNDS, TOLERANCE = 100, 1e-8
"""Newton steps at most, and the step at which they end."""


Report = Callable[[float], None]
"""Receives how much of a task is done, from 0 to 1."""


@torch.no_grad()
def log_terms(
    pbe: PBE,
    beliefs: Beliefs,
    mention_exponent: float = 1.0,
    memory: int = 0,
    report: Report | None = None,
    index: EntityIndex | None = None,
) -> Numbers:
    """log Pr(h|r,t), log Pr(r|h,t,m) and log Pr(t|h,r) of each belief, (n, 3), in blocks; all names must be known.

    With an `index`, sums over all entities are estimated.
    """
    terms = np.zeros((len(beliefs), 3))
    totals = {}
    for place, slot in enumerate(ENTITY_SLOTS):
        totals[slot] = _log_totals(pbe, slot, beliefs, memory, report and _part(report, place / 2, 1 / 2), index)
    for rows in _blocks(pbe, beliefs, memory):
        block = {slot: total[rows] for slot, total in totals.items()}
        terms[rows] = pbe.log_terms(Batch.of(beliefs, rows), mention_exponent, block).double().numpy()
    return terms


def _log_totals(
    pbe: PBE, slot: Slot, beliefs: Beliefs, memory: int, report: Report | None, index: EntityIndex | None
) -> Tensor:
    """The logarithm of the sum of exponentials of each belief's query, (n,); equal queries are asked once."""
    queries = beliefs.relation * pbe.entities + beliefs.triples[:, slot.other]
    _, first, query = np.unique(queries, return_index=True, return_inverse=True)
    triples = torch.from_numpy(beliefs.triples[first].T.copy())
    totals = torch.zeros(len(first), dtype=pbe.log_loop_factor.dtype)
    for rows in pbe.blocks(len(first), memory=memory):
        batch = Batch.of_triples(*triples[:, rows])
        if index is None:
            totals[rows] = pbe.distribution(slot, batch).log_total
        else:
            totals[rows] = torch.cat([part.log_total for part in index.distributions(slot, batch, 1)])
        if report:
            report((rows[-1] + 1) / len(first))
    return totals[query]


def _part(report: Report, start: float, share: float) -> Report:
    """A report of a part of a task, which starts when the share `start` of the task is done."""
    return lambda done: report(start + share * done)


def _blocks(pbe: PBE, beliefs: Beliefs, memory: int) -> Iterator[Ids]:
    """Rows in blocks of bounded memory, sorted by relation."""
    order = np.argsort(beliefs.relation, kind="stable")
    return (order[block] for block in pbe.blocks(len(beliefs), memory=memory))


@torch.no_grad()
def decision_score(pbe: PBE, beliefs: Beliefs, rule: str, memory: int = 0) -> Numbers:
    """The number of each triple that its relation's threshold is applied to, (n,), without the mention (Section 5.4).

    For the rule `learned` without weights it is that of `entities`.
    """
    if rule != "score":
        terms = log_terms(pbe, beliefs.without_mentions(), memory=memory)
        if rule == "product":
            return np.asarray(terms.sum(axis=1))
        return terms[:, 2] if rule == "tail" else terms[:, 0] + terms[:, 2]
    scores = np.zeros(len(beliefs))
    for rows in _blocks(pbe, beliefs, memory):
        scores[rows] = pbe.belief_logit(Batch.of(beliefs, rows)).double().numpy()
    return scores


def calibration_input(
    pbe: PBE,
    beliefs: Beliefs,
    rule: str,
    mention_exponent: float = 1.0,
    memory: int = 0,
    report: Report | None = None,
) -> Numbers:
    """The number of each belief that the calibration curve turns into credence, (n,)."""
    if rule == "product":
        return log_credence(log_terms(pbe, beliefs, mention_exponent, memory, report))
    return decision_score(pbe, beliefs, rule, memory)


def features(pbe: PBE, beliefs: Beliefs, facts: TripleIndex, memory: int = 0) -> Numbers:
    """Features of the rule `learned`, (n, 4): log Pr(h|r,t), log Pr(t|h,r), and log(1 + number of other known answers)
    of the queries (?, r, t) and (h, r, ?)."""
    terms = log_terms(pbe, beliefs.without_mentions(), memory=memory)
    itself = facts.contains(beliefs.head, beliefs.relation, beliefs.tail)
    columns = (beliefs.head, beliefs.relation, beliefs.tail)
    heads, tails = (facts.count_answers(slot, *columns) - itself for slot in (Slot.HEAD, Slot.TAIL))
    return np.column_stack([terms[:, 0], terms[:, 2], np.log1p(heads), np.log1p(tails)])


@dataclass(frozen=True, eq=False)
class RuleWeights:
    """Weights of the features in the rule `learned`: (R, k) per relation, and (k,) over all relations.

    A relation without labeled validation triples has the overall weights.
    """

    by_relation: Numbers
    overall: Numbers

    @classmethod
    def fit(
        cls,
        features: Numbers,
        relation: Ids,
        label: NDArray[np.int8],
        relations: int,
        shrinkage: float = SHRINKAGE,
    ) -> RuleWeights:
        """Logistic regression of labels on features, (n, k), over all and per relation.

        In units of standard deviations, a relation's weights are shrunk to the overall ones by the penalty
        shrinkage · (difference)².
        """
        spread = features.std(axis=0)
        spread = np.where(spread > 1e-6, spread, 1.0)  # a feature that is constant, but for rounding
        units = (features - features.mean(axis=0)) / spread
        start = np.zeros(features.shape[1] + 1)
        overall = _logistic_regression(units, label, start, shrinkage)
        by_relation = np.tile(overall[:-1], (relations, 1))
        for number in np.unique(relation):
            rows = relation == number
            by_relation[number] = _logistic_regression(units[rows], label[rows], overall, shrinkage)[:-1]
        return cls(by_relation / spread, overall[:-1] / spread)

    def decision_score(self, features: Numbers, relation: Ids) -> Numbers:
        """The weighted sum of the features of each triple."""
        return np.asarray((features * self.by_relation[relation]).sum(axis=1))

    def grow(self, relations: int) -> RuleWeights:
        """The same with `relations` more relations, which have the overall weights."""
        return RuleWeights(np.concatenate([self.by_relation, np.tile(self.overall, (relations, 1))]), self.overall)

    def as_dict(self, names: Callable[[int], str]) -> dict[str, Any]:
        """Plain data for the model folder; relations by name where they differ from the overall weights."""
        differing = np.flatnonzero((self.by_relation != self.overall).any(axis=1)).tolist()
        return {
            "overall": self.overall.tolist(),
            "by_relation": {names(relation): self.by_relation[relation].tolist() for relation in differing},
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], relations: int, ids: Callable[[list[str]], Ids]) -> RuleWeights:
        """The inverse of `as_dict`."""
        overall, differing = np.array(stored["overall"], float), stored["by_relation"]
        by_relation = np.tile(overall, (relations, 1))
        if differing:
            by_relation[ids(list(differing))] = list(differing.values())
        return cls(by_relation, overall)


def _logistic_regression(
    features: Numbers, label: NDArray[np.int8], center: Numbers, shrinkage: float = SHRINKAGE
) -> Numbers:
    """Weights and intercept, (k + 1,), of the logistic regression that is shrunk to `center`; Newton's method."""
    inputs, sign = np.column_stack([features, np.ones(len(features))]), np.where(label == 1, 1.0, -1.0)
    penalty = np.append(np.full(features.shape[1], shrinkage), shrinkage / 20)

    def loss(weights: Numbers) -> float:
        return float(np.logaddexp(0, -sign * (inputs @ weights)).sum() + penalty @ (weights - center) ** 2)

    weights, value = center.copy(), loss(center)
    for _ in range(ROUNDS):
        chance = logistic(-sign * (inputs @ weights))
        gradient = -inputs.T @ (sign * chance) + 2 * penalty * (weights - center)
        curvature = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + 2 * np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        while (lower := loss(weights - step)) > value and np.abs(step).max() > TOLERANCE:
            step = step / 2
        if np.abs(step).max() <= TOLERANCE:
            break
        weights, value = weights - step, lower
    return weights
