"""The index at millions of entities: build time, memory, latency, recall, and the error of probabilities.

    python experiments/index/run.py MODEL TEST_FILE [--entities 5000000] [--noise 0.3] [--questions 500] [--recall 0.95]

MODEL is a trained model folder with test beliefs of the same data. Its entity vectors are repeated until there are as
many entities as asked for. The first copy of an entity is the entity itself; further copies have normal noise on every
coordinate, `noise` times the root mean square of the entity's coordinates. Copies are candidates where the entity is.

Questions are test beliefs, half of them for heads and half for tails, one at a time, at the model's temperatures. They
are not the questions that recall was measured on when the index was built. Exact answers score every entity. `ask` is
the whole way from names to names, known facts marked. Seconds are those of the processor, of one thread, so that other
work on the machine does not count; wall clock is beside them.
Results are added to index.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

import doxa
from doxa.data.batch import Batch
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.index.entity_index import EntityIndex
from doxa.model import Model
from doxa.pbe import Distribution
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.storage import indexes
from doxa.systems import assemble

BLOCK = 100_000
TOP = 10

WARM_UP, TIMED_EXACT, AT_ONCE = 3, 10, 10
"""Questions of a slot that only warm up, those whose exact answers are timed, and those scored exactly at a time."""


def main() -> None:
    """Measure one size and add it to the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--cells", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("index.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    large = repeated(Model.load(options.model), options.entities, options.noise, options.seed)
    result = measure(large, doxa.read(options.test).encode(large.vocabularies).triples, options)
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    results[f"{large.settings.score} {options.entities} noise {options.noise:g}"] = result
    options.out.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n", encoding="utf-8")


def repeated(model: Model, count: int, noise: float, seed: int) -> Model:
    """The model with its entities repeated to `count`, in memory."""
    entities, random = len(model.vocabularies.entities), np.random.default_rng(seed)
    source = np.arange(count) % entities
    seen = [torch.from_numpy(np.flatnonzero(np.isin(source, model.pbe.seen[slot]))) for slot in ENTITY_SLOTS]
    words = len(model.vocabularies.words)
    with torch.device("meta"):
        pbe = assemble(
            model.settings, entities=count, relations=model.pbe.relations, words=words, seen_heads=seen[0],
            seen_tails=seen[1], draw=False,
        )  # fmt: skip
    vectors, first = torch.empty(count, model.settings.dimension), model.pbe.score.entity.weight.detach()
    for start in range(0, count, BLOCK):
        rows = first[torch.from_numpy(source[start : start + BLOCK])]
        size = noise * rows.square().mean(1, keepdim=True).sqrt()
        vectors[start : start + BLOCK] = rows + size * torch.from_numpy(random.standard_normal(rows.shape, np.float32))
    vectors[:entities] = first
    weights = model.pbe.state_dict() | {"score.entity.weight": vectors, "seen_heads": seen[0], "seen_tails": seen[1]}
    pbe.load_state_dict(weights, assign=True)
    pbe.count_loops(model.trained_facts)
    copy = pl.Series(np.arange(count) // entities).cast(pl.String)
    names = model.vocabularies.entities.names.gather(source)
    names = pl.select(pl.when(copy == "0").then(names).otherwise(names + " ~ " + copy)).to_series()
    vocabularies = Vocabularies(
        Vocabulary(names, "entity"), model.vocabularies.relations, model.vocabularies.words,
        places=model.settings.marks_places,
    )  # fmt: skip
    return replace(model, vocabularies=vocabularies, pbe=pbe.eval(), index=None)


def measure(model: Model, test: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """Build the index, store it, and compare its answers with exact ones."""
    began = time.monotonic(), time.process_time()
    before = peak_memory()
    model = model.build_index(options.recall, options.cells, memory=2**30, report=progress(began[0]))
    index = model.index
    assert index is not None
    result: dict[str, Any] = {
        "entities": options.entities,
        "dimension": model.settings.dimension,
        "noise": options.noise,
        "build_cpu_seconds": round(time.process_time() - began[1], 1),
        "build_wall_seconds": round(time.monotonic() - began[0], 1),
        "memory_before_mb": before,
        "build_peak_memory_mb": peak_memory(),
        "index": index.summary.as_dict(),
        "index_mb": stored_size(index),
    }
    random = np.random.default_rng(options.seed + 1)
    tables = [figures(model, index, slot, random.permutation(test)[: options.questions // 2]) for slot in ENTITY_SLOTS]
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    for name in ("cpu_ms", "wall_ms", "ask_cpu_ms", "exact_cpu_ms"):
        result[name] = spread(columns[name])
    result["questions"] = len(columns["recall"])
    result["recall"] = round(float(columns["recall"].mean()), 4)
    result["probability_error"] = spread(columns["error"])
    result["within_10_percent"] = round(float((columns["error"] <= 0.1).mean()), 4)
    result["standard_error"] = spread(columns["standard_error"])
    result["peak_memory_mb"] = peak_memory()
    return result


@torch.no_grad()
def figures(model: Model, index: EntityIndex, slot: Slot, triples: np.ndarray) -> dict[str, np.ndarray]:
    """For each question: milliseconds, recall, the error of the probabilities and the standard error stated."""
    temperature = getattr(model.calibration.temperatures, str(slot))
    names = ("cpu_ms", "wall_ms", "ask_cpu_ms", "exact_cpu_ms", "recall", "error", "standard_error")
    columns: dict[str, list[float]] = {name: [] for name in names}
    warm_up = np.concatenate([triples[:WARM_UP], triples])
    answers: list[Distribution] = []
    for triple in warm_up:
        with timed(columns["cpu_ms"], columns["wall_ms"]):
            answers.append(next(index.distributions(slot, batch_of(triple[None]), TOP, temperature=temperature)))
    for triple in warm_up:
        question = named(model, slot, triple)
        with timed(columns["ask_cpu_ms"], []):
            model.ask([question], TOP, use_index=True)
    for place in range(WARM_UP + TIMED_EXACT):
        with timed(columns["exact_cpu_ms"], []):
            exact_best(model, slot, warm_up[place : place + 1], temperature)
    answers = answers[WARM_UP:]
    for start in range(0, len(triples), AT_ONCE):
        best, log_totals = exact_best(model, slot, triples[start : start + AT_ONCE], temperature)
        for row, answer in enumerate(answers[start : start + AT_ONCE]):
            columns["recall"].append(float(torch.isin(best[row], best_of(answer)).double().mean()))
            columns["error"].append(abs(float(torch.exp(log_totals[row] - answer.log_total.double())) - 1))
            columns["standard_error"].append(0.0 if answer.relative_error is None else float(answer.relative_error))
    return {name: np.array(values[WARM_UP if name.endswith("_ms") else 0 :]) for name, values in columns.items()}


def exact_best(model: Model, slot: Slot, triples: np.ndarray, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The best answers by exact scores, and log Σ exp of each question."""
    exact = model.pbe.distribution(slot, batch_of(triples), temperature=temperature)
    return exact.columns[exact.logits.topk(TOP).indices], exact.log_total.double()


def named(model: Model, slot: Slot, triple: np.ndarray) -> tuple[str, str, str]:
    """The question of a triple by names, as users ask it."""
    entities, relations = model.vocabularies.entities, model.vocabularies.relations
    head, relation, tail = triple.tolist()
    return (
        ("?", relations[relation], entities[tail]) if slot is Slot.HEAD else (entities[head], relations[relation], "?")
    )


def batch_of(triples: np.ndarray) -> Batch:
    """The questions as a batch."""
    return Batch.of_triples(*torch.from_numpy(np.ascontiguousarray(triples.T)))


def best_of(answer: Distribution) -> torch.Tensor:
    """The best answers of the index."""
    return answer.columns[answer.logits[0].topk(min(TOP, len(answer.columns))).indices]


@contextmanager
def timed(processor: list[float], wall: list[float]) -> Iterator[None]:
    """Add the milliseconds of a block."""
    began = time.process_time(), time.monotonic()
    yield
    processor.append(1e3 * (time.process_time() - began[0]))
    wall.append(1e3 * (time.monotonic() - began[1]))


def spread(values: np.ndarray) -> dict[str, float]:
    """Median, 95th percentile and mean."""
    median, high = np.quantile(values, [0.5, 0.95])
    return {"median": round(float(median), 4), "p95": round(float(high), 4), "mean": round(float(values.mean()), 4)}


def progress(began: float) -> Callable[[float, str], None]:
    """Prints how far the index is, with seconds since the beginning."""
    return lambda share, what: print(f"{time.monotonic() - began:6.0f} s  {share:4.0%}  {what}", flush=True)


def stored_size(index: EntityIndex) -> float:
    """Size of the index's files in MB."""
    with tempfile.TemporaryDirectory() as folder:
        indexes.write(index, Path(folder))
        return round(sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6, 1)


def peak_memory() -> float:
    """The largest resident memory so far, in MB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


if __name__ == "__main__":
    main()
