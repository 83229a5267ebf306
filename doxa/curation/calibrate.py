"""Calibrate: fit everything that judges to other validation beliefs, without training again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from doxa.calibration.judge import Judge
from doxa.curation.grow import insert_confidence
from doxa.data.beliefs import Beliefs
from doxa.data.unseen import check_names
from doxa.errors import UsageError
from doxa.model import Model
from doxa.systems import answers


def calibrate(
    model: Model,
    valid: Beliefs,
    strict: bool = False,
    **values: Any,
) -> Model:
    """The same weights with a judge fitted to these validation beliefs.

    `values` are settings of judging and running; None keeps a setting as it is. Beliefs with unknown names only serve
    to classify such beliefs; with `strict` they are an error. Positives join the known facts.
    """
    settings = model.settings.changed(**{name: value for name, value in values.items() if value is not None})
    encoded = valid.encode(model.vocabularies)
    check_names(valid, encoded, strict, "credence is calibrated on the others")
    beliefs, unseen = encoded.where(encoded.seen), encoded.where(~encoded.seen)
    positives = beliefs.positives()
    if not len(positives):
        raise UsageError("no validation belief is positive and has names that the model knows")
    new = positives.where(~model.known.contains(positives.head, positives.relation, positives.tail))
    can_classify = "classification" in answers(settings)
    return replace(
        model,
        settings=settings,
        calibration=Judge.fit(model.pbe, settings, model.trained_facts, beliefs, unseen, can_classify=can_classify),
        valid=np.concatenate([model.valid, new.triples]),
        known_confidence=insert_confidence(model, len(model.train) + len(model.valid), new),
    )
