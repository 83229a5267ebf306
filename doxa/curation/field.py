"""Review in figures: how precise proposals are, how well credence was calibrated in the field, and agreement.

Cohen's kappa of two reviewers of the same proposals:

    κ = (p_o − p_e) / (1 − p_e)      p_o: share of equal verdicts, p_e: share expected by chance from their frequencies
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from doxa.data.results import Result
from doxa.evaluation.calibration import Reliability

BINS = 10
"""Bins of the reliability diagram of decided proposals."""


@dataclass(frozen=True, eq=False, repr=False)
class ReviewStatistics(Result):
    """What reviewers decided: counts, precision, calibration of the credence they were shown, and agreement.

    `precision` is the share of accepted ones among accepted and rejected beliefs, `kinds` the same by kind of proposal.
    `calibration` is None without a decision. `pairs` counts proposals that two reviewers decided, `agreement` is the
    share of them with equal verdicts, `disagreements` counts the others by their two verdicts, `kappa` is None where
    chance alone would agree always.
    """

    verdicts: dict[str, int]
    reasons: dict[str, int]
    curators: dict[str, int]
    kinds: dict[str, float]
    precision: float | None
    calibration: Reliability | None
    pairs: int
    agreement: float | None
    disagreements: dict[str, int]
    kappa: float | None

    def __repr__(self) -> str:
        counts = ", ".join(f"{number:,} {verdict}" for verdict, number in self.verdicts.items())
        return f"ReviewStatistics({counts or 'nothing decided'})"

    def to_frame(self) -> pl.DataFrame:
        """The reliability diagram: mean credence shown, share of accepted beliefs, and count of each bin."""
        bins = self.calibration.bins if self.calibration else {"credence": [], "truth": [], "count": []}
        return pl.DataFrame(bins, schema={"credence": pl.Float64, "truth": pl.Float64, "count": pl.Int64})

    def as_dict(self) -> dict[str, Any]:
        """Counts, precision, calibration with its bins, and agreement."""
        calibration = None if self.calibration is None else self.calibration.as_dict() | {"bins": self.calibration.bins}
        return {
            "verdicts": self.verdicts, "reasons": self.reasons, "curators": self.curators, "precision": self.precision,
            "precision_by_kind": self.kinds, "calibration": calibration,
            "agreement": {"pairs": self.pairs, "share": self.agreement, "kappa": self.kappa,
                          "disagreements": self.disagreements},
        }  # fmt: skip


def statistics(decisions: pl.DataFrame) -> ReviewStatistics:
    """The figures of decided proposals: a frame with curator, verdict, reason, credence, belief_id, run_id and kind.

    A replaced belief counts as rejected.
    """
    labels = {"accept": "accept", "reject": "reject", "replace": "reject", "unsure": "unsure"}
    decisions = decisions.with_columns(label=pl.col("verdict").replace_strict(labels, return_dtype=pl.String))
    decided = decisions.filter(pl.col("label") != "unsure")
    first = decided.unique(["run_id", "belief_id"], keep="first", maintain_order=True)
    true, credence = (first["label"] == "accept").to_numpy(), first["credence"].to_numpy()
    kinds = first.group_by("kind").agg((pl.col("label") == "accept").mean()).sort("kind")
    pairs = _pairs(decisions)
    return ReviewStatistics(
        verdicts=_counts(decisions["verdict"]),
        reasons=_counts(decisions["reason"].drop_nulls()),
        curators=_counts(decisions["curator"]),
        kinds=dict(kinds.iter_rows()),
        precision=float(true.mean()) if len(true) else None,
        calibration=Reliability.of(credence, true, min(BINS, len(true))) if len(true) else None,
        pairs=len(pairs),
        agreement=float((pairs["first"] == pairs["second"]).mean()) if len(pairs) else None,  # type: ignore[arg-type]
        disagreements=_disagreements(pairs),
        kappa=kappa(pairs["first"].to_list(), pairs["second"].to_list()),
    )


def _counts(column: pl.Series) -> dict[str, int]:
    return dict(column.value_counts(sort=True).sort("count", column.name, descending=[True, False]).iter_rows())


def _pairs(decisions: pl.DataFrame) -> pl.DataFrame:
    """The labels of two different reviewers of the same proposal, in the order of their decisions."""
    by_fact = decisions.group_by("run_id", "belief_id", maintain_order=True).agg("label", "curator")
    several = by_fact.filter((pl.col("label").list.len() > 1) & (pl.col("curator").list.n_unique() > 1))
    return several.select(first=pl.col("label").list.get(0), second=pl.col("label").list.get(1))


def _disagreements(pairs: pl.DataFrame) -> dict[str, int]:
    """How often two reviewers differed, by their verdicts in alphabetical order: `accept, reject`."""
    both = pairs.filter(pl.col("first") != pl.col("second"))
    named = both.select(verdicts=pl.concat_list("first", "second").list.sort().list.join(", "))
    return _counts(named["verdicts"])


def kappa(first: list[str], second: list[str]) -> float | None:
    """Cohen's kappa of two lists of verdicts; None without any, or where both always say the same one."""
    if not first:
        return None
    names = sorted({*first, *second})
    table = np.zeros((len(names), len(names)))
    for a, b in zip(first, second, strict=True):
        table[names.index(a), names.index(b)] += 1
    table /= table.sum()
    observed, expected = np.trace(table), float(table.sum(axis=0) @ table.sum(axis=1))
    return None if expected >= 1 else float((observed - expected) / (1 - expected))
