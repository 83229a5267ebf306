"""Calibration: do the probabilities come true as often as they say?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from doxa.credence import Numbers

BINS = 15


@dataclass(frozen=True, eq=False)
class Reliability:
    """Beliefs by credence in bins of equal mass: mean credence, share that is true, and how many, per bin.

    `ece` is the mean gap between the two, weighted by mass; `brier` the mean squared error; `nll` the log loss.
    """

    credence: Numbers
    truth: Numbers
    count: NDArray[np.int64]
    ece: float
    brier: float
    nll: float

    @classmethod
    def of(cls, credence: Numbers, true: NDArray[np.bool_], bins: int = BINS) -> Reliability:
        order = np.argsort(credence, kind="stable")
        parts = [part for part in np.array_split(order, bins) if len(part)]
        count = np.array([len(part) for part in parts])
        said = np.array([credence[part].mean() for part in parts])
        held = np.array([true[part].mean() for part in parts])
        clipped = np.clip(credence, 1e-12, 1 - 1e-12)
        return cls(
            credence=said,
            truth=held,
            count=count,
            ece=float((np.abs(said - held) * count).sum() / count.sum()),
            brier=float(((credence - true) ** 2).mean()),
            nll=float(-np.where(true, np.log(clipped), np.log1p(-clipped)).mean()),
        )

    def as_dict(self) -> dict[str, float]:
        return {"ece": self.ece, "brier": self.brier, "nll": self.nll}
