"""Training speed and size of each system: the table of docs/systems.md.

    python benchmarks/systems.py ../shared/data/fb15k --seconds 10

Times training steps without validation, in one process with a thread per core. Each system has the settings of its
recipe; PBE also runs on every score. The ratio is to PBE on translation, measured in the same run.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path

import torch

import doxa
from doxa.config import Settings
from doxa.scores import SCORES
from doxa.systems import SYSTEMS, build, parameters, recipe
from doxa.training.plan import automatic
from doxa.training.steps import Steps

WARM_UP = 3
"""Steps before the clock starts."""


def main() -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with a train file")
    parser.add_argument("--seconds", type=float, default=10.0, help="of training per system")
    arguments = parser.parse_args()
    beliefs = doxa.read(arguments.data / "train.tsv")
    sizes = len(beliefs.vocabularies.entities), len(beliefs.vocabularies.relations)
    rows = []
    wanted = [{"system": "pbe", "score": score} for score in SCORES]
    wanted += [{"system": name} for name in SYSTEMS if name != "pbe"]
    for values in wanted:
        wanted_size = {"dimension": 50} if values.get("score") in MATRICES else {}
        settings = automatic(recipe(values | wanted_size), len(beliefs), sizes[0])
        speed = beliefs_per_second(beliefs, settings, arguments.seconds)
        rows.append((settings, speed, parameters(settings, *sizes)))
        print(f"  {settings.system} {settings.score}: {speed:,.0f} beliefs/s", flush=True)
    show(arguments.data.name, beliefs, rows)


MATRICES = ("structured", "single_layer", "bilinear", "neural_tensor")
"""Scores with a matrix per relation; they run with the dimension of their systems."""


def beliefs_per_second(beliefs: doxa.Beliefs, settings: Settings, seconds: float) -> float:
    """Speed of training steps after the warm-up."""
    torch.set_num_threads(os.cpu_count() or 1)
    steps, step = Steps(build(beliefs, settings), beliefs, settings), 0
    for step in range(WARM_UP):
        steps.take(step, 0.0)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        step += 1
        steps.take(step, 0.0)
    return (step + 1 - WARM_UP) * settings.batch_size / (time.perf_counter() - began)


def show(data: str, beliefs: doxa.Beliefs, rows: list[tuple[Settings, float, int]]) -> None:
    """The table, as Markdown."""
    base = rows[0][1]
    print(f"\n{data}: {len(beliefs):,} beliefs; {platform.processor() or platform.machine()}, {os.cpu_count()} cores; "
          f"torch {torch.__version__}\n")  # fmt: skip
    print("| system | score | dimension | batch × candidates | beliefs/s | ratio | parameters |")
    print("|---|---|---|---|---|---|---|")
    for settings, speed, size in rows:
        block = f"{settings.batch_size} × {settings.num_candidates}"
        print(f"| {settings.system} | {settings.score} | {settings.dimension} | {block} | {speed:,.0f} "
              f"| {speed / base:.2f} | {size:,} |")  # fmt: skip


if __name__ == "__main__":
    main()
