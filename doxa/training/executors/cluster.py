"""A Ray cluster: tasks without a common partition run side by side, on as many cores as the cluster has.

Ray starts tasks, moves arrays and says what was lost; it holds nothing that is not in files, too. A task reads its
partitions from the object store while they are there, else from their files, and writes new versions. A task whose
worker or node is lost is started again from the same versions. Its relation steps may then count twice: the owner of
the shared tables had added them already. The owner is an actor on the node of this process, so it ends with the run.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from doxa.cluster.connection import connected, cores_of, error_of, is_lost, on_this_node
from doxa.config import Settings
from doxa.data.triples import TripleIndex
from doxa.errors import DoxaError
from doxa.training.executors import EpochProgress, Fraction
from doxa.training.partitions.buckets import read_bucket
from doxa.training.partitions.cuts import tournament
from doxa.training.partitions.files import Columns, Storage
from doxa.training.partitions.run import Epoch, PartitionedRun
from doxa.training.partitions.shared import SYNCHRONIZE, Merged, Rows, SharedCopy, SharedTables
from doxa.training.partitions.tables import WholeSizes
from doxa.training.partitions.tasks import Task, TaskRun
from doxa.training.threads import Threads, torch_threads

log = logging.getLogger(__name__)

POLL = 0.2
"""Seconds between two looks at the tasks."""

ATTEMPTS = 20
"""Times that a task is started before the run gives up."""

CACHE_SECONDS = 60.0
"""Seconds to wait for a partition in the object store before its file is read."""

CACHE_SHARE = 0.3
"""Share of the cluster's object stores that all partitions may take; above it, files alone are used."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """What all tasks of a run need besides files."""

    storage: Storage
    settings: Settings
    sizes: WholeSizes
    facts: TripleIndex | None
    cache: bool


class RemoteOwner:
    """The shared tables of an actor, as a task asks for them."""

    def __init__(self, actor: Any) -> None:
        import ray

        self._actor, self._get = actor, ray.get

    def begin(self, task: int) -> tuple[int, Columns]:
        version, tables = self._get(self._actor.begin.remote(task))
        return int(version), tables

    def merge(self, task: int, version: int, changes: Rows, beliefs: int, loss: float) -> Merged:
        return Merged(*self._get(self._actor.merge.remote(task, version, changes, beliefs, loss)))


class RayCluster:
    """Runs the tasks of an epoch on a Ray cluster."""

    exact = False

    def __init__(self, run: PartitionedRun, address: str) -> None:
        self.run, self._address = run, address
        self._stack = ExitStack()
        self._threads = max(1, run.settings.threads)
        self._stopped = False
        self.usage: Counter[str] = Counter()

    def warm_up(self) -> None:
        run = self.run
        cpus = run.settings.workers if run.settings.workers > 1 else 0
        self._ray = self._stack.enter_context(connected(self._address, cpus))
        scheduling = {"num_cpus": 0, "scheduling_strategy": on_this_node(self._ray)}
        self._owner = self._ray.remote(SharedTables).options(**scheduling).remote({})
        self._stack.callback(self._ray.kill, self._owner)
        store = self._ray.cluster_resources().get("object_store_memory", 0)
        table = 8.0 * sum(run.pbe.get_parameter(f"score.{name}.weight").numel() for name in run.pbe.score.entity_tables)
        cache = self._address != "local" and table < CACHE_SHARE * store
        inputs = Inputs(run.storage, run.settings, run.sizes, run.facts, cache)
        self._inputs = self._ray.put(inputs)
        self._train = self._ray.remote(train_task).options(max_retries=0, num_cpus=self._threads, num_returns=3)
        run.start()

    def run_epoch(self, steps: range, fraction: Fraction) -> Iterator[EpochProgress]:
        try:
            yield from self._tasks_of(steps, fraction)
        except self._ray.exceptions.RayError as fault:
            raise DoxaError(f"the cluster was lost: {str(fault).partition(chr(10))[0]}", "start it again") from fault

    def _tasks_of(self, steps: range, fraction: Fraction) -> Iterator[EpochProgress]:
        ray, run = self._ray, self.run
        epoch = run.begin(steps.start // run.per_epoch, tournament(run.partitions))
        ray.get(self._owner.new_epoch.remote(run.shared.tables))
        tasks = _Tasks([task for task in epoch.tasks if task.beliefs])
        while tasks.running or (tasks.waiting and not self._ended(fraction, tasks.waiting[0])):
            self._submit(epoch, tasks, fraction)
            if not tasks.running:  # the time of the run has ended meanwhile
                break
            done, _ = ray.wait(list(tasks.running), num_returns=1, timeout=POLL)
            for reference in done:
                self._collect(epoch, tasks, reference)
            beliefs, loss = ray.get(self._owner.progress.remote())
            whole = beliefs >= len(run.beliefs) and not tasks.running and not tasks.waiting
            yield EpochProgress(len(steps) if whole else min(beliefs // run.settings.batch_size, len(steps) - 1), loss)
        run.commit(epoch, ray.get(self._owner.current.remote()))

    def _ended(self, fraction: Fraction, task: Task) -> bool:
        return self._stopped or fraction(task.first_step) >= 1

    def _submit(self, epoch: Epoch, tasks: _Tasks, fraction: Fraction) -> None:
        """Start the first waiting tasks whose partitions no running task has, on the cores that there are."""
        at_a_time = max(1, cores_of(self._ray) // self._threads)
        busy = {partition for task in tasks.running.values() for partition in task.pair}
        for task in list(tasks.waiting):
            if len(tasks.running) >= at_a_time or self._ended(fraction, task):
                return
            if busy.isdisjoint(task.pair):
                cached = [tasks.cached.get(partition) for partition in task.pair]
                versions = {each: epoch.versions[each] for each in task.pair if each in epoch.versions}
                inputs = Epoch(epoch.number, epoch.folder, [], epoch.cut_files, versions)
                result, *parts = self._train.remote(self._inputs, inputs, task, self._owner, cached, fraction)
                tasks.start(task, result, parts)
                busy.update(task.pair)

    def _collect(self, epoch: Epoch, tasks: _Tasks, reference: Any) -> None:
        """Take the versions that a task has written; one that was lost waits to be started again."""
        task, parts = tasks.running.pop(reference), tasks.parts.pop(reference)
        try:
            names, usage = self._ray.get(reference)
        except Exception as fault:  # Ray raises many kinds
            if not is_lost(fault):
                raise _reported(error_of(fault)) from fault
            if tasks.attempts[task.number] >= ATTEMPTS:
                raise DoxaError(f"the cluster lost a task {ATTEMPTS} times: {fault}", "look at its nodes") from fault
            self.usage["lost"] += 1
            log.warning("a worker of partitions %s was lost; its task is run again, and steps of relations that it had "
                        "merged count twice", " and ".join(map(str, task.pair)))  # fmt: skip
            tasks.waiting.insert(0, task)
            return
        self.usage.update(usage)
        for partition, name, part in zip(task.pair, names, parts, strict=False):
            if partition in epoch.versions:  # no task reads it any more, not even one that is started again
                self.run.storage.remove(epoch.versions[partition])
            epoch.versions[partition] = name
            tasks.cached[partition] = part
        epoch.done.append(task.number)

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self._owner.request_stop.remote()

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the cluster may be gone
            self._stack.close()


class _Tasks:
    """The tasks of an epoch: those that wait, those that run, and the partitions that they left in the object store."""

    def __init__(self, waiting: list[Task]) -> None:
        self.waiting = waiting
        self.running: dict[Any, Task] = {}
        self.parts: dict[Any, list[Any]] = {}
        self.cached: dict[int, Any] = {}
        self.attempts: dict[int, int] = {}

    def start(self, task: Task, result: Any, parts: list[Any]) -> None:
        self.waiting.remove(task)
        self.running[result], self.parts[result] = task, parts
        self.attempts[task.number] = self.attempts.get(task.number, 0) + 1


def train_task(
    inputs: Inputs, epoch: Epoch, task: Task, actor: Any, cached: Sequence[Any], fraction: Fraction
) -> tuple[tuple[list[str], Counter[str]], Columns | None, Columns | None]:
    """One task in a worker of the cluster: the files of its new versions, what it used, and the versions themselves.

    The versions are for the object store, None where it is too small for them.
    """
    clock = _Clock()
    parts = [
        _from_cache(reference) or epoch.read_partition(inputs.storage, partition)
        for partition, reference in zip(task.pair, cached, strict=True)
    ]
    beliefs = read_bucket(inputs.storage, epoch.folder, task.number)
    clock.usage["bytes"] += sum(column.nbytes for part in parts for column in part.values())
    clock.add("reading")
    shared = SharedCopy(RemoteOwner(actor), task.number)
    threads = Threads(max(1, inputs.settings.threads))
    training = TaskRun(task, parts, beliefs, shared.tables, inputs.settings, inputs.sizes, inputs.facts, threads)
    del parts, beliefs  # which have been copied
    clock.add("starting")
    trained, loss = 0, 0.0
    with torch_threads(1):
        for steps, trained, loss in training.run(fraction, lambda: shared.stop):
            if steps % SYNCHRONIZE == 0:
                clock.add("steps")
                shared.merge(trained, loss)
                clock.add("merging")
    threads.close()
    clock.add("steps")
    versions = training.versions
    names = [epoch.version_name(partition, task.number) for partition in task.pair]
    for name, version in zip(names, versions, strict=True):
        clock.usage["bytes"] += inputs.storage.write(name, version)
    clock.add("writing")
    shared.merge(trained, loss)
    clock.add("merging")
    kept: list[Columns | None] = [*(versions if inputs.cache else [None] * len(versions)), None]
    return (names, clock.usage), kept[0], kept[1]


class _Clock:
    """Seconds that a task spends on each of its stages."""

    def __init__(self) -> None:
        self.usage: Counter[str] = Counter()
        self._last = time.monotonic()

    def add(self, stage: str) -> None:
        """The time since the last call belongs to this stage."""
        now = time.monotonic()
        self.usage[stage] += now - self._last  # type: ignore[assignment]
        self._last = now


def _from_cache(reference: Any) -> Columns | None:
    """A partition from the object store; None where it is not there, or lost."""
    import ray

    if reference is None:
        return None
    try:
        columns: Columns | None = ray.get(reference, timeout=CACHE_SECONDS)
    except ray.exceptions.RayError:
        return None
    return columns


def _reported(fault: BaseException) -> DoxaError:
    """The error of a task as one of doxa's."""
    if isinstance(fault, DoxaError):
        return fault
    return DoxaError(f"a worker of the cluster failed: {type(fault).__name__}: {fault}")
