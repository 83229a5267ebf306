"""doxa compared with other libraries: the same data, dimension, batch size and threads, one after the other in one run.

    make bench-peers DATA=../shared/data/fb15k

Other libraries are installed into separate environments outside the project (--home). Compared are: candidates scored
per second in training, both sampled (256 per belief in the other library, the default number in doxa) and all of them;
the time of a full filtered evaluation; filtered MRR after the same training time; and the seconds until the MRR of
validation beliefs has 90 % of its final value, for doxa's default and for two ways of training ComplEx in PyKEEN.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import doxa
from doxa.lab.bench import machine
from doxa.systems import build, recipe
from doxa.training.loop import Progress
from doxa.training.plan import automatic
from doxa.training.steps import Steps

PEERS = {"pykeen": ["torch==2.13.0", "pykeen==1.11.1"]}
"""Packages of each environment."""

QUALITY = {
    "complex": {"score": "complex", "dimension": 300, "batch_size": 1024, "n3": 0.001, "relation_weight": 0.25},
    "translation": {"score": "translation", "entity_norm": "unit", "scale": 18.0, "num_candidates": 64},
}
"""Settings of the runs that compare filtered MRR."""


def main() -> None:
    """Measure every task, print each figure, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="dataset folder with train, valid and test as TSV")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache" / "doxa-peers", help="for environments")
    parser.add_argument("--dimension", type=int, default=200)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds per measurement of speed")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of training for quality")
    parser.add_argument("--questions", type=int, default=0, help="test beliefs for the other library; 0 = all")
    parser.add_argument("--tasks", default="sampled,everyone,evaluation,quality,convergence", help="tasks to run")
    parser.add_argument("--json", type=Path, help="write the figures there")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine(), "data": arguments.data.name, "dimension": arguments.dimension}
    for task in (sampled, everyone, evaluation, quality, convergence):
        if task.__name__ not in arguments.tasks.split(","):
            continue
        figures[task.__name__] = task(arguments)
        print(f"{task.__name__}: {json.dumps(figures[task.__name__])}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def sampled(arguments: argparse.Namespace) -> dict[str, Any]:
    """Candidates scored per second with sampled candidates."""
    results: dict[str, Any] = {}
    for score in ("translation", "complex"):
        settings = {"score": score, "dimension": arguments.dimension, "batch_size": arguments.batch}
        ours = comparisons(arguments, settings)
        theirs = pykeen(arguments, "sampled", score, "--negatives", "256", "--seconds", str(arguments.seconds))
        results[score] = {"doxa": ours, "pykeen": theirs["comparisons_per_second"],
                          "ratio": ours / theirs["comparisons_per_second"]}  # fmt: skip
    return results


def everyone(arguments: argparse.Namespace) -> dict[str, Any]:
    """Candidates scored per second with all entities as candidates."""
    results: dict[str, Any] = {}
    for score in ("translation", "complex"):
        settings = {
            "score": score,
            "dimension": arguments.dimension,
            "batch_size": arguments.batch,
            "estimator": "exact",
        }
        ours = comparisons(arguments, settings)
        theirs = pykeen(arguments, "all", score, "--seconds", str(arguments.seconds))
        results[score] = {"doxa": ours, "pykeen": theirs["comparisons_per_second"],
                          "ratio": ours / theirs["comparisons_per_second"]}  # fmt: skip
    return results


def evaluation(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a full evaluation of heads and tails; the time of the other library is scaled to all questions."""
    train, valid, test = (doxa.read(arguments.data / f"{part}.tsv") for part in ("train", "valid", "test"))
    model = doxa.fit(train, valid, dimension=arguments.dimension, score="complex", time_budget=1.0, validation_sample=1)
    began = time.perf_counter()
    report = doxa.evaluate(model, test, "entity", popularity=False)
    ours = time.perf_counter() - began
    theirs = pykeen(arguments, "evaluation", "complex", "--questions", str(arguments.questions))
    whole = theirs["evaluation_seconds"] * 2 * report.protocol["queries"] / theirs["questions"]
    return {"doxa": ours, "pykeen": whole, "pykeen_questions": theirs["questions"], "ratio": whole / ours}


def quality(arguments: argparse.Namespace) -> dict[str, Any]:
    """Filtered MRR and Hits@10 after the same seconds of training, with two workers or threads each."""
    train, valid, test = (doxa.read(arguments.data / f"{part}.tsv") for part in ("train", "valid", "test"))
    results: dict[str, Any] = {}
    for score, settings in QUALITY.items():
        model = doxa.fit(train, valid, time_budget=arguments.budget, workers=os.cpu_count(), **settings)
        ours = doxa.evaluate(model, test, "entity", popularity=False).entity
        results[f"doxa {score}"] = {"mrr": ours.filtered.mrr, "hits@10": ours.filtered.hits[10]}
        questions = str(arguments.questions or 5000)
        theirs = pykeen(arguments, "quality", score, "--seconds", str(arguments.budget), "--questions", questions)
        results[f"pykeen {score}"] = {"mrr": theirs["mrr"], "hits@10": theirs["hits@10"]}
        print(json.dumps(results), flush=True)
    return results


def convergence(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds until the MRR of validation beliefs has 90 % of its highest value, and of that of doxa.

    The race and the validations of doxa count; those of the other library do not. `budget` ends the other library.
    """
    train, valid = (doxa.read(arguments.data / f"{part}.tsv") for part in ("train", "valid"))
    ours: list[tuple[float, float]] = []
    began = time.perf_counter()

    def note(progress: Progress) -> None:
        known = [mrr for _, mrr in ours[-1:]]
        if progress.stage == "training" and progress.metric is not None and progress.metric not in known:
            ours.append((time.perf_counter() - began, progress.metric))

    doxa.fit(train, valid, report=note, stop_on="entity")
    curves = {"doxa default": ours}
    whole = time.perf_counter() - began
    for style in ("default", "libkge"):
        more = ("--style", style, "--seconds", str(arguments.budget), "--questions", "500")
        interval = str(max(1.0, arguments.budget / 60))
        curves[f"pykeen {style}"] = pykeen(arguments, "curve", "complex", *more, "--interval", interval)["curve"]
    best = max(mrr for _, mrr in ours)
    results: dict[str, Any] = {"doxa seconds in all": whole, "budget of others": arguments.budget}
    for name, points in curves.items():
        highest = max(mrr for _, mrr in points)
        results[name] = {
            "highest MRR": highest,
            "seconds to 90 % of it": reached(points, 0.9 * highest),
            "seconds to 90 % of doxa's": reached(points, 0.9 * best),
            "curve": [(round(seconds, 1), round(mrr, 4)) for seconds, mrr in points],
        }
    return results


def reached(points: Sequence[tuple[float, float]], level: float) -> float | None:
    """The seconds until a curve has this level; none if it never has."""
    return next((seconds for seconds, mrr in points if mrr >= level), None)


def comparisons(arguments: argparse.Namespace, values: dict[str, Any]) -> float:
    """Entity candidates that doxa scores per second of training, heads and tails (relations not counted)."""
    torch.set_num_threads(os.cpu_count() or 1)
    beliefs = doxa.read(arguments.data / "train.tsv")
    settings = automatic(recipe(values), len(beliefs), len(beliefs.vocabularies.entities))
    steps = Steps(build(beliefs, settings), beliefs, settings)
    every = settings.training_estimator == "exact"
    each = sum(len(np.unique(side)) if every else settings.num_candidates for side in (beliefs.head, beliefs.tail))
    steps.warm_up()
    step, began = 0, time.perf_counter()
    while time.perf_counter() - began < arguments.seconds:
        steps.take(step, 0.0)
        step += 1
    return step * settings.batch_size * each / (time.perf_counter() - began)


def pykeen(arguments: argparse.Namespace, what: str, score: str, *more: str) -> dict[str, Any]:
    """Measurements of PyKEEN in its environment."""
    python = environment(arguments.home, "pykeen")
    script = Path(__file__).parent / "peers" / "pykeen_peer.py"
    command = [str(python), str(script), what, str(arguments.data), "--model", score,
               "--dimension", str(arguments.dimension), "--batch", str(arguments.batch),
               "--threads", str(os.cpu_count() or 1), *more]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def environment(home: Path, peer: str) -> Path:
    """The Python of the environment of a library; creates the environment if needed."""
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
