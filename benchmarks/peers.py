"""doxa beside its peers: the same data, dimension, batch and threads, one after the other, in one run.

    make bench-peers DATA=../shared/data/fb15k

Peers are installed into environments of their own, outside the project (--home). Compared are candidates scored per
second in training, drawn ones (256 for each belief at the peer, as many as doxa draws by default here) and all of
them; the time of a full filtered evaluation; and filtered MRR after the same seconds of training.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np
import torch

import doxa
from doxa.lab.bench import machine
from doxa.systems import build, recipe
from doxa.training.loop import Trainer

PEERS = {"pykeen": ["torch==2.13.0", "pykeen==1.11.1"]}
"""What each environment holds."""

QUALITY = {
    "complex": {"score": "complex", "dimension": 300, "batch_size": 1024, "n3": 0.001, "relation_weight": 0.25},
    "translation": {"score": "translation", "entity_norm": "unit", "scale": 18.0, "num_candidates": 64},
}
"""Settings of the runs for quality."""


def main() -> None:
    """Measure everybody, print as it comes, write JSON at the end."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path, help="dataset folder with train, valid and test as TSV")
    options.add_argument("--home", type=Path, default=Path.home() / ".cache" / "doxa-peers", help="for environments")
    options.add_argument("--dimension", type=int, default=200)
    options.add_argument("--batch", type=int, default=512)
    options.add_argument("--seconds", type=float, default=30.0, help="of each measurement of speed")
    options.add_argument("--budget", type=float, default=300.0, help="seconds of training for quality")
    options.add_argument("--questions", type=int, default=0, help="test beliefs the peer is evaluated on; 0 = all")
    options.add_argument("--tasks", default="sampled,everyone,evaluation,quality", help="which of them")
    options.add_argument("--json", type=Path, help="write the figures there")
    given = options.parse_args()
    found: dict[str, Any] = {"machine": machine(), "data": given.data.name, "dimension": given.dimension}
    for task in (sampled, everyone, evaluation, quality):
        if task.__name__ not in given.tasks.split(","):
            continue
        found[task.__name__] = task(given)
        print(f"{task.__name__}: {json.dumps(found[task.__name__])}", flush=True)
        if given.json:
            given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def sampled(given: argparse.Namespace) -> dict[str, Any]:
    """Candidates compared per second when they are drawn."""
    results: dict[str, Any] = {}
    for score in ("translation", "complex"):
        settings = {"score": score, "dimension": given.dimension, "batch": given.batch}
        ours = comparisons(given, settings)
        theirs = pykeen(given, "sampled", score, "--negatives", "256", "--seconds", str(given.seconds))
        results[score] = {"doxa": ours, "pykeen": theirs["comparisons_per_second"],
                          "ratio": ours / theirs["comparisons_per_second"]}  # fmt: skip
    return results


def everyone(given: argparse.Namespace) -> dict[str, Any]:
    """Candidates compared per second when they are all entities."""
    results: dict[str, Any] = {}
    for score in ("translation", "complex"):
        settings = {"score": score, "dimension": given.dimension, "batch": given.batch, "estimator": "exact"}
        ours = comparisons(given, settings)
        theirs = pykeen(given, "all", score, "--seconds", str(given.seconds))
        results[score] = {"doxa": ours, "pykeen": theirs["comparisons_per_second"],
                          "ratio": ours / theirs["comparisons_per_second"]}  # fmt: skip
    return results


def evaluation(given: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a full evaluation, heads and tails; the peer's from as many questions as it was asked."""
    train, valid, test = (doxa.read(given.data / f"{part}.tsv") for part in ("train", "valid", "test"))
    model = doxa.fit(train, valid, dimension=given.dimension, score="complex", time_budget=1.0, validation_sample=1)
    began = time.perf_counter()
    report = doxa.evaluate(model, test, "entity")
    ours = time.perf_counter() - began
    theirs = pykeen(given, "evaluation", "complex", "--questions", str(given.questions))
    whole = theirs["evaluation_seconds"] * 2 * report.protocol["queries"] / theirs["questions"]
    return {"doxa": ours, "pykeen": whole, "pykeen_questions": theirs["questions"], "ratio": whole / ours}


def quality(given: argparse.Namespace) -> dict[str, Any]:
    """Filtered MRR and Hits@10 after the same seconds of training, two workers or threads for everybody."""
    train, valid, test = (doxa.read(given.data / f"{part}.tsv") for part in ("train", "valid", "test"))
    results: dict[str, Any] = {}
    for score, settings in QUALITY.items():
        model = doxa.fit(train, valid, time_budget=given.budget, workers=os.cpu_count(), **settings)
        ours = doxa.evaluate(model, test, "entity").entity
        results[f"doxa {score}"] = {"mrr": ours.filtered.mrr, "hits@10": ours.filtered.hits[10]}
        theirs = pykeen(
            given, "quality", score, "--seconds", str(given.budget), "--questions", str(given.questions or 5000)
        )
        results[f"pykeen {score}"] = {"mrr": theirs["mrr"], "hits@10": theirs["hits@10"]}
        print(json.dumps(results), flush=True)
    return results


def comparisons(given: argparse.Namespace, values: dict[str, Any]) -> float:
    """Entity candidates doxa compares beliefs with in a second of training, heads and tails (relations not counted)."""
    torch.set_num_threads(os.cpu_count() or 1)
    beliefs = doxa.read(given.data / "train.tsv")
    settings = recipe(values)
    trainer = Trainer(build(beliefs, settings), beliefs, settings)
    every = settings.training_estimator == "exact"
    each = sum(
        len(np.unique(side)) if every else trainer.settings.num_candidates for side in (beliefs.head, beliefs.tail)
    )
    trainer.warm_up()
    order, step, began = trainer.order(0), 0, time.perf_counter()
    while time.perf_counter() - began < given.seconds:
        trainer.step(step, order, 0.0)
        step += 1
    return step * trainer.batch * each / (time.perf_counter() - began)


def pykeen(given: argparse.Namespace, what: str, score: str, *more: str) -> dict[str, Any]:
    """What PyKEEN measures of itself in its own environment."""
    python = environment(given.home, "pykeen")
    script = Path(__file__).parent / "peers" / "pykeen_peer.py"
    command = [str(python), str(script), what, str(given.data), "--model", score, "--dimension", str(given.dimension),
               "--batch", str(given.batch), "--threads", str(os.cpu_count() or 1), *more]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def environment(home: Path, peer: str) -> Path:
    """The Python of a peer's environment, which is made if it is not there."""
    folder = home / peer
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"installing {peer} into {folder}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *PEERS[peer]], check=True)
        (folder / "installed").touch()
    return python


if __name__ == "__main__":
    main()
