"""Calibration task: how far probabilities agree with frequencies (ECE, Brier score, log loss)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from doxa.calibration.queries import Queries, held_out_queries
from doxa.calibration.rules import log_terms
from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Ids
from doxa.inference.judgment import judge
from doxa.inference.rows import Here, RowRunner
from doxa.model import Model
from doxa.pbe import log_credence, renormalized
from doxa.systems import answers

BINS = 15

MAX_QUERIES = 5000
"""Beliefs turned into queries to measure answer probabilities, at most."""

ROUNDS = 200
"""Bootstrap samples behind an interval, and sets of labels behind the expected ECE."""

WIDTH = 0.95
"""Coverage of the intervals."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability diagram with bins of equal size: mean credence, share of true beliefs and count of each bin.

    `ece` is the mean gap between the first two, weighted by count; `brier` the mean squared error; `nll` the log loss.
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
        means = np.array([credence[part].mean() for part in parts])
        shares = np.array([true[part].mean() for part in parts])
        clipped = np.clip(credence, 1e-12, 1 - 1e-12)
        return cls(
            credence=means,
            truth=shares,
            count=count,
            ece=float((np.abs(means - shares) * count).sum() / count.sum()),
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
    """Reliability of credence before calibration (Eq. 1 itself) and after it, and of answer probabilities.

    `ece_floor` is the ECE to expect of a perfectly calibrated model with the same credences on as many beliefs.
    `intervals` are bootstrap intervals of the figures after calibration. `accuracy` is that of the verdict "true from
    credence ½ on". `calibrated` says whether the model has a curve at all.
    """

    before: Reliability
    after: Reliability
    intervals: dict[str, tuple[float, float]]
    accuracy: float
    answers: dict[str, AnswerReliability]
    ece_floor: float = 0.0
    calibrated: bool = True

    def as_dict(self) -> dict[str, Any]:
        return (
            self.after.as_dict()
            | {"ece_floor": self.ece_floor, "before": self.before.as_dict(), "accuracy": self.accuracy}
            | {"calibrated": self.calibrated}
            | {"intervals": {name: list(ends) for name, ends in self.intervals.items()}}
            | {"answers": {kind: answer.as_dict() for kind, answer in self.answers.items()}}
            | {"bins": self.after.bins}
        )


def calibration_report(
    model: Model, labeled: Beliefs, asked: Beliefs, memory: int = 0, runner: RowRunner | None = None
) -> CalibrationReport:
    """Reliability of credence on labeled beliefs and of answers on the beliefs `asked`; all with known names."""
    assert labeled.label is not None
    true = labeled.label == 1
    credence = judge(model, labeled, memory, runner=runner).credence
    plain = (runner or Here(model)).run(plain_rows, len(labeled), labeled.take, memory)["credence"].to_numpy()
    return CalibrationReport(
        before=Reliability.of(plain, true),
        after=Reliability.of(credence, true),
        intervals=intervals(credence, true),
        accuracy=float(((credence >= 0.5) == true).mean()),
        answers=answer_reliability(model, asked, memory),
        ece_floor=ece_floor(credence, np.unique(labeled.triples, axis=0, return_inverse=True)[1].reshape(-1)),
        calibrated=model.calibration.curve.kind != "none",
    )


def plain_rows(model: Model, beliefs: Beliefs, memory: int) -> pl.DataFrame:
    """Credence before calibration (Eq. 1 itself)."""
    terms = log_terms(model.pbe, beliefs, model.calibration.mention_exponent, memory)
    return pl.DataFrame({"credence": np.exp(log_credence(terms))})


def ece_floor(credence: Numbers, group: Ids | None = None, seed: int = 0, bins: int = BINS) -> float:
    """The mean ECE of labels drawn from the credences themselves: chance alone, without any error of calibration.

    Beliefs of one `group`, the mentions of one triple, are true or false together.
    """
    random = np.random.default_rng([seed, 16])
    order = np.argsort(credence, kind="stable")
    credence, group = credence[order], order if group is None else group[order]
    sizes = [len(part) for part in np.array_split(order, bins) if len(part)]
    starts = np.cumsum([0, *sizes[:-1]])
    total = 0.0
    for _ in range(ROUNDS):
        labels = random.random(int(group.max()) + 1)[group] < credence
        total += float(np.abs(np.add.reduceat(labels - credence, starts)).sum())
    return total / ROUNDS / len(credence)


def reliability_of_share(labeled: Beliefs) -> Reliability:
    """Reliability of always answering the share of true beliefs: a single bin, in which credence and truth agree."""
    assert labeled.label is not None
    true = labeled.label == 1
    return Reliability.of(np.full(len(true), true.mean()), true, bins=1)


def intervals(credence: Numbers, true: NDArray[np.bool_], seed: int = 0) -> dict[str, tuple[float, float]]:
    """Bootstrap intervals of ECE, Brier score and log loss, of coverage WIDTH.

    A drawn sample has gaps of its own, which raise its ECE. Samples are shifted by their mean excess, so that the
    interval is about the figure.
    """
    random = np.random.default_rng([seed, 8])
    samples: dict[str, list[float]] = {"ece": [], "brier": [], "nll": []}
    for _ in range(ROUNDS):
        rows = random.integers(0, len(credence), len(credence))
        for name, value in Reliability.of(credence[rows], true[rows]).as_dict().items():
            samples[name].append(value)
    excess = float(np.mean(samples["ece"])) - Reliability.of(credence, true).ece
    samples["ece"] = [max(0.0, value - excess) for value in samples["ece"]]
    ends = [50 * (1 - WIDTH), 50 * (1 + WIDTH)]
    return {
        name: (float(low), float(high))
        for name, values in samples.items()
        for low, high in [np.percentile(values, ends)]
    }


@dataclass(frozen=True)
class AnswerReliability:
    """Answer probabilities before the temperature and after it: −log Pr(right answer), and the gap between the
    probability of the top answer and its accuracy (ECE)."""

    nll_before: float
    nll: float
    ece_before: float
    ece: float
    temperature: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


@torch.no_grad()
def answer_reliability(model: Model, beliefs: Beliefs, memory: int = 0) -> dict[str, AnswerReliability]:
    """Reliability by kind of query, as far as the system answers it, on the first beliefs; the facts of train and
    valid are left out of the candidates."""
    beliefs = beliefs.take(np.arange(min(len(beliefs), MAX_QUERIES)))
    able = answers(model.settings, words=model.pbe.mention is not None)
    reports = {}
    for kind, temperature in asdict(model.calibration.temperatures).items():
        if ("relation" if kind.startswith("relation") else "entity") in able:
            queries = held_out_queries(model.pbe, beliefs, model.known, kind, model.calibration.mention_exponent)
            if len(queries):
                reports[kind] = _reliability(queries, temperature, memory)
    return reports


def _reliability(queries: Queries, temperature: float, memory: int) -> AnswerReliability:
    """The figures of one kind of query at temperature 1 and at its temperature."""
    parts: list[list[Numbers]] = [[], []]
    for rows in queries.pbe.blocks(len(queries), memory=memory):
        table, truth = queries.log_probabilities(rows)
        for part, value in zip(parts, (1.0, temperature), strict=True):
            logs = renormalized(table, value)
            top, place = logs.max(1)
            right = logs.gather(1, truth[:, None]).squeeze(1)
            part.append(torch.stack([right, top.exp(), (place == truth).float()]).double().numpy())
    before, after = (np.concatenate(part, axis=1) for part in parts)
    return AnswerReliability(
        nll_before=float(-before[0].mean()),
        nll=float(-after[0].mean()),
        ece_before=Reliability.of(before[1], before[2] > 0).ece,
        ece=Reliability.of(after[1], after[2] > 0).ece,
        temperature=temperature,
    )
