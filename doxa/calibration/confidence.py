"""Expected confidence: the confidence a belief would carry, learned from validation beliefs that carry one.

Two questions have different answers. Of a belief that is stated: which confidence goes with it? Of any triple, false
ones included, which carry confidence 0: which confidence is to be expected? The first curve is fitted to the validation
beliefs as they are, the second to them and as many negatives.
"""

from __future__ import annotations

import numpy as np
import torch

from doxa.calibration.curves import MIN_LABELS, Curve, fit_shares
from doxa.calibration.rules import calibration_input
from doxa.calibration.thresholds import Numbers
from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import corrupt_triples, stack
from doxa.data.triples import TripleIndex
from doxa.estimators import Candidates, estimated_log_credence
from doxa.pbe import PBE


@torch.no_grad()
def expected_log_credence(pbe: PBE, settings: Settings, beliefs: Beliefs, memory: int = 0) -> Numbers:
    """log credence by Eqs 13–16 with expectations over all candidates, (n,): the estimate that Eq. 5 fits to log c."""
    candidates = Candidates.every(pbe)
    values = np.zeros(len(beliefs))
    for rows in pbe.blocks(len(beliefs), memory=memory):
        values[rows] = estimated_log_credence(pbe, Batch.of(beliefs, rows), candidates, settings).double().numpy()
    return values


def confidence_input(
    pbe: PBE, settings: Settings, beliefs: Beliefs, mention_exponent: float = 1.0, memory: int = 0
) -> Numbers:
    """The number that expected confidence is read from: what training fits to it, or else log credence (Eq. 1)."""
    if settings.objective == "confidence":
        return expected_log_credence(pbe, settings, beliefs, memory)
    rule = "score" if settings.confidence == "label" else "product"
    return calibration_input(pbe, beliefs, rule, mention_exponent, memory)


def fitted_confidence(pbe: PBE, settings: Settings, beliefs: Beliefs) -> Numbers:
    """What training fits to the confidence: the credence of Eq. 5, or σ(D) with confidence=label."""
    inputs = confidence_input(pbe, settings, beliefs)
    return np.asarray(np.exp(inputs) if settings.objective == "confidence" else 1 / (1 + np.exp(-inputs)))


def with_confidence(beliefs: Beliefs, known: TripleIndex, settings: Settings) -> tuple[Beliefs, Numbers]:
    """The beliefs that carry confidence, and the confidences as targets.

    Unless one of them has confidence 0, as many negatives of confidence 0 are added.
    """
    confident = beliefs.where(~np.isnan(beliefs.confidence))
    if not (confident.confidence > 0).all():
        return confident, confident.confidence
    negatives, _ = corrupt_triples(confident, known, settings.seed, settings.negatives_from)
    targets = np.concatenate([confident.confidence, np.zeros(len(negatives))])
    return stack(confident, negatives), targets


def fit_expected_confidence(
    pbe: PBE, beliefs: Beliefs, known: TripleIndex, settings: Settings, mention_exponent: float = 1.0
) -> Curve | None:
    """The curve from `confidence_input` to the confidence of stated beliefs and as many negatives, which have 0.

    None where too few beliefs carry confidence.
    """
    confident, targets = with_confidence(beliefs, known, settings)
    if len(confident) < 2 * MIN_LABELS:
        return None
    inputs = confidence_input(pbe, settings, confident, mention_exponent)
    return fit_shares(inputs, confident.relation, targets, pbe.relations, settings.seed)


def fit_stated_confidence(
    pbe: PBE, beliefs: Beliefs, settings: Settings, mention_exponent: float = 1.0
) -> Curve | None:
    """The curve from `confidence_input` to the confidence of stated beliefs, without negatives.

    None where too few beliefs carry confidence, or where one carries 0: then the file has negatives of its own.
    """
    confident = beliefs.where(~np.isnan(beliefs.confidence))
    if len(confident) < MIN_LABELS or not (confident.confidence > 0).all():
        return None
    inputs = confidence_input(pbe, settings, confident, mention_exponent)
    return fit_shares(inputs, confident.relation, confident.confidence, pbe.relations, settings.seed)


def confidence_of_facts(facts: TripleIndex, train: Beliefs, valid: Beliefs | None) -> Numbers:
    """The confidence of every fact of train, the highest where there are several, and then of valid.

    NaN for a fact without confidence; of length 0 where no fact has any.
    """
    if np.isnan(train.confidence).all() and (valid is None or np.isnan(valid.positives().confidence).all()):
        return np.zeros(0)
    of_train = np.full(len(facts), np.nan)
    np.fmax.at(of_train, facts.rows_of(train.triples), train.confidence)
    return of_train if valid is None else np.concatenate([of_train, valid.positives().confidence])
