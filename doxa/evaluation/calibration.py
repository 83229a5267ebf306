"""Calibration: do the probabilities come true as often as they say?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.calibration.queries import HeldOutQueries, held_out_queries
from doxa.calibration.rules import log_terms
from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.inference.judgment import judge
from doxa.model import Model
from doxa.systems import answers

BINS = 15

MOST_ASKED = 5000
"""Beliefs whose parts are asked for to see how far probabilities of answers can be trusted."""

ROUNDS = 200
"""Samples with replacement behind an interval."""

WIDTH = 0.95


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

    @property
    def bins(self) -> dict[str, list[float]]:
        """The points of the reliability diagram."""
        return {"credence": self.credence.tolist(), "truth": self.truth.tolist(), "count": self.count.tolist()}


@dataclass(frozen=True, eq=False)
class CalibrationReport:
    """Credence before calibration (Eq. 1 itself) and after, with intervals; and probabilities of answers likewise.

    `intervals` are those of the figures after, by resampling the beliefs. `accuracy` is that of holding true what has
    credence ½ at least.
    """

    before: Reliability
    after: Reliability
    intervals: dict[str, tuple[float, float]]
    accuracy: float
    answers: dict[str, AnswerReliability]

    def as_dict(self) -> dict[str, Any]:
        return (
            self.after.as_dict()
            | {"before": self.before.as_dict(), "accuracy": self.accuracy}
            | {"intervals": {name: list(ends) for name, ends in self.intervals.items()}}
            | {"answers": {kind: found.as_dict() for kind, found in self.answers.items()}}
            | {"bins": self.after.bins}
        )


def calibration_report(model: Model, labeled: Beliefs, asked: Beliefs) -> CalibrationReport:
    """How far credence holds on labeled beliefs, and probabilities of answers on true ones; all names known."""
    assert labeled.label is not None
    true = labeled.label == 1
    credence = judge(model, labeled).credence
    plain = np.exp(log_terms(model.pbe, labeled, model.calibration.mention_exponent).mean(axis=1))
    return CalibrationReport(
        before=Reliability.of(plain, true),
        after=Reliability.of(credence, true),
        intervals=intervals(credence, true),
        accuracy=float(((credence >= 0.5) == true).mean()),
        answers=answer_reliability(model, asked),
    )


def intervals(credence: Numbers, true: NDArray[np.bool_], seed: int = 0) -> dict[str, tuple[float, float]]:
    """Where ECE, Brier and log loss lie in most resamplings of the beliefs."""
    random = np.random.default_rng([seed, 8])
    found: dict[str, list[float]] = {"ece": [], "brier": [], "nll": []}
    for _ in range(ROUNDS):
        rows = random.integers(0, len(credence), len(credence))
        for name, value in Reliability.of(credence[rows], true[rows]).as_dict().items():
            found[name].append(value)
    ends = [50 * (1 - WIDTH), 50 * (1 + WIDTH)]
    return {
        name: (float(low), float(high)) for name, values in found.items() for low, high in [np.percentile(values, ends)]
    }


@dataclass(frozen=True)
class AnswerReliability:
    """Probabilities of answers before their temperature and after: −log of the truth's, and how far the probability of
    the top answer is from how often it is the truth (ECE)."""

    nll_before: float
    nll: float
    ece_before: float
    ece: float
    temperature: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


@torch.no_grad()
def answer_reliability(model: Model, beliefs: Beliefs) -> dict[str, AnswerReliability]:
    """By kind of question, as far as the system answers it and it is asked: on the first beliefs, answers that train
    and valid know left aside."""
    beliefs = beliefs.take(np.arange(min(len(beliefs), MOST_ASKED)))
    able = answers(model.settings, words=model.pbe.mention is not None)
    found = {}
    for kind, temperature in asdict(model.calibration.temperatures).items():
        if ("relation" if kind.startswith("relation") else "entity") in able:
            found[kind] = _answers(
                model,
                held_out_queries(model.pbe, beliefs, model.known, kind, model.calibration.mention_exponent),
                temperature,
            )
    return {kind: one for kind, one in found.items() if one is not None}


def _answers(model: Model, questions: HeldOutQueries, temperature: float) -> AnswerReliability | None:
    truth = questions.truth
    parts: list[list[Numbers]] = [[], []]
    for block in model.pbe.blocks(len(truth)):
        rows = torch.from_numpy(block)
        table = questions.log_probabilities(rows)
        for part, heat in zip(parts, (1.0, temperature), strict=True):
            shares = (table / heat).log_softmax(1)
            top, place = shares.max(1)
            own = shares.gather(1, truth[rows][:, None]).squeeze(1)
            part.append(torch.stack([own, top.exp(), (place == truth[rows]).float()]).double().numpy())
    if not parts[0]:
        return None
    (own, top, right), (own_after, top_after, right_after) = (np.concatenate(part, axis=1) for part in parts)
    return AnswerReliability(
        nll_before=float(-own.mean()),
        nll=float(-own_after.mean()),
        ece_before=Reliability.of(top, right > 0).ece,
        ece=Reliability.of(top_after, right_after > 0).ece,
        temperature=temperature,
    )
