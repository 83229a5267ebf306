"""The confidence a belief would carry: what the model makes of it, put on the scale of confidences given to others."""

from __future__ import annotations

import numpy as np
import torch

from doxa.calibration.rules import grounds
from doxa.calibration.thresholds import Numbers
from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError
from doxa.model import Model
from doxa.pbe import PBE
from doxa.training.candidates import every_candidate
from doxa.training.objective import estimates


@torch.no_grad()
def estimated(pbe: PBE, settings: Settings, beliefs: Beliefs) -> Numbers:
    """log credence by Eqs 13–16 with their expectations taken over all candidates, which Eq. 5 fits to log c."""
    everything = every_candidate(pbe)
    found = np.zeros(len(beliefs))
    for rows in pbe.blocks(len(beliefs)):
        terms = estimates(pbe, Batch.of(beliefs, rows), everything, settings)
        found[rows] = terms.log_credence(settings).double().numpy()
    return found


def confidence_grounds(pbe: PBE, settings: Settings, beliefs: Beliefs) -> Numbers:
    """What confidence is told from: what learning made to fit it, or log credence (Eq. 1) where it did not."""
    if settings.objective == "confidence":
        return estimated(pbe, settings, beliefs)
    return grounds(pbe, beliefs, "score" if settings.confidence == "label" else "product")


def fitted(pbe: PBE, settings: Settings, beliefs: Beliefs) -> Numbers:
    """What learning makes to come near the confidence: the credence of Eq. 5, or σ(D) for labels."""
    found = confidence_grounds(pbe, settings, beliefs)
    return np.asarray(np.exp(found) if settings.objective == "confidence" else 1 / (1 + np.exp(-found)))


def confidence(model: Model, beliefs: Beliefs) -> Numbers:
    """The confidence each belief would be expected to carry; NaN where it names something the model never saw."""
    if model.expected is None:
        raise UsageError(
            "this model cannot tell confidence: no validation belief it was given carried one",
            "train with validation beliefs that do",
        )
    beliefs = beliefs.encode(model.vocabularies)
    found = np.full(len(beliefs), np.nan)
    seen = np.flatnonzero(beliefs.seen)
    known = beliefs.take(seen)
    heard = confidence_grounds(model.pbe, model.settings, known)
    found[seen] = model.expected.credence(heard, known.relation)
    return found
