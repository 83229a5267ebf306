"""Studies: the settings of every system on every dataset, chosen by `doxa tune` on validation beliefs alone.

Every system has the same processor time on a dataset, and trials of the same number of epochs. A study writes its
trials as JSON and the settings of its experiment as TOML, which `doxa reproduce` runs with several seeds. A test file
is never opened.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from doxa.data.atomic import written
from doxa.data.beliefs import Beliefs
from doxa.errors import BadFile, UsageError, did_you_mean
from doxa.formats import blocks
from doxa.lab.experiments import FOLDER, about
from doxa.systems import SYSTEMS
from doxa.training.tuning import Choice, SearchSpace, TrialReport, Tuning, literal, seconds_spent, tune

SEEDS = (0, 1, 2)

DIMENSION, MATRIX_DIMENSION = 100, 50
"""Dimension of all systems, and of those with matrices per relation."""

MATRICES = ("se", "slm", "bilinear", "ntn")

COMPARED = ("pbe-paper", "pbe", "transe", "transh", "transm", "jrme")
"""The systems of the paper's tables, in the order in which their studies matter."""

LABELED = (*COMPARED[:-1], "unstructured", *MATRICES)
"""Systems that classify the labeled test set of WN11."""


@dataclass(frozen=True)
class Plan:
    """The studies of a dataset: processor seconds of each, epochs of a trial, and epochs of the experiments afterwards.

    `name` is that of an experiment with `{}` for the system. Without `labels`, those of valid and test are dropped.
    """

    name: str
    data: str
    seconds: float
    trial_epochs: int
    epochs: int
    systems: tuple[str, ...] = COMPARED
    labels: bool = True
    tasks: tuple[str, ...] = ("entity", "relation", "classification")
    fixed: Mapping[str, Any] | None = None


PLANS = (
    Plan("fb15k-{}", "fb15k", 3600, 10, 40),
    Plan("wn11-{}-published", "wn11", 1200, 10, 20, labels=False),
    Plan("nell-{}", "nell", 600, 10, 20),
    Plan("biomed-{}", "biomed", 600, 20, 40),
    Plan("webnlg-{}", "webnlg", 600, 20, 40),
    Plan("wn11-{}", "wn11", 1200, 10, 20, systems=LABELED, tasks=("classification", "calibration"),
         fixed={"stop_on": "accuracy", "validation_sample": 9999}),
)  # fmt: skip
"""In the order in which they matter."""

DERIVED: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"webnlg-pbe-without-{slot}": ("webnlg-pbe", {f"{slot}_weight": 0.0}) for slot in ("head", "relation", "tail")},
    **{f"{data}-pbe-without-mentions": (f"{data}-pbe", {"mentions": False}) for data in ("webnlg", "biomed")},
}
"""Experiments that have the settings of a study but for a few, by name."""


@dataclass(frozen=True)
class Study:
    """The search for the settings of one experiment."""

    name: str
    plan: Plan
    system: str

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings that every trial has."""
        dimension = MATRIX_DIMENSION if self.system in MATRICES else DIMENSION
        values = {"system": self.system} | ({"score": "translation"} if self.system == "pbe" else {})
        return {
            **values, "dimension": dimension, "epochs": self.plan.trial_epochs, "threads": 1, "patience": 0,
            **(self.plan.fixed or {}),
        }  # fmt: skip

    @property
    def more(self) -> SearchSpace:
        """What is searched beside the settings of the system, where the system may have it."""
        allowed = "graph_smoothing" not in SYSTEMS[self.system].fixed
        return {"graph_smoothing": Choice((0, 64))} if allowed else {}

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of the experiment that the system can do."""
        answers = SYSTEMS[self.system].answers
        return tuple(
            task for task in self.plan.tasks if task in answers or (task, self.system) == ("calibration", "pbe")
        )


def every() -> dict[str, Study]:
    """All studies by name, the most important first."""
    studies = [Study(plan.name.format(system), plan, system) for plan in PLANS for system in plan.systems]
    return {study.name: study for study in studies}


def named(name: str) -> Study:
    """The study of an experiment."""
    known = every()
    if name not in known:
        raise UsageError(f"no study {name!r}.{did_you_mean(name, known)}", "doxa.lab.studies.every() lists them all")
    return known[name]


def perform(
    study: Study,
    data: Path,
    out: Path,
    seconds: float | None = None,
    experiments: Path = FOLDER,
    report: TrialReport | None = None,
) -> Tuning:
    """Search until so many processor seconds are spent, write OUT/NAME.json and the experiment's TOML.

    The search itself is kept in OUT/journals/NAME: one that was stopped goes on with the time it has left.
    """
    folder = data / study.plan.data
    if not folder.is_dir():
        raise BadFile(f"no dataset folder {folder}", "the data folder must contain one folder per dataset")
    train, valid = (Beliefs.from_frames(blocks(folder / file, "raise", True)) for file in ("train.tsv", "valid.tsv"))
    if not study.plan.labels:
        valid = replace(valid, label=None)
    budget = study.plan.seconds if seconds is None else seconds
    journal = out / "journals" / study.name
    left = max(budget - seconds_spent(journal), 1.0)
    tuning = tune(
        train, valid, journal, seconds=left, more=study.more, report=report, clock=time.process_time, **study.fixed
    )
    values = {
        "study": study.name, "doxa": about(), "budget_processor_seconds": budget,
        "processor_seconds": round(seconds_spent(journal), 1), "fixed": study.fixed, **tuning.as_dict(),
    }  # fmt: skip
    with written(out / f"{study.name}.json") as unfinished:
        unfinished.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_experiments(study, tuning.best, experiments)
    return tuning


def chosen(experiment: str, settings: Mapping[str, Any], folder: Path) -> bool:
    """Whether these settings of an experiment are those that its study, or that of its origin, in the folder chose."""
    origin = DERIVED.get(experiment, (experiment, {}))[0]
    path = folder / f"{origin}.json"
    if origin not in every() or not path.exists():
        return False
    best = json.loads(path.read_text(encoding="utf-8"))["best"]
    return bool(_settings(named(origin), best)[experiment] == settings)


def _settings(study: Study, best: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of the experiment of a study and of those derived from it, by name."""
    settings = {**best, "epochs": study.plan.epochs}
    variants = {study.name: settings} | {
        name: settings | changes for name, (origin, changes) in DERIVED.items() if origin == study.name
    }
    return {
        name: values
        if values.get("mentions", True)
        else {key: value for key, value in values.items() if not key.startswith("mention_")}
        for name, values in variants.items()
    }


def write_experiments(study: Study, best: Mapping[str, Any], folder: Path) -> None:
    """Write the experiment with the best settings, and those derived from it."""
    for name, values in _settings(study, best).items():
        lines = [
            f"# written by the study {study.name}",
            f"data = {literal(study.plan.data)}",
            f"tasks = [{', '.join(map(literal, study.tasks))}]",
            *([] if study.plan.labels else ["labels = false"]),
            f"seeds = {list(SEEDS)}",
            "",
            "[settings]",
            *(f"{key} = {literal(value)}" for key, value in values.items()),
        ]
        with written(folder / f"{name}.toml") as unfinished:
            unfinished.write_text("\n".join(lines) + "\n", encoding="utf-8")
