"""Choice of the executor: one process, workers on shared tables, partitions one after the other, or a Ray cluster."""

from __future__ import annotations

from doxa.training.executors import Executor
from doxa.training.executors.cluster import RayCluster
from doxa.training.executors.partitioned import Partitioned
from doxa.training.executors.single import SingleProcess
from doxa.training.executors.workers import Workers
from doxa.training.partitions.run import PartitionedRun
from doxa.training.query_steps import QuerySteps
from doxa.training.steps import Steps


def default_executor(work: Steps | QuerySteps | PartitionedRun) -> Executor:
    """The executor that the settings of the work ask for."""
    workers, threads = work.settings.workers, max(1, work.settings.threads)
    if isinstance(work, PartitionedRun):
        return RayCluster(work, work.settings.cluster) if work.settings.cluster else Partitioned(work, threads)
    if workers == 1 or isinstance(work, QuerySteps):
        return SingleProcess(work, threads)
    return Workers(work, workers)
