"""Training of tables that stay in files: peak anonymous memory and cost per belief of one pass.

    python experiments/cluster/out_of_core.py --work WORK [--beliefs 50000000] [--entities 5000000] [--partitions 16]
        [--beside DATA]

Generates beliefs, trains one epoch in partitions in this process (or with --cluster on Ray), and adds its figures to
`out_of_core.json` beside this file: peak RssAnon of this process and, on Ray, of its workers. With --beside, beliefs
of a dataset such as FB15k are trained first, in the memory of one process and one thread, at the same settings.
Processor seconds do not count other work on the machine; on Ray, where tasks are in other processes, they tell nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

import doxa
from doxa.data.beliefs import Beliefs, no_confidence
from doxa.data.mentions import Ragged
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.systems import assemble, build, recipe
from doxa.training.executors.choice import default_executor
from doxa.training.loop import TrainingLoop
from doxa.training.partitions.cuts import Pair
from doxa.training.partitions.files import Columns
from doxa.training.partitions.run import Epoch, PartitionedRun
from doxa.training.partitions.tables import mapped_tables
from doxa.training.plan import planned
from doxa.training.steps import Steps

RELATIONS = 1000

CLOCKS = {"wall": time.monotonic, "processor": time.process_time}


def main() -> None:
    """Generate, train, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--beliefs", type=int, default=50_000_000)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--cluster", default="")
    parser.add_argument("--beside", type=Path, help="a dataset folder, whose cost per belief is measured, too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    values = {
        "score": "translation", "dimension": arguments.dimension, "epochs": 1, "threads": 1,
        "partitions": arguments.partitions, "cluster": arguments.cluster,
    }  # fmt: skip
    report: dict[str, Any] = {"settings": values | {"beliefs": arguments.beliefs, "entities": arguments.entities}}
    if arguments.beside:
        report["beside"] = {"data": arguments.beside.name, **in_memory(arguments.beside, values)}
    watch = Watch(bool(arguments.cluster))
    beliefs = generated(arguments.beliefs, arguments.entities)
    settings = planned(recipe(values), len(beliefs), arguments.entities)
    with mapped_tables(arguments.work):
        pbe = assemble(
            settings, entities=arguments.entities, relations=RELATIONS, words=0,
            seen_heads=torch.arange(arguments.entities), seen_tails=torch.arange(arguments.entities),
        )  # fmt: skip
    run = TimedRun(pbe, beliefs, settings, arguments.work)
    with timed(report, len(beliefs)):
        report["loss"] = TrainingLoop(run, inputs="generated").run(default_executor).curve[-1].loss
    report |= watch.stop() | {"wall_seconds_of_files": run.seconds}
    if arguments.cluster:
        report = {name: value for name, value in report.items() if not name.startswith("processor")}
    if "beside" in report:
        for clock in ("wall",) if arguments.cluster else CLOCKS:
            report[f"{clock}_ratio"] = round(
                report[f"{clock}_microseconds"] / report["beside"][f"{clock}_microseconds"], 3
            )
    report["versions"] = {"torch": torch.__version__, "python": platform.python_version()}
    path = Path(__file__).with_name("out_of_core.json")
    reports: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    by = f"Ray {arguments.cluster}" if arguments.cluster else "one process"
    reports[f"{arguments.beliefs} beliefs, {arguments.entities} entities, {by}"] = report
    path.write_text(json.dumps(dict(sorted(reports.items())), indent=1) + "\n")
    print(json.dumps(report, indent=1))


def in_memory(data: Path, values: dict[str, Any]) -> dict[str, float]:
    """The cost per belief of one epoch in one process, without partitions."""
    beliefs = doxa.read(data / "train.tsv")
    settings = planned(
        recipe(values | {"partitions": 0, "cluster": ""}), len(beliefs), len(beliefs.vocabularies.entities)
    )
    steps, report = Steps(build(beliefs, settings), beliefs, settings), dict[str, float]()
    steps.warm_up()  # compiles loops
    with timed(report, len(beliefs)):
        TrainingLoop(steps, inputs=data.name).run(default_executor)
    return report


@contextmanager
def timed(report: dict[str, Any], beliefs: int) -> Iterator[None]:
    """Add the seconds of a block by both clocks, and those for each belief."""
    began = [clock() for clock in CLOCKS.values()]
    yield
    for (name, clock), start in zip(CLOCKS.items(), began, strict=True):
        seconds = clock() - start
        report |= {f"{name}_seconds": round(seconds, 1), f"{name}_microseconds": round(1e6 * seconds / beliefs, 3)}


class TimedRun(PartitionedRun):
    """A run that knows how long the files of an epoch take, before and after its tasks."""

    def __init__(self, *inputs: Any) -> None:
        super().__init__(*inputs)
        self.seconds: dict[str, float] = {}

    def start(self) -> None:
        with self._noted("start"):
            super().start()

    def begin(self, number: int, rounds: Sequence[Sequence[Pair]]) -> Epoch:
        with self._noted("begin"):
            return super().begin(number, rounds)

    def commit(self, epoch: Epoch, shared: Columns) -> None:
        with self._noted("commit"):
            super().commit(epoch, shared)

    @contextmanager
    def _noted(self, stage: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[stage] = round(time.monotonic() - began, 1)


def generated(count: int, entities: int) -> Beliefs:
    """Beliefs at random, the same for the same sizes."""
    random = np.random.default_rng(0)
    names = [
        Vocabulary(pl.Series(np.arange(size)), kind)
        for kind, size in (("entity", entities), ("relation", RELATIONS), ("word", 0))
    ]
    head, tail = (random.integers(0, entities, count) for _ in range(2))
    relation = random.integers(0, RELATIONS, count)
    return Beliefs(Vocabularies(*names), head, relation, tail, Ragged.empty(count), no_confidence(count))


class Watch:
    """Peak anonymous memory of this process and of Ray's workers, looked at 20 times a second."""

    def __init__(self, on_ray: bool) -> None:
        self.peaks = {"peak_anonymous_gb": 0.0, "peak_anonymous_gb_of_a_worker": 0.0}
        self._on_ray = on_ray
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, float]:
        self._stopped.set()
        self._thread.join()
        return {name: round(peak, 3) for name, peak in self.peaks.items() if peak}

    def _look(self) -> None:
        while not self._stopped.wait(0.05):
            self._note("peak_anonymous_gb", os.getpid())
            for path in Path("/proc").glob("[0-9]*/cmdline") if self._on_ray else ():
                try:
                    if path.read_bytes().startswith(b"ray::train_task"):
                        self._note("peak_anonymous_gb_of_a_worker", int(path.parent.name))
                except OSError:
                    continue

    def _note(self, name: str, process: int) -> None:
        try:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
        except OSError:
            return
        anonymous = next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)
        self.peaks[name] = max(self.peaks[name], 1024 * anonymous / 1e9)


if __name__ == "__main__":
    main()
