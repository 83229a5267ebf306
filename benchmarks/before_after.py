"""Speed of two versions of doxa: alternating runs of training and ranking, and the ratio of their medians.

    python benchmarks/before_after.py BEFORE AFTER --data DIR/fb15k --rounds 10 --json before_after.json

BEFORE and AFTER are checkouts, each with its own `.venv`. A round runs the benchmark once in each checkout, in a fresh
process; the order of the two changes from round to round. A ratio above 1 means that AFTER is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = """
import json, sys
from pathlib import Path
try:
    from doxa.lab import bench
except ImportError:
    from doxa import bench
data, seconds = Path(sys.argv[1]), float(sys.argv[2])
figures = list(bench.train(data, seconds=seconds)) if "train" in sys.argv[3:] else []
if hasattr(bench, "_alternated"):
    bench._alternated = lambda tasks, seconds, rounds=1: [bench._seconds(tasks[0]), 1.0]
else:
    alternate = "_alternate" if hasattr(bench, "_alternate") else "_in_turns"
    setattr(bench, alternate, lambda task, limit, seconds, rounds=1: (bench._seconds(task), 1.0))
if "rank" in sys.argv[3:]:
    figures += bench.rank(data)  # each score once, without its limit
for figure in figures:
    name = figure.name if "thread" in figure.name or "thread" not in figure.note or "each" in figure.note else (
        figure.name + ", " + figure.note.rpartition(", ")[2])
    print(json.dumps({"name": name, "value": figure.value, "unit": figure.unit}), flush=True)
"""
"""Runs in either version: prints one JSON line per figure."""


def main() -> None:
    """Run all rounds, print the table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="checkout of the earlier version")
    parser.add_argument("after", type=Path, help="checkout of the later version")
    parser.add_argument("--data", type=Path, required=True, help="dataset folder with train, valid and test")
    parser.add_argument("--only", choices=("train", "rank"), help="measure one of the two")
    parser.add_argument("--rounds", type=int, default=10, help="runs of each version")
    parser.add_argument("--seconds", type=float, default=1.5, help="duration of each training measurement")
    parser.add_argument("--json", type=Path, help="write the figures to this file after every round")
    arguments = parser.parse_args()
    checkouts = {"before": arguments.before.resolve(), "after": arguments.after.resolve()}
    kinds = (arguments.only,) if arguments.only else ("train", "rank")
    figures: dict[str, dict[str, Any]] = {}
    for number in range(arguments.rounds):
        for version in ("before", "after") if number % 2 == 0 else ("after", "before"):
            for figure in run(checkouts[version], arguments.data.resolve(), arguments.seconds, kinds):
                row = figures.setdefault(figure["name"], {"unit": figure["unit"], "before": [], "after": []})
                row[version].append(figure["value"])
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(summary(figures), indent=1) + "\n", encoding="utf-8")
    print(table(summary(figures)))


def run(checkout: Path, data: Path, seconds: float, kinds: tuple[str, ...]) -> list[dict[str, Any]]:
    """The figures of one run in one checkout."""
    python = checkout / ".venv" / "bin" / "python"
    if not python.exists():
        sys.exit(f"{checkout} has no .venv; run `make install` there")
    command = [str(python), "-c", SCRIPT, str(data), str(seconds), *kinds]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=checkout, env=environment)
    if done.returncode:
        sys.exit(f"the benchmark failed in {checkout}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def summary(figures: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Per figure: all values, the median of each version, and the ratio of the speeds, after to before."""
    result: dict[str, dict[str, Any]] = {}
    for name, row in figures.items():
        if not (row["before"] and row["after"]):
            continue
        before, after = statistics.median(row["before"]), statistics.median(row["after"])
        ratio = after / before if row["unit"].endswith("/s") else before / after
        result[name] = {"unit": row["unit"], "median_before": before, "median_after": after, "speed_ratio": ratio,
                        "before": row["before"], "after": row["after"]}  # fmt: skip
    return result


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The medians and ratios, as Markdown."""
    lines = ["| figure | unit | before | after | speed ratio |", "|---|---|---:|---:|---:|"]
    for name, row in rows.items():
        before, after = (f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
                         for value in (row["median_before"], row["median_after"]))  # fmt: skip
        lines.append(f"| {name} | {row['unit']} | {before} | {after} | {row['speed_ratio']:.3f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
