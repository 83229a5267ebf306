"""Seconds of an epoch of softmax training: `python benchmarks/queries.py DATA [--dimension 200] [--json FILE]`.

Compares 512 sampled candidates, all candidates by beliefs, and all candidates by queries, with products in float32
and in bfloat16. A few steps of each are timed in turn; an epoch is as many steps as it takes to visit all beliefs.
The first steps do not count. Score complex, steps of 1,024 beliefs, both cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from doxa import formats
from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError
from doxa.lab.figures import machine
from doxa.systems import build, recipe
from doxa.training.executors.single import SingleProcess
from doxa.training.plan import planned
from doxa.training.query_steps import steps_of

WAYS: dict[str, dict[str, Any]] = {
    "512 sampled candidates": {},
    "all candidates, by beliefs": {"estimator": "exact"},
    "all candidates, by queries": {"batch_by": "queries"},
    "all candidates, by queries, bfloat16": {"batch_by": "queries", "precision": "bfloat16"},
}


class Timed:
    """Steps of one way of training."""

    def __init__(self, beliefs: Beliefs, values: dict[str, Any]) -> None:
        values = {"score": "complex", "n3": 0.1, "batch_size": 1024, **values}
        settings = planned(recipe(values), len(beliefs), len(beliefs.vocabularies.entities))
        self.steps = steps_of(build(beliefs, settings), beliefs, settings)
        self.executor = SingleProcess(self.steps, settings.threads)
        self.executor.warm_up()
        self.number, self.times = 0, []
        self.run(2)
        self.times.clear()

    def run(self, count: int) -> None:
        began = time.perf_counter()
        for _ in self.executor.run_epoch(range(self.number, self.number + count), lambda _: 0.0):
            pass
        self.times.append((time.perf_counter() - began) / count)
        self.number += count

    @property
    def epoch(self) -> float:
        return statistics.median(self.times) * self.steps.per_epoch


def main() -> None:
    """Time all ways in turn and print their epochs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a dataset folder")
    parser.add_argument("--dimension", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3, help="steps of each way in a round")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    beliefs = Beliefs.from_frames(formats.blocks(formats.dataset(options.data).train))
    timed = {}
    for name, values in WAYS.items():
        try:
            timed[name] = Timed(beliefs, values | {"dimension": options.dimension})
        except UsageError as refusal:
            print(f"{name}: {refusal}")
    for _ in range(options.rounds):
        for one in timed.values():
            one.run(options.steps)
    sampled = next(iter(timed.values())).epoch
    for name, one in timed.items():
        print(f"{name:<38} {one.epoch:7.1f} s an epoch, {one.epoch / sampled:5.1f} x sampled")
    if options.json:
        epochs = {name: round(one.epoch, 2) for name, one in timed.items()}
        result = {
            "data": options.data.name,
            "dimension": options.dimension,
            "seconds_of_an_epoch": epochs,
            "machine": machine(),
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
