"""Search for the settings that suit a dataset, judged on validation beliefs alone.

Each trial trains with settings drawn from the search space of its system and is pruned when it falls behind the others
at the same point of training. The first trials have the system's defaults, then each other choice once. The study is a
file: a stopped search goes on where it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from doxa.config import Settings, takes_settings
from doxa.data.atomic import written
from doxa.data.beliefs import Beliefs
from doxa.data.results import Result
from doxa.errors import DoxaError, UsageError
from doxa.scores import SCORES
from doxa.systems import recipe, score_options, without_race
from doxa.training.fit import TrainingResult
from doxa.training.fit import train as train_model
from doxa.training.floor import Diverged
from doxa.training.loop import Progress
from doxa.training.study import CUT, LEAST_TRIALS, Interrupted, enqueue, opened, was_interrupted

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

STUDY = "study.log"
BEST = "best.toml"
SECONDS = "seconds"
STAGES = 10
"""Points of a training at which a trial is compared with the others."""

TRIAL_SHARE = 20
"""A trial trains for this part of the time of the search, unless epochs or a time budget are set."""


@dataclass(frozen=True)
class Range:
    """A number between two bounds, drawn evenly on a logarithmic scale."""

    low: float
    high: float

    def contains(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    def draw(self, trial: Trial, name: str) -> float:
        return float(f"{trial.suggest_float(name, self.low, self.high, log=True):.3g}")


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]

    def contains(self, value: Any) -> bool:
        return value in self.values

    def draw(self, trial: Trial, name: str) -> Any:
        return trial.suggest_categorical(name, self.values)


SearchSpace = Mapping[str, Range | Choice]


def search_space(settings: Settings, words: bool) -> SearchSpace:
    """The settings of a system that are worth varying, and how far; `words` says whether there are mentions."""
    settings = without_race(settings)
    if settings.system == "pbe-paper":
        return {"learning_rate": Range(0.05, 2.0), "negative_weight": Choice((10, 5, 20)), "alpha": Range(1.0, 16.0)}
    space: dict[str, Range | Choice] = {"learning_rate": Range(0.02, 0.5)}
    if settings.training_estimator != "exact":
        space["num_candidates"] = Choice((0, 128, 64))
    if words and settings.mentions and settings.mention_weight:
        space["mention_weight"] = Range(0.1, 2.0)
    if settings.objective == "margin":
        return space | {
            "margin": Range(0.05, 3.0),
            "corruption": Choice(("uniform", "bernoulli")),
            "filter_negatives": Choice((False, True)),
        }
    if settings.relation_weight:
        space["relation_weight"] = Range(0.1, 2.0)
    if settings.objective == "likelihood":
        space["max_answers"] = Choice((0, 16))
    if settings.score in ("distmult", "complex"):
        return space | {"n3": Range(1e-4, 0.3)}
    if settings.score in ("translation", "weighted_translation", "hyperplane", "unstructured"):
        return space | {"scale": Range(2.0, 30.0), "entity_norm": Choice(("unit", "free"))}
    return space | {"l2": Range(1e-6, 0.01)}


@dataclass(frozen=True)
class TrialRecord:
    """One trial: the values it drew, the validation metric it reached (None while unknown), and how it ended."""

    number: int
    values: dict[str, Any]
    metric: float | None
    state: str
    seconds: float


@dataclass(frozen=True)
class Tuning(Result):
    """The result of a search: the best settings (fixed and searched), all trials, and what mattered.

    `importance` is the share of each setting in the differences of the metric between trials; empty for few trials.
    `interrupted` says that Ctrl-C ended the search; the trial under way does not count.
    """

    best: dict[str, Any]
    metric: float
    trials: tuple[TrialRecord, ...]
    importance: dict[str, float]
    interrupted: bool = False

    def to_frame(self) -> pl.DataFrame:
        """One row per trial: number, state, metric, seconds, and the values it drew."""
        columns = list(dict.fromkeys(name for trial in self.trials for name in trial.values))
        rows = [
            {"trial": trial.number, "state": trial.state, "metric": trial.metric, "seconds": trial.seconds}
            | {name: trial.values.get(name) for name in columns}
            for trial in self.trials
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        return f"Tuning(best metric {self.metric:.4f} of {len(self.trials)} trials)"


TrialReport = Callable[[TrialRecord, float, Progress | None], None]
"""Receives a trial, the best metric so far, and the progress of the training under way, None when it has ended."""


@takes_settings
def tune(
    train: Any,
    valid: Any = None,
    folder: str | Path = "study",
    *,
    seconds: float = 600.0,
    trials: int = 0,
    strict: bool = False,
    more: SearchSpace | None = None,
    report: TrialReport | None = None,
    clock: Callable[[], float] = time.monotonic,
    **settings: Any,
) -> Tuning:
    """Search for about that many seconds, or that many trials; the study and the best settings are kept in `folder`.

    Keyword arguments are settings that every trial has; they are not searched. Without a score among them, the score
    complex is tuned, or translation where confidence is fitted. Without an epoch count or time budget among them, a
    trial trains for a twentieth of the time. Validation beliefs with names that training never sees are counted and
    not ranked; with `strict` they are an error. `more` settings are searched beside those of the system. `clock` tells
    the seconds: time.process_time counts those of one processor, whatever else the machine does.
    """
    import optuna

    train, valid, folder = Beliefs.of(train), None if valid is None else Beliefs.of(valid), Path(folder)
    base = dict(settings)
    if "time_budget" not in base and "epochs" not in base:
        base["time_budget"] = max(5.0, round(seconds / TRIAL_SHARE))
    base["score"] = without_race(recipe(base)).score
    space = {**_free_space(recipe(base), train, settings), **(more or {})}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with opened(folder / STUDY, int(base.get("seed", 0))) as study:
        _check_same_search(study, base, train, valid)
        enqueue(study, _first_trials(recipe(base), space))
        started: list[int] = []
        began = clock()

        def attempt(trial: Trial) -> float:
            values = {name: choice.draw(trial, name) for name, choice in space.items()}
            trial.set_user_attr("values", values)
            watch = _watch(study, trial, values, report)
            with _without_warnings() if started else nullcontext(), _timed(trial, clock):
                started.append(trial.number)
                try:
                    result = train_model(train, valid, settings=recipe(base | values), strict=strict, report=watch)
                except Diverged as fault:
                    raise optuna.TrialPruned from fault
            return _metric(study, trial, result)

        def ended(study: Study, trial: FrozenTrial) -> None:
            if report is not None:
                report(_record(trial), _best(study), None)
            if seconds and clock() - began >= seconds:
                study.stop()

        study.optimize(attempt, trials or None, callbacks=[ended], catch=(Interrupted,))
        tuning = _tuning(study, base)
        with written(folder / BEST) as unfinished:
            unfinished.write_text(as_toml(tuning), encoding="utf-8")
        return tuning


def _metric(study: Study, trial: Trial, result: TrainingResult) -> float:
    """The validation metric of a trial; one that was interrupted ends the search and does not count."""
    if result.interrupted:
        study.stop()
        trial.set_user_attr(CUT, True)
        raise Interrupted
    assert result.state.best_metric is not None  # a search has validation beliefs
    return result.state.best_metric


def seconds_spent(folder: Path) -> float:
    """The seconds of all trials of the search in a folder; 0 if there is none."""
    if not (folder / STUDY).exists():
        return 0.0
    with opened(folder / STUDY, 0) as study:
        return sum(_seconds(trial) for trial in study.trials)


def _free_space(settings: Settings, train: Beliefs, fixed: Collection[str]) -> SearchSpace:
    """The search space without the fixed settings, and without the weights of terms that have nothing to learn."""
    fixed = {*fixed, "relation_weight", "mention_weight"} if len(np.unique(train.relation)) == 1 else fixed
    whole = search_space(settings, bool(len(train.mention.values)))
    space = {name: values for name, values in whole.items() if name not in fixed}
    if not space:
        raise UsageError("every setting that could be searched has a value: there is nothing to search for")
    return space


def _watch(
    study: Study, trial: Trial, values: dict[str, Any], report: TrialReport | None
) -> Callable[[Progress], None]:
    """A progress callback that reports a trial and prunes it when it falls behind."""
    import optuna

    stages = set()

    def watch(now: Progress) -> None:
        if report is not None:
            report(TrialRecord(trial.number, values, now.metric, "running", now.seconds), _best(study), now)
        stage = int(now.fraction * STAGES)
        if now.metric is None or stage in stages:
            return
        stages.add(stage)
        trial.report(now.metric, stage)
        if trial.should_prune():
            raise optuna.TrialPruned

    return watch


def _first_trials(settings: Settings, space: SearchSpace) -> Iterator[dict[str, Any]]:
    """The system's defaults, as far as they are within the space, and each other choice beside them."""
    values = asdict(score_options(settings)) | settings.as_dict()
    defaults = {name: values[name] for name in space}
    if "scale" in defaults:
        defaults["scale"] = settings.scale or SCORES[settings.score].default_scale
    defaults = {name: value for name, value in defaults.items() if space[name].contains(value)}
    yield defaults
    for name, choice in space.items():
        if isinstance(choice, Choice):
            for value in choice.values:
                if value != defaults.get(name):
                    yield defaults | {name: value}


def _check_same_search(study: Study, base: Mapping[str, Any], train: Beliefs, valid: Beliefs | None) -> None:
    """Refuse to go on with a search that was about other settings or other beliefs."""
    about = {"given": dict(base), "beliefs": train.checksum() + ("" if valid is None else valid.checksum())}
    if study.user_attrs and study.user_attrs != about:
        changed = "settings" if study.user_attrs["beliefs"] == about["beliefs"] else "beliefs"
        raise UsageError(f"the search in this folder was made with other {changed}", "choose another folder")
    for name, value in about.items():
        study.set_user_attr(name, value)


@contextmanager
def _timed(trial: Trial, clock: Callable[[], float]) -> Iterator[None]:
    """Note the seconds of a trial, however it ends."""
    began = clock()
    try:
        yield
    finally:
        trial.set_user_attr(SECONDS, clock() - began)


def _seconds(trial: FrozenTrial) -> float:
    """The seconds of a trial as noted; by the calendar in a search of an earlier version."""
    by_calendar = trial.duration.total_seconds() if trial.duration else 0.0
    return float(trial.user_attrs.get(SECONDS, by_calendar))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Warnings about the data are the same in every trial: only the first one shows them."""
    log = logging.getLogger("doxa")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _best(study: Study) -> float:
    metrics = [trial.value for trial in study.trials if trial.value is not None and trial.state.name == "COMPLETE"]
    return max(metrics, default=float("nan"))


def _record(trial: FrozenTrial) -> TrialRecord:
    states = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}
    metric = trial.value if trial.state.name == "COMPLETE" else max(trial.intermediate_values.values(), default=None)
    state = states.get(trial.state.name, "running")
    return TrialRecord(trial.number, trial.user_attrs.get("values", {}), metric, state, _seconds(trial))


def _tuning(study: Study, base: dict[str, Any]) -> Tuning:
    import optuna

    finished = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    if not finished and was_interrupted(study):
        raise KeyboardInterrupt
    if not finished:
        raise DoxaError("no trial was finished in this time", "allow more seconds, or fewer epochs per trial")
    best = study.best_trial
    importance: dict[str, float] = {}
    if len(finished) > LEAST_TRIALS and len({trial.value for trial in finished}) > 1:
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        importance = optuna.importance.get_param_importances(study, evaluator=evaluator)
    records = tuple(_record(trial) for trial in study.trials if trial.state.name != "WAITING")
    values = base | best.user_attrs["values"]
    return Tuning(values, float(best.value or 0), records, importance, was_interrupted(study))


def as_toml(tuning: Tuning) -> str:
    """The best settings as a file that `doxa train --settings` reads."""
    finished = sum(trial.state == "finished" for trial in tuning.trials)
    comment = f"# validation metric {tuning.metric:.4f}: best of {len(tuning.trials)} trials, {finished} finished"
    lines = [comment, "[settings]", *(f"{name} = {literal(value)}" for name, value in tuning.best.items())]
    return "\n".join(lines) + "\n"


def literal(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)
