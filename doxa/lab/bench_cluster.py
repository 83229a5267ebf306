"""Benchmark of a Ray cluster on this machine: beliefs per second, bytes moved, time in products, beside one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from doxa import formats
from doxa.cluster.connection import connected, cores_of
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.lab.bench import seconds_of, step_products
from doxa.lab.figures import Figure
from doxa.systems import build, recipe
from doxa.training.executors import Executor
from doxa.training.executors.cluster import RayCluster
from doxa.training.executors.partitioned import Partitioned
from doxa.training.executors.single import SingleProcess
from doxa.training.executors.workers import Workers
from doxa.training.loop import ExecutorFactory, TrainingLoop
from doxa.training.partitions.run import PartitionedRun
from doxa.training.plan import cores, planned
from doxa.training.steps import Steps
from doxa.training.threads import torch_threads
from doxa.training.work import Work

EPOCHS, ROUNDS = 2, 3
"""Epochs of which the last is timed, and rounds in which all kinds take turns; the median counts. The speed of a shared
machine changes from minute to minute."""

PRODUCTS = 50
"""Steps whose matrix products are timed."""

STAGES = ("reading", "starting", "steps", "merging", "writing")


def cluster(data: Path, dimension: int = 100, partitions: int = 8, address: str = "local") -> Iterator[Figure]:
    """An epoch in one process, in workers on shared tables, in partitions, and on a Ray cluster; the second one each.

    In the first epoch, processes start and load compiled loops.
    """
    beliefs = formats.read_beliefs(formats.dataset(data).train).positives()
    values = {"score": "translation", "dimension": dimension, "epochs": EPOCHS, "threads": 1, "partitions": partitions}
    settings = planned(recipe(values), len(beliefs), len(beliefs.vocabularies.entities))
    made: list[RayCluster] = []

    def on_ray(work: PartitionedRun) -> Executor:
        made.append(RayCluster(work, address))
        return made[-1]

    def whole(executor: ExecutorFactory) -> float:
        return _speed(Steps(build(beliefs, settings), beliefs, settings), executor)

    def in_partitions(executor: ExecutorFactory) -> float:
        with TemporaryDirectory(prefix="doxa-") as folder:
            return _speed(PartitionedRun(build(beliefs, settings), beliefs, settings, Path(folder)), executor)

    with connected(address) as ray:
        kinds: list[Callable[[], float]] = [
            lambda: whole(SingleProcess),
            lambda: whole(lambda work: Workers(work, cores()) if cores() > 1 else SingleProcess(work)),
            lambda: in_partitions(Partitioned),
            lambda: in_partitions(on_ray),
        ]
        rounds = [[measure() for measure in kinds] for _ in range(ROUNDS)]
        on_cores = cores_of(ray)
    alone, shared, cut, on_cluster = (median(speeds) for speeds in zip(*rounds, strict=True))
    note = f"{len(beliefs):,} beliefs, dimension {dimension}; median of {ROUNDS} rounds"
    yield Figure("1 process", alone, "beliefs/s", note=note)
    yield Figure(f"{cores()} workers, shared tables", shared, "beliefs/s", note=note)
    yield Figure(f"{partitions} partitions, 1 process", cut, "beliefs/s", alone, "limit: 1 process without partitions")
    shares = ", ".join(f"{speeds[3] / speeds[1]:.2f}" for speeds in rounds)
    note = f"{partitions} partitions; limit: {cores()} workers on shared tables; by round {shares}"
    yield Figure(f"Ray, {on_cores} cores", on_cluster, "beliefs/s", shared, note)
    yield Figure("Ray, scaling", on_cluster / cut, "×", note=f"{on_cores} cores, against the same partitions on one")
    yield from _usage(made[-1], beliefs, settings)


def _usage(executor: RayCluster, beliefs: Beliefs, settings: Settings) -> Iterator[Figure]:
    """What the tasks of a run used, and the share of the matrix products alone, timed by one thread afterwards."""
    usage = executor.usage
    seconds = sum(usage[stage] for stage in STAGES)
    with torch_threads(1):
        products = seconds_of(step_products(beliefs, settings), PRODUCTS) * executor.run.per_epoch * EPOCHS
    yield Figure("Ray, time in products", 100 * products / seconds, "%", note="of the time of the tasks")
    yield Figure(
        "Ray, bytes moved", usage["bytes"] / len(beliefs) / EPOCHS, "bytes", note="per belief, read and written"
    )
    for stage in STAGES:
        yield Figure(f"Ray, time in {stage}", 100 * usage[stage] / seconds, "%", note="of the time of the tasks")


def _speed(work: Work, executor: ExecutorFactory) -> float:
    """Beliefs per second of the last epoch."""
    before, last = TrainingLoop(work).run(executor).curve[-2:]
    return len(work.beliefs) / (last.seconds - before.seconds)
