"""Contradictions: a second answer to a query that rarely has two.

    log odds of credence = log odds of the belief alone − scale · Σ surprise      if something contradicts the belief
                           log odds of the belief alone + shift                   if nothing does, though it could

with the sum over the two queries (?, r, t) and (h, r, ?). A query contradicts a new belief if a known fact answers it.
It contradicts a known belief if another known fact answers it and has a higher score. The surprise is − log of the
share of the relation's facts that share their query with another fact. At scale 1 a true belief finds another answer
with this probability, a false one nearly always. The share is of facts, not of queries: few queries may have most of
the facts, and then most true beliefs find another answer. Scale and shift, what the others gain, are fitted to
validation beliefs.
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

LEAST = float(np.log(3 / 2))
"""Surprise from which on a second answer counts: of the facts of the relation, at most two thirds have another beside
them, which is the share where half of the queries have two answers."""

SCALE_PRIOR, MAX_SCALE = 0.5, 2.0
"""Deviation of the prior of the scale, and its largest value."""

BLOCK = 100_000
"""Known answers scored at a time."""


@dataclass(frozen=True)
class Contradictions:
    """Shift and scale of the formula above."""

    shift: float = 0.0
    scale: float = 1.0

    def against(self, surprise: Numbers) -> Numbers:
        """What the log odds lose, (n,)."""
        return np.where(np.isnan(surprise), 0.0, np.where(surprise > 0, self.scale * surprise, -self.shift))


def fit_contradictions(log_odds: Numbers, surprise: Numbers, true: NDArray[np.bool_]) -> Contradictions:
    """Shift and scale with the lowest log loss, with normal priors around 0 and 1 of deviations 1 and SCALE_PRIOR."""
    from scipy.optimize import minimize_scalar  # only fitting needs it, and answering should start quickly

    free, contradicted, sign = surprise == 0, surprise > 0, np.where(true, 1.0, -1.0)
    if not free.any() or not contradicted.any():
        return Contradictions()

    def shift_loss(shift: float) -> float:
        return float(np.logaddexp(0, -(sign * (log_odds + shift))[free]).sum() + shift**2 / 2)

    def scale_loss(scale: float) -> float:
        margins = (sign * (log_odds - scale * surprise))[contradicted]
        return float(np.logaddexp(0, -margins).sum() + ((scale - 1) / SCALE_PRIOR) ** 2 / 2)

    return Contradictions(
        shift=float(minimize_scalar(shift_loss, bounds=(-5.0, 5.0), method="bounded").x),
        scale=float(minimize_scalar(scale_loss, bounds=(0.0, MAX_SCALE), method="bounded").x),
    )


@torch.no_grad()
def surprise(pbe: PBE, beliefs: Beliefs, known: TripleIndex, shares: TripleIndex | None = None) -> Numbers:
    """The surprise of each belief, (n,), in the model's ids and with known names; 0 where nothing contradicts it.

    It is NaN where nothing can: in both kinds of queries of the relation most facts have another beside them. Shares
    are those of the facts `shares`, by default `known`.
    """
    total = np.full(len(beliefs), np.nan)
    for slot in ENTITY_SLOTS:
        each = -np.log((shares or known).facts_with_others(slot))[beliefs.relation]
        rows = np.flatnonzero(each >= LEAST)
        total[rows] = np.nan_to_num(total[rows])
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
