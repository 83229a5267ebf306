"""Experiments: each is a TOML, its result a JSON of the same name.

data = "wn11"                  a dataset folder
tasks = ["classification"]     what to evaluate
test = "test.tsv"              the file to evaluate on, if another
labels = false                 labels of valid and test are dropped: all is ranked as if it were true
falsehoods = "all"             as many beliefs of confidence 0 are put beside the test beliefs, made of these by
                               replacing one entity by any
seeds = [0, 1, 2]              one run each, 0 alone if left out
[settings]                     of training
system = "transe"
"""

from __future__ import annotations

import json
import os
import platform
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from doxa.data.atomic import written
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import corrupt_triples, stack
from doxa.errors import DoxaError, UsageError, did_you_mean
from doxa.evaluation.protocol import ranks
from doxa.evaluation.report import evaluate, relation_report
from doxa.formats import blocks
from doxa.model import Model, fit
from doxa.slots import ENTITY_SLOTS
from doxa.systems import parameters, recipe
from doxa.training.loop import Progress

FOLDER = Path(__file__).with_name("experiments")

HIGH = 0.9
"""Confidence from which a belief counts as one of high confidence."""

KEYS = {"data", "tasks", "test", "labels", "falsehoods", "seeds", "settings"}


@dataclass(frozen=True)
class Run:
    """One experiment with one seed."""

    name: str
    experiment: dict[str, Any]
    seed: int

    def result(self, out: Path) -> Path:
        """Where its result lies."""
        return out / (f"{self.name}.json" if len(seeds(self.experiment)) == 1 else f"{self.name}.{self.seed}.json")


def every(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """All experiments by name."""
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))}


def seeds(experiment: dict[str, Any]) -> tuple[int, ...]:
    """Those it is run with."""
    return tuple(experiment.get("seeds", (0,)))


def runs(names: Iterable[str]) -> Iterator[Run]:
    """The runs of experiments of these names; a name that ends in * stands for all that begin so."""
    known = every()
    for name in names:
        chosen = [one for one in known if one.startswith(name[:-1])] if name.endswith("*") else [name]
        for one in chosen:
            if one not in known:
                raise UsageError(f"no experiment {one!r}.{did_you_mean(one, known)}", "`doxa reproduce list` tells all")
            for seed in seeds(known[one]):
                yield Run(one, known[one], seed)


def result(run: Run, out: Path) -> dict[str, Any] | None:
    """Its result, if it was run."""
    path = run.result(out)
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def perform(run: Run, data: Path, out: Path, report: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Train on the dataset's train and valid, evaluate on its test, and write the result."""
    folder = data / run.experiment["data"]
    if not folder.is_dir():
        raise DoxaError(f"no dataset folder {folder}", "--data names the folder in which the datasets lie")
    train, valid, test = (
        Beliefs.from_frames(blocks(folder / file, "raise", True))
        for file in ("train.tsv", "valid.tsv", run.experiment.get("test", "test.tsv"))
    )
    labeled = test
    if not run.experiment.get("labels", True):
        valid, test = replace(valid, label=None), replace(test, label=None)
    settings = recipe(run.experiment["settings"] | {"seed": run.seed})
    began = time.monotonic()
    model = fit(train, valid, settings=settings, on_error="skip", report=report)
    seconds = round(time.monotonic() - began, 1)
    if "falsehoods" in run.experiment:
        test = _with_falsehoods(model, test, run.experiment["falsehoods"])
    found: dict[str, Any] = {
        "experiment": run.experiment,
        "seed": run.seed,
        "evaluation": _evaluated(model, test, run.experiment["tasks"]),
        "parameters": parameters(
            settings, len(model.vocabularies.entities), len(model.vocabularies.relations), len(model.vocabularies.words)
        ),
        "seconds_with_validation": seconds,
        "training": model.origin,
        "curve": list(model.curve),
        "machine": {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()},
    }
    if not run.experiment.get("labels", True):
        ranked = [task for task in run.experiment["tasks"] if task != "classification"]
        found["evaluation_of_true_ones"] = _evaluated(model, labeled, ranked)
    with written(run.result(out)) as unfinished:
        unfinished.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return found


def _evaluated(model: Model, test: Beliefs, tasks: list[str]) -> dict[str, Any]:
    """The report, without what is told relation by relation; with mentions, relation prediction by each of its parts;
    with confidence, entity MRR in which a belief counts by it."""
    found = evaluate(model, test, tasks).as_dict()
    found.get("classification", {}).pop("by_relation", None)
    known = test.encode(model.vocabularies)
    ranked = known.positives()
    facts = model.known.union(ranked.triples)
    if "relation" in found and model.pbe.mention is not None:
        for use in ("pair", "mention"):
            found[f"relation_by_{use}"] = relation_report(model.pbe, ranked, facts, use).as_dict()
    if "entity" in found and not np.isnan(ranked.confidence).all():
        kept = ranked.where(ranked.seen & ~np.isnan(ranked.confidence))
        both = [ranks(model.pbe, slot, kept, facts).filtered for slot in ENTITY_SLOTS]
        reciprocal = (1 / both[0] + 1 / both[1]) / 2
        high = kept.confidence >= HIGH
        found["entity_by_confidence"] = {
            "mrr": float(np.average(reciprocal, weights=kept.confidence)),
            "mrr_of_high": float(np.average(reciprocal[high], weights=kept.confidence[high])),
            "high": int(high.sum()),
        }
    return found


def _with_falsehoods(model: Model, test: Beliefs, among: str) -> Beliefs:
    """Test beliefs with names the model knows, and as many of confidence 0."""
    kept = test.encode(model.vocabularies)
    kept = kept.where(kept.seen)
    false, _ = corrupt_triples(kept, model.known.union(kept.triples), 0, among)
    return replace(stack(kept, replace(false, confidence=np.zeros(len(false)))), label=None)


def summary(found: dict[str, Any]) -> str:
    """The figures in one line."""
    said = []
    evaluation = found["evaluation"]
    for task in ("entity", "relation"):
        for kind in ("filtered", "raw") if task in evaluation else ():
            m = evaluation[task][kind]
            said.append(f"{task} {kind} MR {m['mr']:.1f} MRR {m['mrr']:.3f} Hits@10 {m['hits@10']:.3f}")
    if "classification" in evaluation:
        said.append(f"accuracy {evaluation['classification']['accuracy']:.4f}")
    if "confidence" in evaluation:
        said.append(f"confidence MSE {evaluation['confidence']['mse']:.4f} MAE {evaluation['confidence']['mae']:.4f}")
    return "; ".join([*said, f"{found['training']['seconds']:.0f} s of training"])
