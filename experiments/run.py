"""Run experiments: each is a TOML beside which its result is written as JSON.

    python experiments/run.py --data ../shared/data experiments/systems/*.toml

A TOML names the dataset (a folder of --data), the tasks, and the settings of training:

    data = "wn11"
    tasks = ["classification"]
    [settings]
    system = "transe"

An experiment whose result is there is skipped; --force runs it again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import tomllib
from pathlib import Path
from typing import Any

import doxa
from doxa.files.atomic import written
from doxa.systems import parameters, recipe


def main() -> None:
    """Run what is missing, one experiment after the other."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("experiments", nargs="+", type=Path, metavar="TOML")
    options.add_argument("--data", type=Path, required=True, help="folder with the datasets")
    options.add_argument("--force", action="store_true", help="run again what has a result")
    given = options.parse_args()
    for path in given.experiments:
        result = path.with_suffix(".json")
        if result.exists() and not given.force:
            print(f"{path}: has a result")
            continue
        found = run(tomllib.loads(path.read_text(encoding="utf-8")), given.data)
        with written(result) as unfinished:
            unfinished.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: {summary(found)}", flush=True)


def run(experiment: dict[str, Any], data: Path) -> dict[str, Any]:
    """Train on the dataset's train and valid, evaluate on its test."""
    folder = data / experiment["data"]
    train, valid, test = (doxa.read(folder / f"{part}.tsv") for part in ("train", "valid", "test"))
    settings = recipe(experiment["settings"])
    began = time.monotonic()
    model = doxa.fit(train, valid, settings=settings, on_error="skip")
    seconds = round(time.monotonic() - began, 1)
    evaluation = doxa.evaluate(model, test, experiment["tasks"]).as_dict()
    evaluation.get("classification", {}).pop("by_relation", None)
    size = parameters(settings, len(model.names.entities), len(model.names.relations), len(model.names.words))
    machine = {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()}
    return {"experiment": experiment, "evaluation": evaluation, "parameters": size, "seconds_with_validation": seconds,
            "training": model.origin, "machine": machine}  # fmt: skip


def summary(found: dict[str, Any]) -> str:
    """The figures in one line."""
    said = []
    evaluation = found["evaluation"]
    for task in ("entity", "relation"):
        for kind in ("filtered", "raw"):
            if task in evaluation:
                m = evaluation[task][kind]
                said.append(
                    f"{task} {kind} MR {m['mr']:.1f} MRR {m['mrr']:.3f} H@1 {m['hits@1']:.3f} H@10 {m['hits@10']:.3f}"
                )
    if "classification" in evaluation:
        said.append(f"accuracy {evaluation['classification']['accuracy']:.4f}")
    return "; ".join([*said, f"{found['training']['seconds']:.0f} s of training"])


if __name__ == "__main__":
    main()
