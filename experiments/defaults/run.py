"""What comes out of `doxa train DATA --out MODEL` without any other option, and how long the whole command takes.

    python experiments/defaults/run.py --data DIR [--sets kinships umls …] [--seeds 0 1 2] [--table]

Runs the command as a user does, from the start of the process to its end, then evaluates the model on the test set:
beliefs with unseen names are ranked as a guess and stay in the denominator. Writes experiments/defaults/defaults.json
after every run; a run that is in the file is not repeated. `--table` prints a table of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import doxa
from doxa.data.atomic import written
from doxa.training import VERSION

RESULTS = Path(__file__).with_name("defaults.json")
SETS = ("kinships", "umls", "nations", "webnlg", "biomed", "semeval", "wn18rr", "fb15k-237", "fb15k")
COMMAND = "from doxa.cli import main; main()"


def main() -> None:
    """Train and evaluate what is missing in the file, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of dataset folders")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print a table of the file and train nothing")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(read(arguments.out)))
        return
    for name in arguments.sets:
        for seed in arguments.seeds:
            key = f"{name} {seed}"
            if key in read(arguments.out):
                continue
            add(arguments.out, key, figures(arguments.data / name, seed))


def figures(data: Path, seed: int, options: Sequence[str] = ()) -> dict[str, Any]:
    """Train by the command, with these options, and evaluate on the test set."""
    with tempfile.TemporaryDirectory() as work:
        folder, began, before = Path(work) / "model", time.monotonic(), os.times()
        command = [sys.executable, "-c", COMMAND, "train", data, "--out", folder, "--seed", str(seed), *options]
        subprocess.run(command, check=True)
        seconds, after = time.monotonic() - began, os.times()
        model = doxa.load(folder)
        tasks = ["entity", "relation", "calibration"]
        report = doxa.evaluate(model, doxa.read(data / "test.tsv"), tasks=tasks, popularity=False).as_dict()
    race = model.origin.get("race") or {}
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(after.children_user - before.children_user, 1),
        "epochs": model.origin["epochs"],
        "member": race.get("winner"),
        "share_of_work": race.get("share_of_work"),
        "mrr": round(report["entity"]["filtered"]["mrr"], 4),
        "hits@10": round(report["entity"]["filtered"]["hits@10"], 4),
        "relation_hits@1": round(report["relation"]["filtered"]["hits@1"], 4),
        "ece": round(report["calibration"]["ece"], 4),
        "ece_floor": round(report["calibration"]["ece_floor"], 4),
        "versions": {"doxa": doxa.__version__, "training": VERSION, "python": platform.python_version()},
    }


def add(path: Path, key: str, result: dict[str, Any]) -> None:
    """Add a result to the file, and print it."""
    with written(path) as unfinished:
        text = json.dumps(read(path) | {key: result}, indent=1, ensure_ascii=False)
        unfinished.write_text(text + "\n", encoding="utf-8")
    print(key, json.dumps(result), flush=True)


def read(path: Path) -> dict[str, Any]:
    """The results so far, by dataset and seed."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def table(results: dict[str, Any]) -> str:
    """A row per dataset: means over its seeds."""
    lines = [
        "| data | seeds | chosen | test MRR | Hits@10 | relation Hits@1 | ECE | of a perfect model | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(key.rsplit(" ", 1)[0] for key in results):
        rows = [row for key, row in results.items() if key.rsplit(" ", 1)[0] == name]
        chosen = ", ".join(dict.fromkeys(str(row["member"]) for row in rows))
        means = [statistics.mean(row[key] for row in rows) for key in ("mrr", "hits@10", "relation_hits@1")]
        errors = [statistics.mean(row[key] for row in rows) for key in ("ece", "ece_floor")]
        seconds = f"{min(row['seconds'] for row in rows):.0f}"
        if len(rows) > 1:
            seconds += f" to {max(row['seconds'] for row in rows):.0f}"
        cells = [f"{value:.3f}" for value in means + errors]
        lines.append(f"| {name} | {len(rows)} | {chosen} | {' | '.join(cells)} | {seconds} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
