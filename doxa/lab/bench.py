"""Benchmarks: the speed of training, ranking, answering and loading on this machine; `doxa.lab.store` has the store's.

Training and ranking figures come with a limit: the speed of the matrix products alone, with the same shapes. Both are
timed alternately in one process, so that a change in the machine's load affects both.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from doxa import formats
from doxa.config import Settings
from doxa.data import synthetic
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import BadFile, DoxaError
from doxa.evaluation.protocol import ranks
from doxa.lab.figures import Figure, peak_mb
from doxa.lab.store import store
from doxa.model import Model, fit
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS
from doxa.systems import build, recipe
from doxa.training.executors.workers import Workers
from doxa.training.loop import TrainingLoop
from doxa.training.plan import LARGE_BATCH_SIZE, automatic
from doxa.training.steps import Steps
from doxa.training.threads import ALONE, Threads, torch_threads

ROUNDS = 15
"""Alternating measurements of a task and its limit; the median is reported."""

STEPS_AT_ONCE = 4
"""Steps of training in a measurement: the first one finds the caches as another task left them."""

TURNS = 3
"""Turns of threads and workers; the median is reported."""

MIN_STEPS = 3
"""Fewest training steps per worker that a speed is computed from."""


def train(
    data: Path,
    scores: tuple[str, ...] = ("translation", "complex", "distmult", "rotate"),
    dimension: int = 400,
    batch_size: int = LARGE_BATCH_SIZE,
    num_candidates: int = 512,
    seconds: float = 20.0,
) -> Iterator[Figure]:
    """Training steps by one thread, by one per core and by one worker per core, against their matrix products.

    The limit of several threads or workers are the products on all cores: by torch's own threads, or several products
    at a time, whichever is faster. Everything is measured in turns; a ratio is the median of those of each round.
    """
    beliefs = _read(data, "train")
    cores = os.cpu_count() or 1
    shapes = {"dimension": dimension, "batch_size": batch_size, "num_candidates": num_candidates}
    for score in scores:
        settings = recipe({"score": score} | shapes)
        rounds, gains, by_workers, visited = [], [], [], batch_size * STEPS_AT_ONCE
        with _TrainingTasks(beliefs, settings, cores) as tasks:
            each = [tasks.alone, tasks.products_alone, *(tasks.on_all_cores() if cores > 1 else [])]
            for _ in range(TURNS):
                took = _rounds(each, seconds / TURNS, ROUNDS // TURNS)
                rounds += took
                if cores > 1:
                    by_workers.append(_worker_speed(beliefs, settings, cores, seconds / TURNS))
                    gains.append(by_workers[-1] * statistics.median(alone for alone, *_ in took) / visited)
        one, products, *on_all_cores = (visited / statistics.median(times) for times in zip(*rounds, strict=True))
        note = f"{dimension} × {batch_size} × {num_candidates}"
        yield Figure(f"training, {score}, 1 thread", one, "beliefs/s", products, note)
        if cores > 1:
            threads, by_torch, at_once = on_all_cores
            limits = {by_torch: f"products by {cores} threads", cores * at_once: f"{cores} products at a time"}
            gain = statistics.median(times[0] / times[2] for times in rounds)
            products_gain = statistics.median(cores * times[1] / min(times[3] * cores, times[4]) for times in rounds)
            note = f"{gain:.2f} × 1 thread; limit: {limits[max(limits)]}, {products_gain:.2f} × one"
            yield Figure(f"training, {score}, {cores} threads", threads, "beliefs/s", max(limits), note)
            note = f"{statistics.median(gains):.2f} × 1 thread; not exactly repeatable"
            yield Figure(f"{cores} workers, {score}", statistics.median(by_workers), "beliefs/s", max(limits), note)


class _TrainingTasks:
    """The next STEPS_AT_ONCE steps of training and their matrix products, by one thread or on all cores."""

    def __init__(self, beliefs: Beliefs, settings: Settings, cores: int) -> None:
        self.steps, self.products, self.cores = _steps(beliefs, settings), step_products(beliefs, settings), cores
        self.threads, self.number = Threads(cores), 0
        self.steps.warm_up()

    def __enter__(self) -> _TrainingTasks:
        self._one_thread = torch_threads(1)
        self._one_thread.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.close()
        self._one_thread.__exit__(None, None, None)

    def alone(self, threads: Threads = ALONE) -> None:
        self.steps.threads = threads
        with threads.apart():
            for _ in range(STEPS_AT_ONCE):
                self.steps.take(self.number % max(1, self.steps.per_epoch - 1), 0.0)  # the last batch is smaller
                self.number += 1

    def products_alone(self) -> None:
        for _ in range(STEPS_AT_ONCE):
            self.products()

    def on_all_cores(self) -> list[Callable[[], None]]:
        """Steps by all threads; the products by torch's threads; as many products as cores, all at a time."""
        return [partial(self.alone, self.threads), self._products_by_torch, self._products_at_once]

    def _products_by_torch(self) -> None:
        with torch_threads(self.cores):
            self.products_alone()

    def _products_at_once(self) -> None:
        with self.threads.apart():
            self.threads.run([self.products_alone] * self.cores)


def rank(data: Path, scores: tuple[str, ...] = ("translation", "complex"), dimension: int = 200) -> Iterator[Figure]:
    """Raw and filtered ranks of the whole test set, heads and tails, against the matrix products with all entities."""
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
        for slot in ENTITY_SLOTS:
            ranks(pbe, slot, test.take(np.arange(min(500, len(test)))), known)  # builds the index of known facts

        def rank_all(pbe: PBE = pbe) -> None:
            for slot in ENTITY_SLOTS:
                ranks(pbe, slot, test, known)

        points = torch.randn(next(pbe.blocks(len(test), pbe.entities)).size, dimension)
        table = pbe.score.entity.weight.detach()
        blocks = 2 * sum(1 for _ in pbe.blocks(len(test), pbe.entities))

        def products(points: torch.Tensor = points, table: torch.Tensor = table, blocks: int = blocks) -> None:
            for _ in range(blocks):
                points @ table.T

        took, limit = _alternated([rank_all, products], 0.0, rounds=3)
        note = f"{2 * len(test):,} questions, {pbe.entities:,} candidates each; peak {peak_mb():,.0f} MB"
        yield Figure(f"ranking, {score}", took, "s", limit, note)


def answer(data: Path, dimension: int = 200) -> Iterator[Figure]:
    """Answering: one question from a cold start, questions one by one, and ten thousand in one call."""
    beliefs = _read(data, "train")
    test = _read(data, "test").positives().encode(beliefs.vocabularies)
    test = test.where(test.seen)
    valid = beliefs.take(np.arange(min(500, len(beliefs))))
    with tempfile.TemporaryDirectory() as folder:
        model = fit(beliefs, valid, score="translation", dimension=dimension, time_budget=1.0)
        model.save(Path(folder) / "model")
        vocabularies = test.vocabularies
        questions = [
            (vocabularies.entities[h], vocabularies.relations[r], "?")
            for h, r in zip(test.head[:10_000], test.relation[:10_000], strict=True)
        ]
        command = [sys.executable, "-c", "from doxa.cli import main; main()", "ask", str(Path(folder) / "model")]
        cold = [seconds_of(lambda: subprocess.run([*command, *questions[0]], check=True, capture_output=True))
                for _ in range(3)]  # fmt: skip
        yield Figure("a question from cold", statistics.median(cold), "s", None, "doxa ask, with the start of Python")
        loads = [seconds_of(lambda: Model.load(Path(folder) / "model")) for _ in range(5)]
        yield Figure("loading the model", statistics.median(loads), "s")
        loaded = Model.load(Path(folder) / "model")
        loaded.tails(*questions[0][:2])
        single = [seconds_of(partial(loaded.ask, [question])) for question in questions[:200]]
        yield Figure("a question", 1000 * statistics.median(single), "ms", None, "to a loaded model, ten answers")
        together = seconds_of(lambda: loaded.ask(questions))
        yield Figure(
            f"{len(questions):,} questions",
            len(questions) / together,
            "questions/s",
            None,
            "one call, ten answers each",
        )


def load(beliefs: int = 5_000_000, entities: int = 1_000_000, relations: int = 1000) -> Iterator[Figure]:
    """Reading and encoding a generated file in a separate process; its memory against the size of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "beliefs.tsv"
        formats.write(synthetic.frames(beliefs, entities, relations), path)
        size = path.stat().st_size / 2**20
        context = multiprocessing.get_context("spawn")
        answers: multiprocessing.SimpleQueue[tuple[float, float]] = context.SimpleQueue()
        process = context.Process(target=_load, args=(path, answers))
        process.start()
        process.join()
        if answers.empty():
            raise DoxaError("the process that read the file ended without a result; perhaps memory ran out")
        seconds, memory = answers.get()
        note = f"{beliefs:,} beliefs, {entities:,} entities, {size:,.0f} MB"
        yield Figure("reading and encoding", beliefs / seconds, "beliefs/s", None, note)
        yield Figure("memory for it", memory, "MB", None, f"{memory / size:.1f} × the file")


def growth(
    sizes: tuple[int, ...] = (10**4, 10**5, 10**6, 5 * 10**6),
    dimension: int = 100,
    batch_size: int = 512,
    num_candidates: int = 512,
    seconds: float = 10.0,
) -> Iterator[Figure]:
    """Training speed on generated graphs of growing numbers of entities."""
    values = {"dimension": dimension, "batch_size": batch_size, "num_candidates": num_candidates}
    settings = recipe({"score": "translation", **values})
    for entities in sizes:
        beliefs = synthetic.generate(1_000_000, entities, 100)
        with _TrainingTasks(beliefs, settings, 1) as tasks:
            step, limit = _alternated([tasks.alone, tasks.products], seconds)
        note = f"{dimension} × {batch_size} × {num_candidates}, 1 thread; peak {peak_mb():,.0f} MB"
        yield Figure(f"training, {entities:,} entities", batch_size / step, "beliefs/s", batch_size / limit, note)


KINDS: dict[str, Callable[..., Iterator[Figure]]] = {
    "train": train,
    "rank": rank,
    "answer": answer,
    "load": load,
    "growth": growth,
    "store": store,
}
"""The benchmarks by their names on the command line."""

WITHOUT_DATA = ("load", "growth", "store")
"""Benchmarks that generate their data."""


def _read(data: Path, part: str) -> Beliefs:
    path = getattr(formats.dataset(data), part)
    if path is None:
        raise BadFile(f"{data} has no {part} file", "choose a dataset folder with train, valid and test")
    return Beliefs.from_frames(formats.blocks(path))


def _steps(beliefs: Beliefs, settings: Settings) -> Steps:
    settings = automatic(settings, len(beliefs), len(beliefs.vocabularies.entities))
    return Steps(build(beliefs, settings), beliefs, settings)


def step_products(beliefs: Beliefs, settings: Settings) -> Callable[[], None]:
    """The matrix products of a step alone: per term one for the scores and one for the gradient of each side."""
    candidates = min(settings.num_candidates, len(beliefs.vocabularies.entities))
    relations = min(settings.num_candidates, len(beliefs.vocabularies.relations))
    points = torch.randn(settings.batch_size, settings.dimension)
    sides = [torch.randn(count, settings.dimension) for count in (candidates, candidates, relations)]
    tables = [torch.randn(settings.batch_size, len(side)) for side in sides]

    def products() -> None:
        for side, table in zip(sides, tables, strict=True):
            points @ side.T
            table @ side
            table.T @ points

    return products


def _alternated(tasks: Sequence[Callable[[], None]], seconds: float, rounds: int = ROUNDS) -> list[float]:
    """Median seconds of one call of each task, measured alternately; `seconds` is for all together."""
    return [statistics.median(times) for times in zip(*_rounds(tasks, seconds, rounds), strict=True)]


def _rounds(tasks: Sequence[Callable[[], None]], seconds: float, rounds: int) -> list[list[float]]:
    """Seconds of one call of each task in every round."""
    first = [max(seconds_of(task), seconds_of(task)) for task in tasks]
    calls = max(1, int(seconds / rounds / sum(first)))
    return [[seconds_of(task, calls) for task in tasks] for _ in range(rounds)]


def seconds_of(action: Callable[[], object], calls: int = 1) -> float:
    """Mean seconds of one call."""
    began = time.perf_counter()
    for _ in range(calls):
        action()
    return (time.perf_counter() - began) / calls


def _worker_speed(beliefs: Beliefs, settings: Settings, workers: int, seconds: float) -> float:
    """Beliefs per second of a short run with several workers, one thread each.

    On a busy machine the workers may take no step within `seconds`; the run is then repeated with twice the time.
    """
    steps = _steps(beliefs, settings.changed(time_budget=seconds, workers=workers, threads=1))
    state = TrainingLoop(steps).run(lambda steps: Workers(steps, workers))
    if state.step < MIN_STEPS * workers:
        return _worker_speed(beliefs, settings, workers, 2 * seconds)
    return state.step * len(beliefs) / steps.per_epoch / state.seconds


def _load(path: Path, answers: Any) -> None:
    before = peak_mb()
    seconds = seconds_of(lambda: Beliefs.from_frames(formats.blocks(path)))
    answers.put((seconds, peak_mb() - before))
