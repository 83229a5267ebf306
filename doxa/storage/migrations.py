"""Migrations: model folders of earlier versions, read as folders of this version.

| version | difference |
|---|---|
| 1 | what validation decided stood in the manifest itself; the mention exponent was a tensor of the weights |
| 2 | all of it is the entry `judge` |
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor

from doxa.config import Settings

log = logging.getLogger(__name__)

Tensors = dict[str, Tensor]

OLD_SETTINGS = {"optimiser": "optimizer"}


def migrate(manifest: dict[str, Any], weights: Tensors, facts: Tensors) -> tuple[dict[str, Any], Tensors, Tensors]:
    """The manifest, weights and facts of a folder as this version writes them."""
    if manifest["version"] == 1:
        weights, facts = dict(weights), dict(facts)
        exponent = weights.pop("word_share", weights.pop("mention_exponent", None))
        if "given" in facts:
            facts["confidence"] = facts.pop("given")
        judge = _judge_of_version_1(manifest, 1.0 if exponent is None else exponent.item())
        manifest = manifest | {"version": 2, "judge": judge}
    return manifest, weights, facts


def _judge_of_version_1(manifest: Mapping[str, Any], mention_exponent: float) -> dict[str, Any]:
    """The entry `judge`, from the entries that version 1 had in its place."""
    temperatures = dict(manifest["temperatures"])
    temperatures["relation_with_mention"] = temperatures.pop("relation_said")
    weights, rule = manifest.get("weighing"), manifest["settings"].get("verdict", "product")
    if rule == "weighed":
        rule = "learned" if weights else "entities"
    return {
        "rule": rule,
        "thresholds": manifest["thresholds"],
        "curve": manifest["calibrator"],
        "temperatures": temperatures,
        "mention_exponent": mention_exponent,
        "weights": weights,
        "unseen": manifest.get("strangers"),
        "expected_confidence": manifest["expected"],
    }


def read_settings(values: Mapping[str, Any]) -> Settings:
    """Settings of a saved model; names that this version does not know are left out with a notice."""
    renamed = {OLD_SETTINGS.get(name, name): value for name, value in values.items()}
    known = {knob.name for knob in fields(Settings)}
    for name in sorted(renamed.keys() - known):
        log.warning("the model has a setting %r that this version does not know; it is ignored", name)
    return Settings().changed(**{name: value for name, value in renamed.items() if name in known})
