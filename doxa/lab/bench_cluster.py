"""Benchmark of a Ray cluster on this machine: beliefs per second, bytes moved and time in steps, beside one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from doxa import formats
from doxa.cluster.connection import connected, cores_of
from doxa.data.beliefs import Beliefs
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
from doxa.training.work import Work

EPOCHS = 2

STAGES = ("reading", "starting", "steps", "merging", "writing")


def cluster(data: Path, dimension: int = 100, partitions: int = 8, address: str = "local") -> Iterator[Figure]:
    """An epoch in one process, in workers on shared tables, in partitions, and on a Ray cluster; the second one each.

    In the first epoch, processes start and load compiled loops.
    """
    beliefs = formats.read_beliefs(formats.dataset(data).train).positives()
    conditions = f"{len(beliefs):,} beliefs, dimension {dimension}"
    values = {"score": "translation", "dimension": dimension, "epochs": EPOCHS, "threads": 1, "partitions": partitions}
    settings = planned(recipe(values), len(beliefs), len(beliefs.vocabularies.entities))

    def steps() -> Work:
        return Steps(build(beliefs, settings), beliefs, settings)

    alone = _speed(steps(), lambda work: SingleProcess(work))
    yield Figure("1 process", alone, "beliefs/s", note=conditions)
    shared = _speed(steps(), lambda work: Workers(work, cores())) if cores() > 1 else alone
    yield Figure(f"{cores()} workers, shared tables", shared, "beliefs/s", note=conditions)
    with TemporaryDirectory(prefix="doxa-") as folder:
        run = PartitionedRun(build(beliefs, settings), beliefs, settings, Path(folder))
        one = _speed(run, lambda work: Partitioned(work))
        yield Figure(
            f"{partitions} partitions, 1 process", one, "beliefs/s", alone, "limit: 1 process without partitions"
        )
    with connected(address) as ray, TemporaryDirectory(prefix="doxa-") as folder:
        run = PartitionedRun(build(beliefs, settings), beliefs, settings, Path(folder))
        made: list[RayCluster] = []

        def executor(work: PartitionedRun) -> Executor:
            made.append(RayCluster(work, address))
            return made[-1]

        speed, count = _speed(run, executor), cores_of(ray)
        note = f"{partitions} partitions; limit: {cores()} workers on shared tables"
        yield Figure(f"Ray, {count} cores", speed, "beliefs/s", shared, note)
        yield from _usage(made[0], beliefs)


def _usage(executor: RayCluster, beliefs: Beliefs) -> Iterator[Figure]:
    """What the tasks of the epoch used."""
    usage = executor.usage
    seconds = sum(usage[stage] for stage in STAGES)
    yield Figure(
        "Ray, bytes moved", usage["bytes"] / len(beliefs) / EPOCHS, "bytes", note="per belief, read and written"
    )
    for stage in STAGES:
        yield Figure(f"Ray, time in {stage}", 100 * usage[stage] / seconds, "%", note="of the time of the tasks")


def _speed(work: Work, executor: ExecutorFactory) -> float:
    """Beliefs per second of the last epoch."""
    before, last = TrainingLoop(work).run(executor).curve[-2:]
    return len(work.beliefs) / (last.seconds - before.seconds)
