"""Info: what a model is, in numbers and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from doxa.config import GROUPS
from doxa.data.places import plain_words
from doxa.data.results import Result
from doxa.model import Model


@dataclass(frozen=True)
class Info(Result):
    """A summary of a model: sizes, settings by group, training and calibration."""

    system: str
    score: str
    entities: int
    relations: int
    words: int
    facts: int
    settings: dict[str, dict[str, Any]]
    training: dict[str, Any]
    calibration: dict[str, Any]

    def to_frame(self) -> pl.DataFrame:
        """One row per fact about the model: group, name and value as text."""
        rows = [("model", name, str(value)) for name, value in self.as_dict().items() if not isinstance(value, dict)]
        groups = {**self.settings, "training": self.training, "calibration": self.calibration}
        rows += [(group, name, str(value)) for group, values in groups.items() for name, value in values.items()]
        return pl.DataFrame(rows, schema=["group", "name", "value"], orient="row")

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def __repr__(self) -> str:
        words = f", {self.words:,} words" if self.words else ""
        sizes = f"{self.entities:,} entities, {self.relations:,} relations{words}, {self.facts:,} known facts"
        return f"Info({self.system} on {self.score}, {sizes})"


def info(model: Model) -> Info:
    """The summary of a model."""
    judge, vocabularies = model.calibration, model.vocabularies
    return Info(
        system=model.settings.system,
        score=model.settings.score,
        entities=len(vocabularies.entities),
        relations=len(vocabularies.relations),
        words=plain_words(vocabularies.words) if model.pbe.mention is not None else 0,
        facts=len(model.known),
        settings={group: model.settings.group(group) for group in GROUPS},
        training=dict(model.origin) | ({"last_epoch": dict(model.curve[-1])} if model.curve else {}),
        calibration={
            "rule": judge.rule,
            "curve": judge.curve.kind,
            "thresholds": int((~np.isnan(judge.thresholds.by_relation)).sum()),
            "temperatures": dict(vars(judge.temperatures)),
            "mention_exponent": judge.mention_exponent,
            "classifies_unseen": judge.unseen is not None,
            "predicts_confidence": judge.expected_confidence is not None,
        },
    )
