"""Search for the settings that suit a dataset, judged on validation beliefs alone.

Each trial trains with settings drawn from the space of its system and is given up early when it falls behind the
others at the same point of its training; the first have the system's own values, each other choice once among them. The
study is a file: a search that was stopped goes on where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doxa.config import Settings
from doxa.data.atomic import written
from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError
from doxa.scores import SCORES
from doxa.systems import recipe
from doxa.training.fit import learn
from doxa.training.loop import Progress

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

STUDY = "study.log"
BEST = "best.toml"
STAGES = 10
"""Points of a training at which a trial is compared with the others."""

LEAST_TRIALS = 4
"""Finished trials before one is given up for falling behind."""


@dataclass(frozen=True)
class Range:
    """A number between two, drawn evenly on the scale of its logarithm."""

    low: float
    high: float

    def holds(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    def drawn(self, trial: Trial, name: str) -> float:
        return float(f"{trial.suggest_float(name, self.low, self.high, log=True):.3g}")


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    of: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        return value in self.of

    def drawn(self, trial: Trial, name: str) -> Any:
        return trial.suggest_categorical(name, self.of)


Knobs = Mapping[str, Range | Choice]


def space(settings: Settings, words: bool) -> Knobs:
    """The knobs of a system that are worth turning, and how far; `words` says whether there are mentions."""
    knobs: dict[str, Range | Choice] = {"learning_rate": Range(0.02, 0.5)}
    if settings.training_estimator != "exact":
        knobs["candidates"] = Choice((0, 128, 64))
    if words and settings.mentions and settings.mention_weight:
        knobs["mention_weight"] = Range(0.1, 2.0)
    if settings.objective == "margin":
        return knobs | {
            "margin": Range(0.05, 3.0),
            "corruption": Choice(("uniform", "bernoulli")),
            "filter_negatives": Choice((False, True)),
        }
    if settings.relation_weight:
        knobs["relation_weight"] = Range(0.1, 2.0)
    if settings.objective == "likelihood":
        knobs["crowd"] = Choice((0, 16))
    if settings.score in ("distmult", "complex"):
        return knobs | {"n3": Range(1e-5, 0.03)}
    if settings.score in ("translation", "weighted_translation", "hyperplane", "unstructured"):
        return knobs | {"scale": Range(2.0, 30.0), "entity_norm": Choice(("unit", "free"))}
    return knobs | {"l2": Range(1e-6, 0.01)}


@dataclass(frozen=True)
class Tried:
    """One trial: the values it drew, the validation quality it reached (None while unknown), and how it ended."""

    number: int
    values: dict[str, Any]
    quality: float | None
    state: str
    seconds: float


@dataclass(frozen=True)
class Tuning:
    """What a search found: the best settings (those given and those found), all trials, and what mattered.

    `mattered` is the share each knob has in the differences of quality between trials; empty with too few of them.
    """

    best: dict[str, Any]
    quality: float
    trials: tuple[Tried, ...]
    mattered: dict[str, float]


def tune(
    train: Beliefs,
    valid: Beliefs | None,
    folder: Path,
    *,
    given: Mapping[str, Any],
    seconds: float,
    trials: int = 0,
    on_error: str = "raise",
    report: Callable[[Tried, float, Progress | None], None] | None = None,
) -> Tuning:
    """Search for about that many seconds, or that many trials; the study and the best settings are kept in a folder.

    `given` are settings that every trial has; knobs named there are not turned. Without an epoch count or time budget
    among them, a trial trains for a twentieth of the time. `report` is told of each trial, of the best quality so far
    and of the progress of the training under way.
    """
    import optuna
    from optuna.storages.journal import JournalFileBackend

    base = dict(given)
    if "time_budget" not in base and "epochs" not in base:
        base["time_budget"] = max(5.0, round(seconds / 20))
    words = bool(len(train.mention.values))
    knobs = {name: knob for name, knob in space(recipe(base), words).items() if name not in given}
    if not knobs:
        raise UsageError("every knob of this system was given a value: there is nothing to search for")
    folder.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    backend = JournalFileBackend(str(folder / STUDY))
    study = optuna.create_study(
        storage=optuna.storages.JournalStorage(backend),
        study_name="doxa",
        load_if_exists=True,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=int(base.get("seed", 0)), n_startup_trials=LEAST_TRIALS),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=LEAST_TRIALS, n_warmup_steps=2),
    )
    _same_search(study, base, train, valid)
    if not study.trials:
        for first in _first_ones(recipe(base), knobs):
            study.enqueue_trial(first)

    def attempt(trial: Trial) -> float:
        values = {name: knob.drawn(trial, name) for name, knob in knobs.items()}
        trial.set_user_attr("values", values)
        stages = set()

        def watch(now: Progress) -> None:
            if report is not None:
                report(Tried(trial.number, values, now.quality, "running", now.seconds), _best(study), now)
            stage = int(now.fraction * STAGES)
            if now.quality is None or stage in stages:
                return
            stages.add(stage)
            trial.report(now.quality, stage)
            if trial.should_prune():
                raise optuna.TrialPruned

        with _quiet():
            found = learn(train, valid, settings=recipe(base | values), on_error=on_error, report=watch)
        if found.interrupted:
            study.stop()
        return max(point.quality for point in found.memory.curve if point.quality is not None)

    def done(study: Study, trial: FrozenTrial) -> None:
        if report is not None:
            report(_tried(trial), _best(study), None)

    study.optimize(attempt, timeout=seconds or None, n_trials=trials or None, callbacks=[done])
    found = _found(study, base)
    with written(folder / BEST) as unfinished:
        unfinished.write_text(as_toml(found), encoding="utf-8")
    return found


def _first_ones(settings: Settings, knobs: Knobs) -> Iterator[dict[str, Any]]:
    """The system's own values, as far as they are within the space, and each other choice beside them."""
    own = {name: getattr(settings, name) for name in knobs}
    if "scale" in own:
        own["scale"] = settings.scale or SCORES[settings.score].default_scale
    own = {name: value for name, value in own.items() if knobs[name].holds(value)}
    yield own
    for name, knob in knobs.items():
        if isinstance(knob, Choice):
            for value in knob.of:
                if value != own.get(name):
                    yield own | {name: value}


def _same_search(study: Study, base: Mapping[str, Any], train: Beliefs, valid: Beliefs | None) -> None:
    """Refuse to go on with a search that was about something else."""
    about = {"given": dict(base), "beliefs": train.checksum() + ("" if valid is None else valid.checksum())}
    if study.user_attrs and study.user_attrs != about:
        changed = "settings" if study.user_attrs["beliefs"] == about["beliefs"] else "beliefs"
        raise UsageError(f"the search in this folder was made with other {changed}", "choose another --out")
    for name, value in about.items():
        study.set_user_attr(name, value)


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings about validation are the same in every trial."""
    log = logging.getLogger("doxa")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _best(study: Study) -> float:
    qualities = [trial.value for trial in study.trials if trial.value is not None and trial.state.name == "COMPLETE"]
    return max(qualities, default=float("nan"))


def _tried(trial: FrozenTrial) -> Tried:
    states = {"COMPLETE": "finished", "PRUNED": "given up", "FAIL": "failed"}
    took = trial.duration.total_seconds() if trial.duration else 0.0
    reached = trial.value if trial.state.name == "COMPLETE" else max(trial.intermediate_values.values(), default=None)
    return Tried(
        trial.number, trial.user_attrs.get("values", {}), reached, states.get(trial.state.name, "running"), took
    )


def _found(study: Study, base: dict[str, Any]) -> Tuning:
    import optuna

    finished = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    if not finished:
        raise UsageError("no trial was finished in this time", "give it more with --seconds, or trials fewer epochs")
    best = study.best_trial
    mattered: dict[str, float] = {}
    if len(finished) > LEAST_TRIALS and len({trial.value for trial in finished}) > 1:
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        mattered = optuna.importance.get_param_importances(study, evaluator=evaluator)
    tried = tuple(_tried(trial) for trial in study.trials if trial.state.name != "WAITING")
    return Tuning(base | best.user_attrs["values"], float(best.value or 0), tried, mattered)


def as_toml(found: Tuning) -> str:
    """The best settings as a file `doxa train --settings` reads."""
    finished = sum(one.state == "finished" for one in found.trials)
    lines = [f"# validation quality {found.quality:.4f}: best of {len(found.trials)} trials, {finished} finished",
             "[settings]"]  # fmt: skip
    return "\n".join([*lines, *(f"{name} = {_literal(value)}" for name, value in found.best.items())]) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)
