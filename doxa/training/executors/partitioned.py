"""Partitions one after the other, in this process: at most two are in memory, the rest are in files."""

from __future__ import annotations

from collections.abc import Iterator

from doxa.training.executors import EpochProgress, Fraction
from doxa.training.partitions.buckets import read_bucket
from doxa.training.partitions.cuts import sequence
from doxa.training.partitions.files import Columns
from doxa.training.partitions.run import Epoch, PartitionedRun
from doxa.training.partitions.tasks import Task, TaskRun
from doxa.training.threads import Threads, torch_threads


class Partitioned:
    """Runs the tasks of an epoch one after the other, with so many threads."""

    exact = False

    def __init__(self, run: PartitionedRun, threads: int = 1) -> None:
        self.run = run
        self._threads = Threads(threads)
        self._stopped = self._warm = False
        self._in_memory: dict[int, Columns] = {}

    def warm_up(self) -> None:
        self.run.start()

    def run_epoch(self, steps: range, fraction: Fraction) -> Iterator[EpochProgress]:
        run = self.run
        epoch = run.begin(steps.start // run.per_epoch, sequence(run.partitions))
        beliefs, loss = 0, 0.0
        for task in epoch.tasks:
            if task.beliefs and not self._ended(fraction, task.first_step):
                trained, lost = 0, 0.0
                for _, trained, lost in self._train(epoch, task, fraction):
                    done = beliefs + trained
                    whole = done == len(run.beliefs)
                    yield EpochProgress(len(steps) if whole else done // run.settings.batch_size, loss + lost)
                beliefs, loss = beliefs + trained, loss + lost
        self._write(epoch, set())
        run.commit(epoch, run.shared.tables)

    def _ended(self, fraction: Fraction, step: int) -> bool:
        return self._stopped or fraction(step) >= 1

    def _train(self, epoch: Epoch, task: Task, fraction: Fraction) -> Iterator[tuple[int, int, float]]:
        """One task; its partitions stay in memory for the next one."""
        self._write(epoch, set(task.pair))
        run, storage = self.run, self.run.storage
        parts = [self._in_memory.pop(each) if each in self._in_memory else epoch.read_partition(storage, each)
                 for each in task.pair]  # fmt: skip
        beliefs = read_bucket(storage, epoch.folder, task.number)
        tables = run.shared.tables
        training = TaskRun(task, parts, beliefs, tables, run.settings, run.sizes, run.facts, self._threads)
        del parts, beliefs  # which have been copied
        with torch_threads(1):
            if not self._warm:
                training.warm_up()
                self._warm = True
            yield from training.run(fraction, lambda: self._stopped)
        self._in_memory = dict(zip(task.pair, training.versions, strict=True))
        epoch.done.append(task.number)

    def _write(self, epoch: Epoch, needed: set[int]) -> None:
        """Write the partitions in memory that the next task does not need."""
        for partition in set(self._in_memory) - needed:
            name = epoch.version_name(partition, 0)
            self.run.storage.write(name, self._in_memory.pop(partition))
            epoch.versions[partition] = name

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        self._threads.close()
