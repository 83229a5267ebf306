"""Judgment: credence and verdict of beliefs (triplet classification, Section 5.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.data.results import Result
from doxa.model import Model

VERDICTS = ("true", "false", "unknown")


@dataclass(frozen=True, eq=False, repr=False)
class Judgment(Result):
    """Credence and verdict of each belief, in the order of `beliefs`.

    `credence` is NaN for a belief with a name that the model does not know. `accepted` says whether a belief is
    classified as true, such beliefs included (`doxa.calibration.unseen`). `known` says whether the model's knowledge
    base holds it.
    """

    beliefs: Beliefs
    credence: Numbers
    accepted: NDArray[np.bool_]
    known: NDArray[np.bool_]

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Which beliefs have a name that the model does not know."""
        return np.isnan(self.credence)

    @property
    def verdict(self) -> NDArray[np.str_]:
        """true or false at the relation's threshold, unknown where the model does not know a name."""
        return np.where(self.unknown, "unknown", np.where(self.accepted, "true", "false"))

    def __len__(self) -> int:
        return len(self.credence)

    def __repr__(self) -> str:
        counts = ", ".join(f"{int((self.verdict == word).sum()):,} {word}" for word in VERDICTS)
        return f"Judgment({len(self):,} beliefs: {counts})"

    def to_frame(self) -> pl.DataFrame:
        """The beliefs with the columns credence (null where unknown) and verdict.

        Beliefs that were already encoded in the model's vocabularies have null for names that these lack.
        """
        return self.beliefs.to_frame(unknown_names=True).with_columns(
            pl.Series("credence", self.credence).fill_nan(None),
            pl.Series("verdict", self.verdict.tolist(), dtype=pl.String),
        )

    def as_dict(self) -> dict[str, Any]:
        """One entry per belief, with the columns of `to_frame` and whether it is known."""
        return {"beliefs": self.to_frame().with_columns(pl.Series("known", self.known)).to_dicts()}


def judge(model: Model, beliefs: Beliefs, memory: int = 0) -> Judgment:
    """Judge beliefs in any vocabulary; see `doxa.calibration.judge.Judge.judge`."""
    model.must_answer("classification")
    encoded = beliefs.encode(model.vocabularies)
    credence, accepted = model.calibration.judge(model.pbe, encoded, model.trained_facts, memory)
    return Judgment(beliefs, credence, accepted, model.known.contains(encoded.head, encoded.relation, encoded.tail))
