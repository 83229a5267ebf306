"""Training of tables that stay in files: peak anonymous memory and cost per belief of one pass.

    python experiments/cluster/out_of_core.py --work WORK [--beliefs 50000000] [--entities 5000000] [--partitions 32]

Generates beliefs, trains one epoch in partitions in this process (or with --cluster on Ray), and writes
`out_of_core.json` beside this file: peak RssAnon of this process and, on Ray, of its workers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from doxa.data.beliefs import Beliefs
from doxa.data.mentions import Ragged
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.systems import assemble, recipe
from doxa.training.executors.choice import default_executor
from doxa.training.loop import TrainingLoop
from doxa.training.partitions.run import PartitionedRun
from doxa.training.partitions.tables import mapped_tables
from doxa.training.plan import planned

RELATIONS = 1000


def main() -> None:
    """Generate, train, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--beliefs", type=int, default=50_000_000)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=32)
    parser.add_argument("--cluster", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    values = {
        "score": "translation", "dimension": arguments.dimension, "epochs": 1, "threads": 1,
        "partitions": arguments.partitions, "cluster": arguments.cluster,
    }  # fmt: skip
    watch = Watch()
    beliefs = generated(arguments.beliefs, arguments.entities)
    settings = planned(recipe(values), len(beliefs), arguments.entities)
    with mapped_tables(arguments.work):
        pbe = assemble(
            settings, entities=arguments.entities, relations=RELATIONS, words=0,
            seen_heads=torch.arange(arguments.entities), seen_tails=torch.arange(arguments.entities),
        )  # fmt: skip
    run = PartitionedRun(pbe, beliefs, settings, arguments.work)
    began = time.monotonic()
    state = TrainingLoop(run, inputs="generated").run(default_executor)
    seconds = time.monotonic() - began
    report: dict[str, Any] = {
        "settings": values | {"beliefs": arguments.beliefs, "entities": arguments.entities},
        "seconds": round(seconds, 1),
        "microseconds_per_belief": round(1e6 * seconds / len(beliefs), 3),
        "loss": state.curve[-1].loss,
        **watch.stop(),
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
    }
    path = Path(__file__).with_name(f"out_of_core{'-ray' if arguments.cluster else ''}.json")
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(path.read_text())


def generated(count: int, entities: int) -> Beliefs:
    """Beliefs at random, the same for the same sizes."""
    random = np.random.default_rng(0)
    names = [
        Vocabulary(pl.Series(np.arange(size)), kind)
        for kind, size in (("entity", entities), ("relation", RELATIONS), ("word", 0))
    ]
    head, tail = (random.integers(0, entities, count) for _ in range(2))
    relation = random.integers(0, RELATIONS, count)
    return Beliefs(Vocabularies(*names), head, relation, tail, Ragged.empty(count), np.full(count, np.nan))


class Watch:
    """Peak anonymous memory of this process and of Ray's workers, looked at twice a second."""

    def __init__(self) -> None:
        self.peaks = {"peak_anonymous_gb": 0.0, "peak_anonymous_gb_of_a_worker": 0.0}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, float]:
        self._stopped.set()
        self._thread.join()
        return {name: round(peak, 3) for name, peak in self.peaks.items() if peak}

    def _look(self) -> None:
        while not self._stopped.wait(0.5):
            self._note("peak_anonymous_gb", os.getpid())
            for path in Path("/proc").glob("[0-9]*/cmdline"):
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
        self.peaks[name] = max(self.peaks[name], anonymous / 2**20)


if __name__ == "__main__":
    main()
