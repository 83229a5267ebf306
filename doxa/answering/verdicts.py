"""Triplet classification: how plausible is a belief, and is it held true (Section 5.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.beliefs import Beliefs
from doxa.credence import Numbers, Thresholds
from doxa.learnt import Learnt
from doxa.pbe import PBE, Batch


@dataclass(frozen=True, eq=False)
class Judgement:
    """Per belief: calibrated credence (NaN for a name the model never saw) and the verdict at the threshold."""

    credence: Numbers
    verdict: NDArray[np.bool_]

    @property
    def unknown(self) -> NDArray[np.bool_]:
        return np.isnan(self.credence)


@torch.no_grad()
def log_terms(pbe: PBE, beliefs: Beliefs) -> Numbers:
    """(n, 3): log Pr(h|r,t), log Pr(r|h,t,m), log Pr(t|h,r) of each belief, in blocks; all names must be known."""
    terms = np.zeros((len(beliefs), 3))
    for rows in pbe.blocks(len(beliefs)):
        terms[rows] = pbe.log_terms(Batch.of(beliefs, rows)).double().numpy()
    return terms


def log_products(pbe: PBE, beliefs: Beliefs) -> Numbers:
    """log [Pr(h|r,t) · Pr(r|h,t) · Pr(t|h,r)] of each triple, its mention left aside (Section 5.4)."""
    return np.asarray(log_terms(pbe, beliefs.without_mentions()).sum(axis=1))


def margins(pbe: PBE, thresholds: Thresholds, beliefs: Beliefs) -> Numbers:
    """log credence (Eq. 1) above a third of the relation's log threshold."""
    return np.asarray(log_terms(pbe, beliefs).mean(axis=1) - thresholds.of(beliefs.relation) / 3)


def judge(learnt: Learnt, beliefs: Beliefs) -> Judgement:
    """Credence and verdict of every belief; one with a name the model never saw has no credence and is held false."""
    beliefs = beliefs.encoded(learnt.names)
    credence = np.full(len(beliefs), np.nan)
    verdict = np.zeros(len(beliefs), bool)
    seen = np.flatnonzero(beliefs.seen)
    known = beliefs.take(seen)
    credence[seen] = learnt.calibrator.credence(margins(learnt.pbe, learnt.thresholds, known))
    verdict[seen] = log_products(learnt.pbe, known) >= learnt.thresholds.of(known.relation)
    return Judgement(credence, verdict)
