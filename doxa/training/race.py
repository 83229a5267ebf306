"""The race: the score and its settings are chosen on validation beliefs, by successive halving.

Every member of the portfolio trains from scratch for a few steps, with a learning rate that falls to zero in just these
steps. The better half trains again for twice the steps, until one is left. Settings that were named hold for every
member. On large graphs, members train on a dense core (`doxa.data.core`). `doxa.training.rungs` plans the steps.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.errors import DoxaError
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.systems import AUTO, build, combined, without_race
from doxa.training.executors.single import SingleProcess
from doxa.training.loop import REPORT_SECONDS, Progress
from doxa.training.plan import BATCH_SIZE
from doxa.training.query_steps import steps_of
from doxa.training.rungs import (
    SHARE,
    Plan,
    RaceData,
    Sizes,
    planned,
    race_data,
    step_work,
    training_work,
    validation_work,
)
from doxa.training.validation import accuracy

log = logging.getLogger(__name__)

PRODUCTS = {"dimension": 400, "learning_rate": 0.4, "sampling_correction": True}
"""Settings that suit scores which are products: they bear large steps and many dimensions."""

PORTFOLIO: tuple[dict[str, Any], ...] = (
    {"score": "complex", "n3": 0.03, **PRODUCTS},
    {"score": "translation", "dimension": 400},
    {"score": "complex", "n3": 0.1, **PRODUCTS},
    {"score": "rotate", "dimension": 400},
    {"score": "complex", "n3": 0.01, **PRODUCTS},
    {"score": "complex", "n3": 0.2, **PRODUCTS},
    {"score": "distmult", "n3": 0.1, **PRODUCTS},
    {"score": "complex", "n3": 0.003, **PRODUCTS},
)
"""The members: each is a choice of settings, of those that matter most. All other settings are those of the run.

The most promising come first: beside a short training only the first of them race.
"""

KNOBS = tuple(dict.fromkeys(["score", "n3", *(name for values in PORTFOLIO for name in values)]))
"""The settings that members differ in."""

TELLING = ("n3",)
"""The settings that a member is called by, besides its score."""

FEWEST_POSITIVES = 20
"""True validation beliefs with seen names that a race needs; fewer could not tell members apart."""

TOLERANCE = 0.01
"""Members whose figure is this close to the best count as equal, and the next figure decides."""

TIMED_STEPS = 5
"""Steps that are timed to plan a race within a time budget."""

FAILED = -1.0
"""The figures of a member whose loss became infinite."""


@dataclass(frozen=True)
class Attempt:
    """One member in one rung: what it trained with and what it reached on validation beliefs."""

    rung: int
    member: str
    settings: dict[str, Any]
    steps: int
    entity_mrr: float
    relation_mrr: float
    accuracy: float


@dataclass(frozen=True)
class Race:
    """The result of a race: the settings of the winner, every attempt, and the share of the whole work."""

    settings: Settings
    winner: str
    beliefs: int
    validation_beliefs: int
    share_of_work: float
    by_clock: bool
    seconds: float
    attempts: tuple[Attempt, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the model folder."""
        named = ("winner", "beliefs", "validation_beliefs", "share_of_work", "by_clock", "seconds")
        return {name: getattr(self, name) for name in named} | {"rungs": [asdict(one) for one in self.attempts]}


Report = Callable[[Progress], None]
Finish = Callable[[Settings], Settings]
"""Puts the automatic values of a run into settings."""


def members(settings: Settings) -> dict[str, Settings]:
    """The members that go with the settings that were named, by name; equal ones are merged."""
    distinct: dict[str, Settings] = {}
    for values in PORTFOLIO:
        together = combined(settings, values)
        if together is None:
            continue
        shown = {name: value for name, value in values.items() if getattr(together, name) == value}
        if together not in distinct.values():
            distinct[name_of(shown)] = together
    return distinct


def name_of(values: dict[str, Any]) -> str:
    """`complex n3=0.03`: the score of a member and the settings that tell it from others."""
    return " ".join([values["score"], *(f"{name}={values[name]:g}" for name in TELLING if name in values)])


def chosen(
    settings: Settings, finish: Finish, train: Beliefs, valid: Beliefs | None, report: Report | None = None
) -> tuple[Settings, Race | None]:
    """The settings of a run with the score that a race chose, and the race; None where no race was run.

    `finish` puts automatic values into settings: the work of a training depends on them.
    """
    if settings.score != AUTO:
        return settings, None
    reason = _why_not(settings, valid)
    if not reason:
        assert valid is not None
        result = _race(members(settings), finish, train, valid, report)
        if result is not None:
            return result.settings, result
        reason = "the training is too short for a race beside it"
    fixed = without_race(settings)
    regularization = f", n3 {fixed.n3:g}" if fixed.n3 else ""
    log.warning("score %s%s: %s", fixed.score, regularization, reason)
    return fixed, None


def resumed(settings: Settings, saved: Settings) -> Settings:
    """The settings of a run that is resumed: what its race chose is taken from the checkpoint."""
    if settings.score != AUTO:
        return settings
    free = {name: getattr(saved, name) for name in KNOBS if name == "score" or not settings.is_named(name)}
    return settings.changed(**free)


def _why_not(settings: Settings, valid: Beliefs | None) -> str:
    """Why there is no race; empty when there is one."""
    if settings.objective != "likelihood" or settings.training_estimator not in ("sampled", "exact"):
        return "scores are compared only for the likelihood with a softmax"
    if len(members(settings)) < 2:
        return "only one score goes with the other settings"
    positives = 0 if valid is None else len(valid.positives())
    if positives < FEWEST_POSITIVES:
        return f"{positives} validation beliefs are too few to compare scores; {FEWEST_POSITIVES} would do"
    return ""


def _race(
    racers: dict[str, Settings], finish: Finish, train: Beliefs, valid: Beliefs, report: Report | None
) -> Race | None:
    """Plan and run a race; None where the training is too short."""
    began = time.monotonic()
    finished = {name: _small_steps(one, finish(one.changed(workers=1, partitions=0))) for name, one in racers.items()}
    first = next(iter(finished.values()))
    sizes = Sizes(len(train), len(train.vocabularies.entities), len(train.vocabularies.relations))
    pace = _seconds_per_step(first, train) if first.time_budget else 0.0
    plan = planned(list(finished.values()), sizes, len(valid.positives()), pace)
    if plan is None:
        return None
    finished = dict(list(finished.items())[: plan.members])
    data = race_data(train, valid, plan, first.seed)
    track = _Track(plan, began, report, first.time_budget * SHARE)
    winner, attempts = _halve(finished, plan, data, track, mostly_mentions(train, first))
    track.metric = next(one.entity_mrr for one in reversed(attempts) if one.member == winner)
    track.finish(f"race: {winner} is best")
    work = sum(
        one.steps * step_work(finished[one.member], data.sizes)
        + validation_work(finished[one.member], data.sizes, len(data.valid))
        for one in attempts
    )
    seconds = time.monotonic() - began
    share = work / (work + training_work(finished[winner], sizes))
    return Race(
        settings=racers[winner],
        winner=winner,
        beliefs=len(data.train),
        validation_beliefs=len(data.valid),
        share_of_work=round(seconds / first.time_budget if first.time_budget else share, 4),
        by_clock=bool(first.time_budget),
        seconds=round(seconds, 3),
        attempts=tuple(attempts),
    )


def _small_steps(named: Settings, finished: Settings) -> Settings:
    """Automatic batches of a core are those of few beliefs, however many the whole training has."""
    return finished if named.batch_size else finished.changed(batch_size=min(finished.batch_size, BATCH_SIZE))


def mostly_mentions(train: Beliefs, settings: Settings) -> bool:
    """Whether most beliefs have mentions that the model is trained on, so that relations are what is asked for."""
    return settings.mentions and bool((train.mention.lengths > 0).mean() > 0.5)


def _halve(
    racers: dict[str, Settings], plan: Plan, data: RaceData, track: _Track, words_first: bool
) -> tuple[str, list[Attempt]]:
    """The name of the winner and all attempts. When the time is up, the last whole rung decides."""
    attempts: list[Attempt] = []
    left = list(racers)
    for rung, steps in enumerate(plan.steps):
        raced: list[Attempt] = []
        for name in left:
            if track.out_of_time and (raced or attempts):
                break
            raced.append(_attempt(rung, name, racers[name], steps, data, track))
        attempts += raced
        if len(raced) == len(left) or rung == 0:
            left = [one.member for one in ranking(raced, words_first)][: plan.starters(rung + 1)]
    return left[0], attempts


def ranking(attempts: Sequence[Attempt], words_first: bool = False) -> list[Attempt]:
    """The attempts from the best to the worst.

    By entity MRR; among members within TOLERANCE of the best by relation MRR, then by accuracy. Where most beliefs have
    mentions (`words_first`), relation MRR comes before entity MRR. Of members of one score that are equal in all three
    figures, the most regularized comes first: a short run overfits less than the whole training will.
    """
    figures = ["entity_mrr", "relation_mrr", "accuracy"]
    if words_first:
        figures[:2] = figures[1::-1]
    rest, order = list(attempts), []
    while rest:
        close = rest
        for figure in figures:
            best = max(getattr(one, figure) for one in close)
            close = [one for one in close if getattr(one, figure) >= best - TOLERANCE]
        best_one = max(close, key=lambda one: tuple(getattr(one, figure) for figure in reversed(figures)))
        alike = [one for one in close if one.settings["score"] == best_one.settings["score"]]
        order.append(max(alike, key=lambda one: (one.settings["n3"], one is best_one)))
        rest.remove(order[-1])
    return order


class _Track:
    """Progress of a race, and its end by the clock where there is a time budget."""

    def __init__(self, plan: Plan, began: float, report: Report | None, seconds: float) -> None:
        self.began, self.report, self.seconds = began, report, seconds
        self.whole = sum(plan.starters(rung) * steps for rung, steps in enumerate(plan.steps))
        self.rungs, self.done, self.visited, self._reported = len(plan.steps), 0, 0, 0.0
        self.metric: float | None = None

    @property
    def out_of_time(self) -> bool:
        return 0 < self.seconds < time.monotonic() - self.began

    def step(self, beliefs: int, loss: float, stage: str) -> None:
        """Count a step over so many beliefs, and report the state of the race now and then."""
        self.done += 1
        self.visited += beliefs
        if time.monotonic() - self._reported >= REPORT_SECONDS:
            self._tell(self.done / self.whole, loss / beliefs, stage)

    def finish(self, stage: str) -> None:
        """Report the end."""
        self._tell(1.0, math.nan, stage)

    def _tell(self, fraction: float, loss: float, stage: str) -> None:
        self._reported = time.monotonic()
        seconds = self._reported - self.began
        if self.report is not None:
            speed = self.visited / max(seconds, 1e-9)
            self.report(Progress(min(1.0, fraction), 0, loss, self.metric, speed, seconds, stage))


def _attempt(rung: int, name: str, settings: Settings, steps: int, data: RaceData, track: _Track) -> Attempt:
    """Train a member from scratch for so many steps, and evaluate it."""
    pbe = build(data.train, settings)
    figures = {"entity_mrr": FAILED, "relation_mrr": FAILED, "accuracy": FAILED}
    executor = SingleProcess(steps_of(pbe, data.train, settings), max(1, settings.threads))
    stage = f"race {rung + 1}/{track.rungs}: {name}"
    try:
        executor.warm_up()
        before = 0.0
        for progress in executor.run_epoch(range(steps), lambda step: step / steps):
            track.step(settings.batch_size, progress.loss - before, stage)
            before = progress.loss
        figures = _figures(pbe.eval(), settings, data)
    except DoxaError:
        log.info("race: the loss of %s became infinite", name)
    finally:
        executor.close()
    if figures["entity_mrr"] > (track.metric or FAILED):
        track.metric = figures["entity_mrr"]
    log.info("race: rung %d, %s, %d steps: %s", rung + 1, name, steps, figures)
    values = {name: getattr(settings, name) for name in KNOBS}
    return Attempt(rung + 1, name, values, steps, **figures)


def _figures(pbe: PBE, settings: Settings, data: RaceData) -> dict[str, float]:
    """Filtered MRR of entities and relations, and accuracy of triplet classification."""
    positives = data.valid.positives()
    by_slot = {slot: Metrics.of(ranks(pbe, slot, positives, data.known).filtered).mrr for slot in Slot}
    labeled = labeled_beliefs(data.valid, data.known, settings.seed, settings.negatives_from)
    return {
        "entity_mrr": round(float(np.mean([by_slot[slot] for slot in ENTITY_SLOTS])), 5),
        "relation_mrr": round(by_slot[Slot.RELATION], 5),
        "accuracy": round(accuracy(pbe, labeled, settings), 5) if len(labeled) else FAILED,
    }


def _seconds_per_step(settings: Settings, train: Beliefs) -> float:
    """The time of a step on this machine now."""
    steps = steps_of(build(train, settings), train, settings)
    steps.warm_up()
    began = time.monotonic()
    for number in range(TIMED_STEPS):
        steps.take(number, 0.0)
    return max((time.monotonic() - began) / TIMED_STEPS, 1e-6)
