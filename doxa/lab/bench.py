"""Benchmarks: how fast doxa is here, beside what the machine itself can do.

Every figure of training and ranking stands beside its limit: the bare matrix products of the same shapes, timed in the
same process in turns with it, so that a machine's moods touch both.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from doxa import __version__
from doxa import formats as files
from doxa.config import Settings
from doxa.data import synthetic as generate
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import DoxaError
from doxa.evaluation.protocol import ranks
from doxa.model import Model, fit
from doxa.pbe import PBE
from doxa.slots import Slot
from doxa.systems import build, recipe
from doxa.training.executors.workers import run_with_workers
from doxa.training.loop import Trainer

ROUNDS = 12
"""Turns of the thing measured and its limit; the median counts."""


@dataclass(frozen=True)
class Figure:
    """One thing measured. `limit` is what the machine can do, in the same unit; `note` says under what conditions."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def share(self) -> float | None:
        """How much of the limit is reached: of a speed its part, of a time its inverse."""
        if self.limit is None:
            return None
        return self.value / self.limit if self.unit.endswith("/s") else self.limit / self.value


@dataclass(frozen=True)
class Bench:
    """What was measured, where, with what."""

    figures: tuple[Figure, ...]
    machine: dict[str, Any] = field(default_factory=lambda: machine())

    def as_dict(self) -> dict[str, Any]:
        return {"figures": [asdict(figure) | {"share": figure.share} for figure in self.figures], **self.machine}


def machine() -> dict[str, Any]:
    """The processor, its cores, and the versions of what does the work."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    versions = {"doxa": __version__, "python": platform.python_version()}
    versions |= {package: version(package) for package in ("torch", "numpy", "polars")}
    return {"processor": name, "cores": os.cpu_count(), "versions": versions}


def train(
    data: Path,
    scores: tuple[str, ...] = ("translation", "complex"),
    dimension: int = 200,
    batch: int = 512,
    candidates: int = 512,
    seconds: float = 10.0,
) -> Iterator[Figure]:
    """Steps of training against their bare products, by one thread and by all; then two workers against one."""
    beliefs = _read(data, "train")
    cores = os.cpu_count() or 1
    for score in scores:
        settings = recipe({"score": score, "dimension": dimension, "batch": batch, "candidates": candidates})
        for threads in sorted({1, cores}):
            torch.set_num_threads(threads)
            step, bare = _in_turns(_stepper(beliefs, settings), _products(beliefs, settings), seconds)
            note = f"{dimension} × {batch} × {candidates}, {threads} thread{'s'[: threads != 1]}"
            yield Figure(f"training, {score}", batch / step, "beliefs/s", batch / bare, note)
        torch.set_num_threads(1)
        one = _crew(beliefs, settings, 1, seconds)
        note = f"{dimension} × {batch} × {candidates}, one thread each"
        yield Figure(f"1 worker, {score}", one, "beliefs/s", None, note)
        if cores > 1:
            several = _crew(beliefs, settings, cores, seconds)
            yield Figure(f"{cores} workers, {score}", several, "beliefs/s", cores * one, note)
        torch.set_num_threads(cores)


def rank(data: Path, scores: tuple[str, ...] = ("translation", "complex"), dimension: int = 200) -> Iterator[Figure]:
    """Raw and filtered ranks of the whole test set, heads and tails, against the bare products with all entities."""
    parts = {part: _read(data, part) for part in ("train", "valid", "test")}
    beliefs = parts["train"]
    test = parts["test"].positives().encode(beliefs.vocabularies)
    known = TripleIndex(
        np.concatenate([part.positives().encode(beliefs.vocabularies).triples for part in parts.values()]),
        len(beliefs.vocabularies.entities),
        len(beliefs.vocabularies.relations),
    )
    for score in scores:
        pbe = build(beliefs, recipe({"score": score, "dimension": dimension})).eval()
        ranks(pbe, Slot.TAIL, test.take(np.arange(min(500, len(test)))), known)  # the index of known facts is made once
        ranks(pbe, Slot.HEAD, test.take(np.arange(min(500, len(test)))), known)

        def whole(pbe: PBE = pbe) -> None:
            ranks(pbe, Slot.TAIL, test, known)
            ranks(pbe, Slot.HEAD, test, known)

        points = torch.randn(next(pbe.blocks(len(test), pbe.entities)).size, dimension)
        table = pbe.score.entity.weight.detach()
        blocks = 2 * sum(1 for _ in pbe.blocks(len(test), pbe.entities))

        def bare(points: torch.Tensor = points, table: torch.Tensor = table, blocks: int = blocks) -> None:
            for _ in range(blocks):
                points @ table.T

        took, limit = _in_turns(whole, bare, 0.0, rounds=3)
        note = f"{2 * len(test):,} questions, {pbe.entities:,} candidates each; peak {_peak_mb():,.0f} MB"
        yield Figure(f"ranking, {score}", took, "s", limit, note)


def answer(data: Path, dimension: int = 200) -> Iterator[Figure]:
    """A question from a cold start; one by one; and ten thousand together."""
    beliefs = _read(data, "train")
    test = _read(data, "test").positives().encode(beliefs.vocabularies)
    test = test.where(test.seen)
    with tempfile.TemporaryDirectory() as folder:
        model = fit(beliefs, beliefs.take(np.arange(min(500, len(beliefs)))), dimension=dimension, time_budget=1.0)
        model.save(Path(folder) / "model")
        vocabularies = test.vocabularies
        asked = [
            (vocabularies.entities[h], vocabularies.relations[r], "?")
            for h, r in zip(test.head[:10_000], test.relation[:10_000], strict=True)
        ]
        command = [sys.executable, "-c", "from doxa.cli import main; main()", "ask", str(Path(folder) / "model")]
        cold = [_seconds(lambda: subprocess.run([*command, *asked[0]], check=True, capture_output=True))
                for _ in range(3)]  # fmt: skip
        yield Figure("a question from cold", statistics.median(cold), "s", None, "doxa ask, start of Python included")
        loads = [_seconds(lambda: Model.load(Path(folder) / "model")) for _ in range(5)]
        yield Figure("loading the model", statistics.median(loads), "s")
        loaded = Model.load(Path(folder) / "model")
        loaded.tails(*asked[0][:2])
        single = [_seconds(partial(loaded.ask, [question])) for question in asked[:200]]
        yield Figure("a question", 1000 * statistics.median(single), "ms", None, "of a loaded model, ten answers")
        together = _seconds(lambda: loaded.ask(asked))
        yield Figure(
            f"{len(asked):,} questions", len(asked) / together, "questions/s", None, "together, ten answers each"
        )


def load(beliefs: int = 5_000_000, entities: int = 1_000_000, relations: int = 1000) -> Iterator[Figure]:
    """A generated file read and encoded in a process of its own; its memory against the size of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "beliefs.tsv"
        files.write(generate.frames(beliefs, entities, relations), path)
        size = path.stat().st_size / 2**20
        context = multiprocessing.get_context("spawn")
        answers: multiprocessing.SimpleQueue[tuple[float, float]] = context.SimpleQueue()
        process = context.Process(target=_load, args=(path, answers))
        process.start()
        process.join()
        if answers.empty():
            raise DoxaError("the process that read the file ended without an answer; perhaps memory ran out")
        seconds, memory = answers.get()
        note = f"{beliefs:,} beliefs, {entities:,} entities, {size:,.0f} MB"
        yield Figure("reading and encoding", beliefs / seconds, "beliefs/s", None, note)
        yield Figure("memory for it", memory, "MB", None, f"{memory / size:.1f} × the file")


def growth(
    sizes: tuple[int, ...] = (10**4, 10**5, 10**6, 5 * 10**6),
    dimension: int = 100,
    batch: int = 512,
    candidates: int = 512,
    seconds: float = 10.0,
) -> Iterator[Figure]:
    """The cost of a belief on graphs of more and more entities."""
    settings = recipe({"dimension": dimension, "batch": batch, "candidates": candidates})
    for entities in sizes:
        beliefs = generate.generate(1_000_000, entities, 100)
        step, bare = _in_turns(_stepper(beliefs, settings), _products(beliefs, settings), seconds)
        note = f"{dimension} × {batch} × {candidates}; peak {_peak_mb():,.0f} MB"
        yield Figure(f"training, {entities:,} entities", batch / step, "beliefs/s", batch / bare, note)


KINDS: dict[str, Callable[..., Iterator[Figure]]] = {
    "train": train,
    "rank": rank,
    "answer": answer,
    "load": load,
    "growth": growth,
}
"""By the name the command line knows them by."""

WITHOUT_DATA = ("load", "growth")
"""Those that make their own."""


def _read(data: Path, part: str) -> Beliefs:
    found = getattr(files.dataset(data), part)
    if found is None:
        raise DoxaError(f"{data} holds no {part} file", "give a dataset folder with train, valid and test")
    return Beliefs.from_frames(files.blocks(found))


def _stepper(beliefs: Beliefs, settings: Settings) -> Callable[[], None]:
    """A function that takes the next training step."""
    trainer = Trainer(build(beliefs, settings), beliefs, settings)
    trainer.warm_up()
    order, number = trainer.order(0), 0

    def step() -> None:
        nonlocal number
        trainer.step(number % (trainer.steps_per_epoch - 1), order, 0.0)
        number += 1

    return step


def _products(beliefs: Beliefs, settings: Settings) -> Callable[[], None]:
    """The products of a step and no more: per term one for the scores and one for the gradient of either side."""
    candidates = min(settings.num_candidates, len(beliefs.vocabularies.entities))
    relations = min(settings.num_candidates, len(beliefs.vocabularies.relations))
    points = torch.randn(settings.batch_size, settings.dimension)
    sides = [torch.randn(count, settings.dimension) for count in (candidates, candidates, relations)]
    tables = [torch.randn(settings.batch_size, len(side)) for side in sides]

    def bare() -> None:
        for side, table in zip(sides, tables, strict=True):
            points @ side.T
            table @ side
            table.T @ points

    return bare


def _in_turns(
    thing: Callable[[], None], limit: Callable[[], None], seconds: float, rounds: int = ROUNDS
) -> tuple[float, float]:
    """Median seconds of one call of each, measured in turns; `seconds` is for both together."""
    each = max(_seconds(thing), _seconds(thing))
    _seconds(limit)
    calls = max(1, int(seconds / rounds / 1.5 / each))
    took: list[tuple[float, float]] = []
    for _ in range(rounds):
        took.append((_seconds(thing, calls), _seconds(limit, calls)))
    return statistics.median(pair[0] for pair in took), statistics.median(pair[1] for pair in took)


def _seconds(action: Callable[[], object], calls: int = 1) -> float:
    """Seconds of one call, on average."""
    began = time.perf_counter()
    for _ in range(calls):
        action()
    return (time.perf_counter() - began) / calls


def _crew(beliefs: Beliefs, settings: Settings, workers: int, seconds: float) -> float:
    """Beliefs per second of a short run with so many workers, one thread each."""
    settings = settings.changed(time_budget=seconds, workers=workers, threads=1)
    trainer = Trainer(build(beliefs, settings), beliefs, settings)
    memory = run_with_workers(trainer, workers)
    return memory.step * len(beliefs) / trainer.steps_per_epoch / memory.seconds


def _load(path: Path, answers: Any) -> None:
    before = _peak_mb()
    seconds = _seconds(lambda: Beliefs.from_frames(files.blocks(path)))
    answers.put((seconds, _peak_mb() - before))


def _peak_mb() -> float:
    """The most memory this process has held. A child's own: what getrusage tells includes its parent's at its birth."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 2**20)
