"""Migrations: model folders of earlier versions, read as folders of this version.

| version | difference |
|---|---|
| 1 | what validation decided stood in the manifest itself; the mention exponent was a tensor of the weights |
| 2 | all of it is the entry `judge`; records of the learning curve have `metric` instead of `quality` |
| 3 | files are named by their checksums, which the manifest lists (`doxa.storage.folders`) |

Settings are migrated by `doxa.config.migrate`, for all files alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

Tensors = dict[str, Tensor]


def migrate(manifest: dict[str, Any], weights: Tensors, facts: Tensors) -> tuple[dict[str, Any], Tensors, Tensors]:
    """The manifest, weights and facts of a folder as this version writes them."""
    if manifest["version"] == 1:
        weights, facts = dict(weights), dict(facts)
        exponent = weights.pop("word_share", weights.pop("mention_exponent", None))
        if "given" in facts:
            facts["confidence"] = facts.pop("given")
        judge = _judge_of_version_1(manifest, 1.0 if exponent is None else exponent.item())
        curve = [
            {"metric" if name == "quality" else name: x for name, x in record.items()} for record in manifest["curve"]
        ]
        manifest = manifest | {"version": 2, "judge": judge, "curve": curve}
    if "mention_term" not in manifest["settings"]:  # before version 0.2, words were always trained with the score
        manifest = manifest | {"settings": manifest["settings"] | {"mention_term": "joint"}}
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
