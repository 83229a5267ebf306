"""Experiments: each is a TOML file, and each of its runs writes a JSON result of the same name.

data = "wn11"                  dataset folder
tasks = ["classification"]     what to evaluate
test = "test.tsv"              the file to evaluate on
labels = false                 drop the labels of valid and test: all triples are ranked as if they were true
negatives = "all"              add one corrupted triple of confidence 0 per test belief; its head or tail is replaced by
                               any entity ("all") or by one seen in that slot of the relation ("relation")
seeds = [0, 1, 2]              one run per seed; [0] by default
[settings]                     settings of training
system = "transe"

Every model classifies by each of RULES, fitted to the same validation beliefs: tables compare models by one rule. A
result states which doxa made it; it is outdated if training or the settings of its experiment have changed since.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from doxa import __version__
from doxa.config import migrate
from doxa.data.atomic import written
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import corrupt_triples, stack
from doxa.errors import BadFile, UsageError, did_you_mean
from doxa.evaluation.protocol import ranks
from doxa.evaluation.report import evaluate, relation_report
from doxa.formats import blocks
from doxa.model import Model, fit
from doxa.slots import ENTITY_SLOTS
from doxa.systems import parameters, recipe
from doxa.training import VERSION
from doxa.training.loop import Progress

FOLDER = Path(__file__).with_name("experiments")

HIGH = 0.9
"""Smallest confidence of a high-confidence belief."""

RULES = ("product", "score", "learned")
"""Decision rules that every model classifies by: Section 5.4's product of probabilities, D, the learned one."""

KEYS = {"data", "tasks", "test", "labels", "negatives", "seeds", "settings"}
"""Keys an experiment may have."""

OLD_KEYS = {"falsehoods": "negatives", "evaluation_of_true_ones": "evaluation_of_positives", "quality": "metric"}
"""Former keys of experiments, results and curves; stored results keep them."""


@dataclass(frozen=True)
class Run:
    """One experiment with one seed."""

    name: str
    experiment: dict[str, Any]
    seed: int

    def result(self, out: Path) -> Path:
        """Path of the result."""
        return out / (f"{self.name}.json" if len(seeds(self.experiment)) == 1 else f"{self.name}.{self.seed}.json")


def every(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """All experiments by name."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.toml"))}


def _read(path: Path) -> dict[str, Any]:
    """The experiment of a file; a key that no experiment has is refused."""
    experiment = migrate_experiment(tomllib.loads(path.read_text(encoding="utf-8")))
    for key in experiment:
        if key not in KEYS:
            raise BadFile(f"{path}: no experiment has the key {key!r}.{did_you_mean(key, KEYS)}")
    return experiment


def migrate_experiment(experiment: dict[str, Any]) -> dict[str, Any]:
    """The experiment with the present names of its keys and settings."""
    return renamed(experiment) | {"settings": migrate(experiment["settings"])}


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The values under the present names of their keys."""
    return {OLD_KEYS.get(key, key): value for key, value in values.items()}


def seeds(experiment: dict[str, Any]) -> tuple[int, ...]:
    """Seeds of its runs."""
    return tuple(experiment.get("seeds", (0,)))


def runs(names: Iterable[str]) -> Iterator[Run]:
    """The runs of the named experiments. `name*` selects every experiment whose name begins with `name`."""
    known = every()
    for name in names:
        selected = [full for full in known if full.startswith(name[:-1])] if name.endswith("*") else [name]
        for full in selected:
            if full not in known:
                hint = "doxa.lab.experiments.every() lists them all"
                raise UsageError(f"no experiment {full!r}.{did_you_mean(full, known)}", hint, remedy="list_experiments")
            for seed in seeds(known[full]):
                yield Run(full, known[full], seed)


def result(run: Run, out: Path) -> dict[str, Any] | None:
    """The stored result of a run under the present names; None if there is none."""
    path = run.result(out)
    if not path.exists():
        return None
    stored = renamed(json.loads(path.read_text(encoding="utf-8")))
    curve = [renamed(point) for point in stored.get("curve", ())]
    return stored | {"experiment": migrate_experiment(stored["experiment"]), "curve": curve}


def about() -> dict[str, Any]:
    """Which doxa makes a result: its version, its commit if it runs from a checkout, and its version of training."""
    return {"version": __version__, "commit": _commit(), "training": VERSION}


def _commit() -> str | None:
    """The commit of the checkout, with a plus sign if its code was changed since; None outside of one."""
    here = Path(__file__).parents[2]
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
        diff = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "*.py"], cwd=here, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + ("+" if diff.returncode else "")


def is_current(run: Run, stored: dict[str, Any]) -> bool:
    """Whether a stored result is of the present version of training and of the present settings of its experiment."""
    same = bool(stored["experiment"]["settings"] == run.experiment["settings"])
    return same and stored.get("doxa", {}).get("training") == VERSION


def perform(run: Run, data: Path, out: Path, report: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Train on the train and valid files of the dataset, evaluate on its test file, and write the result."""
    folder = data / run.experiment["data"]
    if not folder.is_dir():
        raise BadFile(f"no dataset folder {folder}", "the data folder must contain one folder per dataset")
    train, valid, test = (
        Beliefs.from_frames(blocks(folder / file, "raise", True))
        for file in ("train.tsv", "valid.tsv", run.experiment.get("test", "test.tsv"))
    )
    labeled = test
    if not run.experiment.get("labels", True):
        valid, test = replace(valid, label=None), replace(test, label=None)
    settings = recipe(run.experiment["settings"] | {"seed": run.seed})
    began = time.monotonic()
    model = fit(train, valid, settings=settings, report=report)
    seconds = round(time.monotonic() - began, 1)
    if "negatives" in run.experiment:
        test = _with_negatives(model, test, run.experiment["negatives"])
    values: dict[str, Any] = {
        "doxa": about(),
        "experiment": run.experiment,
        "seed": run.seed,
        "settings": model.settings.as_dict(),
        "evaluation": _evaluate(model, test, run.experiment["tasks"], valid),
        "parameters": parameters(
            model.settings,
            len(model.vocabularies.entities),
            len(model.vocabularies.relations),
            len(model.vocabularies.words),
        ),
        "seconds_with_validation": seconds,
        "training": model.origin,
        "curve": list(model.curve),
        "machine": {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()},
    }
    if not run.experiment.get("labels", True):
        ranked = [task for task in run.experiment["tasks"] if task != "classification"]
        values["evaluation_of_positives"] = _evaluate(model, labeled, ranked, valid)
    with written(run.result(out)) as unfinished:
        unfinished.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return values


def _evaluate(model: Model, test: Beliefs, tasks: list[str], valid: Beliefs) -> dict[str, Any]:
    """The evaluation report without its figures per relation, with three additions.

    Classification by each of RULES. Data with mentions: relation prediction by entities alone and by words alone. Data
    with confidence: entity MRR weighted by confidence.
    """
    report = evaluate(model, test, tasks, popularity=False).as_dict()
    if "classification" in report:
        report["classification"].pop("by_relation")
        report["classification_by_rule"] = _by_rule(model, test, valid)
    known = test.encode(model.vocabularies)
    ranked = known.positives()
    facts = model.known.union(ranked.triples)
    if "relation" in report and model.pbe.mention is not None:
        for use in ("pair", "mention"):
            report[f"relation_by_{use}"] = relation_report(model.pbe, ranked, facts, use).as_dict()
    if "entity" in report and not np.isnan(ranked.confidence).all():
        kept = ranked.where(ranked.seen & ~np.isnan(ranked.confidence))
        both = [ranks(model.pbe, slot, kept, facts).filtered for slot in ENTITY_SLOTS]
        reciprocal = (1 / both[0] + 1 / both[1]) / 2
        high = kept.confidence >= HIGH
        report["entity_by_confidence"] = {
            "mrr": float(np.average(reciprocal, weights=kept.confidence)),
            "mrr_of_high": float(np.average(reciprocal[high], weights=kept.confidence[high])),
            "high": int(high.sum()),
        }
    return report


def _by_rule(model: Model, test: Beliefs, valid: Beliefs) -> dict[str, dict[str, float]]:
    """Accuracy of triplet classification by each rule, whose thresholds are fitted to the validation beliefs."""
    encoded = valid.encode(model.vocabularies)
    encoded = encoded.where(encoded.seen)
    shares = {}
    for rule in RULES:
        judge = model.calibration.by_rule(rule, model.pbe, model.settings, model.trained_facts, encoded)
        part = evaluate(replace(model, calibration=judge), test, "classification", popularity=False).classification
        assert part is not None
        shares[rule] = {"accuracy": part.accuracy, "accuracy_of_seen": part.accuracy_of_seen}
    return shares


def _with_negatives(model: Model, test: Beliefs, among: str) -> Beliefs:
    """Test beliefs with known names, and one corrupted triple of confidence 0 for each."""
    kept = test.encode(model.vocabularies)
    kept = kept.where(kept.seen)
    false, _ = corrupt_triples(kept, model.known.union(kept.triples), 0, among)
    return replace(stack(kept, replace(false, confidence=np.zeros(len(false)))), label=None)


def summary(result: dict[str, Any]) -> str:
    """The main figures of a result in one line."""
    parts = []
    evaluation = result["evaluation"]
    for task in ("entity", "relation"):
        for kind in ("filtered", "raw") if task in evaluation else ():
            m = evaluation[task][kind]
            parts.append(f"{task} {kind} MR {m['mr']:.1f} MRR {m['mrr']:.3f} Hits@10 {m['hits@10']:.3f}")
    if "classification" in evaluation:
        parts.append(f"accuracy {evaluation['classification']['accuracy']:.4f}")
    if "confidence" in evaluation:
        parts.append(f"confidence MSE {evaluation['confidence']['mse']:.4f} MAE {evaluation['confidence']['mae']:.4f}")
    return "; ".join([*parts, f"{result['training']['seconds']:.0f} s of training"])
