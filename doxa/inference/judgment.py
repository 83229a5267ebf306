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
from doxa.errors import CannotAnswer, UsageError
from doxa.inference.rows import Here, RowRunner, judged_rows
from doxa.model import Model

NO_CURVE = "calibrate it with labeled or held-out beliefs"

FROM_SENTENCE = "an entity is not known to the model: judged from the sentence"

VERDICTS = ("true", "false", "unknown")


@dataclass(frozen=True, eq=False, repr=False)
class Judgment(Result):
    """Credence and verdict of each belief, in the order of `beliefs`.

    `credence` is NaN for a belief with a name that the model does not know, unless it has a mention: then credence is
    the probability of its relation by the sentence, and `from_sentence` is true. `accepted` says whether a belief is
    classified as true, such beliefs included (`doxa.calibration.unseen`). `known` says whether the model's knowledge
    base holds it. `base_rate` is the share of true beliefs in the mixture that the credence holds for, None for a model
    that is not calibrated.
    """

    beliefs: Beliefs
    credence: Numbers
    accepted: NDArray[np.bool_]
    known: NDArray[np.bool_]
    base_rate: float | None
    from_sentence: NDArray[np.bool_]

    @property
    def mixture(self) -> str:
        """Which mixture of true and false beliefs the credence holds for, in a sentence."""
        if self.base_rate is None:
            return "credence is not calibrated: take its order seriously, not its size"
        share = f"{self.base_rate:.3g} of the beliefs are true"
        return f"credence holds where {share} and the others have a wrong head or tail"

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
        """The beliefs with the columns credence (null where unknown), verdict, and note where one rests on a sentence.

        Beliefs that were already encoded in the model's vocabularies have null for names that these lack.
        """
        columns = [
            pl.Series("credence", self.credence, nan_to_null=True),
            pl.Series("verdict", self.verdict.tolist(), dtype=pl.String),
        ]
        frame = self.beliefs.to_frame(unknown_names=True).hstack(columns)
        if not self.from_sentence.any():
            return frame
        return frame.with_columns(pl.when(pl.Series(self.from_sentence)).then(pl.lit(FROM_SENTENCE)).alias("note"))

    def as_dict(self) -> dict[str, Any]:
        """One entry per belief, with the columns of `to_frame` and whether it is known; and what credence holds for."""
        beliefs = self.to_frame().with_columns(pl.Series("known", self.known)).to_dicts()
        return {"beliefs": beliefs, "base_rate": self.base_rate, "mixture": self.mixture}


def judge(
    model: Model,
    beliefs: Beliefs,
    memory: int = 0,
    base_rate: float | None = None,
    contradictions: bool = True,
    runner: RowRunner | None = None,
) -> Judgment:
    """Judge beliefs in any vocabulary; see `doxa.calibration.judge.Judge.judge`.

    Without `contradictions` each belief is judged by itself, as triplet classification is defined (Section 5.4).
    `runner` is where blocks of beliefs are judged, by default here.
    """
    model.must_answer("classification")
    curve = model.calibration.curve
    if base_rate is not None:
        if not 0 < base_rate < 1:
            raise UsageError(f"base_rate is {base_rate}; expected a number between 0 and 1")
        if curve.kind == "none":
            raise CannotAnswer("this model's credence is not calibrated, so no base rate can be set", NO_CURVE)
    encoded = beliefs.encode(model.vocabularies)
    options = {"memory": memory, "base_rate": base_rate, "contradictions": contradictions}
    table = (runner or Here(model)).run(judged_rows, len(encoded), encoded.take, options)
    credence, accepted = (table[name].to_numpy(writable=True) for name in ("credence", "accepted"))
    known = model.known.contains(encoded.head, encoded.relation, encoded.tail)
    share = None if curve.kind == "none" else base_rate or curve.base_rate
    return Judgment(beliefs, credence, accepted, known, share, ~encoded.seen & ~np.isnan(credence))
