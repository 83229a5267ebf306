"""Contradictions: a second answer to a query that rarely has two.

    log odds of credence = log odds of the belief alone − Σ surprise      if something contradicts the belief
                           log odds of the belief alone + shift           otherwise

with the sum over the two queries (?, r, t) and (h, r, ?). A query contradicts a new belief if a known fact answers it.
It contradicts a known belief if another known fact answers it and has a higher score. The surprise is − log of the
share of such queries of the relation with several answers: a true belief finds another answer with this probability, a
false one nearly always. The shift is what the others gain, fitted to validation beliefs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.calibration.thresholds import Numbers
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS

LEAST = float(np.log(2))
"""Surprise from which on a second answer counts: of the queries of the relation, at most half have several answers."""

BLOCK = 100_000
"""Known answers scored at a time."""


@dataclass(frozen=True)
class Contradictions:
    """The shift of the formula above."""

    shift: float = 0.0

    def against(self, surprise: Numbers) -> Numbers:
        """What the log odds lose, (n,)."""
        return np.where(surprise > 0, surprise, -self.shift)


def fit_contradictions(log_odds: Numbers, surprise: Numbers, true: NDArray[np.bool_]) -> Contradictions:
    """The shift with the lowest log loss of the beliefs that nothing contradicts, with a prior of deviation 1."""
    from scipy.optimize import minimize_scalar  # only fitting needs it, and answering should start quickly

    free = surprise == 0
    if free.all() or not free.any():
        return Contradictions()
    sign, margins = np.where(true[free], 1.0, -1.0), log_odds[free]

    def loss(shift: float) -> float:
        return float(np.logaddexp(0, -sign * (margins + shift)).sum() + shift**2 / 2)

    return Contradictions(float(minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded").x))


@torch.no_grad()
def surprise(pbe: PBE, beliefs: Beliefs, known: TripleIndex) -> Numbers:
    """The surprise of each belief, (n,), in the model's ids and with known names; 0 where nothing contradicts it."""
    total = np.zeros(len(beliefs))
    for slot in ENTITY_SLOTS:
        each = -np.log(known.several_answers(slot))[beliefs.relation]
        rows = np.flatnonzero(each >= LEAST)
        triples = beliefs.triples[rows]
        query, answer = known.answers(slot, *triples.T)
        other = answer != triples[query, slot]
        query, answer = query[other], answer[other]
        rivals = triples[query]
        rivals[:, slot] = answer
        new = ~known.contains(*triples.T)
        decides = new[query]
        compared = np.flatnonzero(~decides)
        decides[compared] = _logits(pbe, rivals[compared]) > _logits(pbe, triples[query[compared]])
        contradicted = np.unique(query[decides])
        total[rows[contradicted]] += each[rows[contradicted]]
    return total


def _logits(pbe: PBE, triples: np.ndarray) -> Numbers:
    """scale · D′ of each triple, (n,), in blocks."""
    values = np.zeros(len(triples))
    for start in range(0, len(triples), BLOCK):
        part = np.ascontiguousarray(triples[start : start + BLOCK].T)
        values[start : start + BLOCK] = pbe.belief_logit(Batch.of_triples(*torch.from_numpy(part))).double().numpy()
    return values
