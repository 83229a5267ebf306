"""Long training of FB15k and FB15k-237, within 150 minutes of two cores each, by commands of doxa alone.

    python experiments/defaults/long.py --data DIR --work DIR [--recipes fb15k-237]

A recipe trains members that differ in their seed (`doxa train`), one after the other on each of so many cores, and
joins them (`doxa average`). The seconds are those of the busiest core, and of the average. Settings were chosen on
validation beliefs; what was tried is in tried.md. Products are in bfloat16, so the processor needs instructions for it
(avx512_bf16 or amx_bf16). Members that WORK has of the same settings are not trained again. Writes long.json beside
this file.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from run import COMMAND, add, read

import doxa
from doxa.training import VERSION

RESULTS = Path(__file__).with_name("long.json")
EXACT = {"batch_by": "queries", "precision": "bfloat16", "batch_size": 1024, "threads": 1, "patience": 0}


@dataclass(frozen=True)
class Recipe:
    """Settings of every member, and how many there are."""

    members: int
    settings: dict[str, object]


RECIPES = {
    "fb15k-237": Recipe(5, EXACT | {"dimension": 1000, "n3": 0.1, "learning_rate": 0.4, "epochs": 12}),
    "fb15k": Recipe(2, EXACT | {"dimension": 1000, "n3": 0.01, "learning_rate": 0.1, "epochs": 12}),
}


def main() -> None:
    """Run the recipes that are not in the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of dataset folders")
    parser.add_argument("--work", type=Path, required=True, help="folder for the models")
    parser.add_argument("--recipes", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--processes", type=int, default=2, help="members that are trained at the same time")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for name in arguments.recipes:
        if name not in read(arguments.out):
            work = arguments.work / name
            add(arguments.out, name, follow(RECIPES[name], arguments.data / name, work, arguments.processes))


def follow(recipe: Recipe, data: Path, work: Path, processes: int) -> dict[str, object]:
    """Train the members, join them, and evaluate one member and the mean on the test set."""
    options = ["--score", "complex", *(f"--set={key}={value}" for key, value in recipe.settings.items())]
    work.mkdir(parents=True, exist_ok=True)
    folders = [work / f"seed{seed}" for seed in range(recipe.members)]

    def train(seed: int) -> float:
        """The seconds of training a member, now or in an earlier call."""
        path = work / f"seed{seed}.json"
        record = json.loads(path.read_text()) if path.exists() else {}
        if record.get("options") != options:
            began = time.monotonic()
            command = ["train", data, "--out", folders[seed], "--force", "--seed", str(seed), *options]
            call(*command, log=work / f"seed{seed}.log")
            record = {"options": options, "seconds": time.monotonic() - began}
            path.write_text(json.dumps(record))
        return float(record["seconds"])

    with ThreadPoolExecutor(processes) as pool:
        of_members = list(pool.map(train, range(recipe.members)))
    began = time.monotonic()
    call("average", *folders, "--valid", data, "--out", work / "mean", "--force", log=work / "mean.log")
    averaging = time.monotonic() - began
    return {
        "options": " ".join(options),
        "members": recipe.members,
        "processes": processes,
        "seconds_of_members": [round(seconds) for seconds in of_members],
        "seconds_of_average": round(averaging),
        "seconds": round(of_busiest(of_members, processes) + averaging),
        "one_member": evaluated(folders[0], data),
        "mean": evaluated(work / "mean", data),
        "versions": {"doxa": doxa.__version__, "training": VERSION, "python": platform.python_version()},
    }


def of_busiest(seconds: Sequence[float], processes: int) -> float:
    """The seconds of the core that ends last, where each takes the next member as soon as it is free."""
    busy = [0.0] * processes
    for each in seconds:
        busy[busy.index(min(busy))] += each
    return max(busy)


def call(*arguments: object, log: Path) -> None:
    """Run a command of doxa; what it prints goes to the file."""
    with log.open("w") as file:
        subprocess.run([sys.executable, "-c", COMMAND, *map(str, arguments)], check=True, stdout=file, stderr=file)


def evaluated(folder: Path, data: Path) -> dict[str, float]:
    """The figures of a model on the test set, and its filtered MRR on validation beliefs."""
    model = doxa.load(folder)
    tasks = ["entity", "relation", "calibration"]
    report = doxa.evaluate(model, doxa.read(data / "test.tsv"), tasks=tasks, popularity=False).as_dict()
    valid = doxa.evaluate(model, doxa.read(data / "valid.tsv"), tasks=["entity"], popularity=False).as_dict()
    return {
        "mrr": round(report["entity"]["filtered"]["mrr"], 4),
        "hits@1": round(report["entity"]["filtered"]["hits@1"], 4),
        "hits@10": round(report["entity"]["filtered"]["hits@10"], 4),
        "relation_hits@1": round(report["relation"]["filtered"]["hits@1"], 4),
        "ece": round(report["calibration"]["ece"], 4),
        "ece_floor": round(report["calibration"]["ece_floor"], 4),
        "valid_mrr": round(valid["entity"]["filtered"]["mrr"], 4),
    }


if __name__ == "__main__":
    main()
