"""A partitioned run: its files epoch by epoch, and what an epoch needs of them.

    start/            the model before the first epoch
    epoch-00001/      the entities' rows in P files, the shared tables, epoch.json; while it is trained also the rows
                      sorted by partition (cut-…), the beliefs sorted by task (beliefs-…), and versions of partitions

An epoch is whole when epoch.json is there. Of earlier ones the last and the best are kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.mentions import Ragged
from doxa.data.triples import TripleIndex
from doxa.errors import BadFile
from doxa.pbe import PBE
from doxa.scores import Mention
from doxa.training.optimizers import constrain
from doxa.training.partitions.buckets import write_buckets
from doxa.training.partitions.cuts import Cut, Pair, Plan
from doxa.training.partitions.files import Columns, Storage
from doxa.training.partitions.shared import SharedTables
from doxa.training.partitions.tables import (
    ID,
    WholeSizes,
    entity_blocks,
    entity_names,
    gather_partition,
    load_entities,
    load_shared,
    shared_columns,
    write_cut,
)
from doxa.training.partitions.tasks import Task

START, NOTE, SHARED = "start", "epoch.json", "shared"
FOLDER = re.compile(rf"{START}|epoch-\d{{5,}}b*")


@dataclass
class Epoch:
    """An epoch under way: its tasks, the latest version of every partition that has one, and the tasks in these."""

    number: int
    folder: str
    tasks: list[Task]
    cut_files: list[str]
    versions: dict[int, str] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)

    def read_partition(self, storage: Storage, partition: int) -> Columns:
        """The latest version of a partition; at the start of an epoch it is gathered from the files of the cut."""
        if partition in self.versions:
            return storage.read(self.versions[partition])
        return gather_partition(storage, self.cut_files, partition)

    def version_name(self, partition: int, task: int) -> str:
        """The file of a partition after a task; a task that is run again writes the same file."""
        return f"{self.folder}/part-{partition:05d}-{task:05d}"


class PartitionedRun:
    """The work of a training loop whose tables are in partitions. `pbe` has the weights of the last whole epoch."""

    def __init__(
        self, pbe: PBE, beliefs: Beliefs, settings: Settings, folder: Path, facts: TripleIndex | None = None
    ) -> None:
        self.pbe, self.beliefs, self.settings = pbe, beliefs, settings
        self.storage = Storage(settings.storage or str(folder))
        self.sizes = WholeSizes.of(pbe, settings)
        bernoulli = settings.objective == "margin" and settings.corruption == "bernoulli"
        needs_facts = settings.filter_negatives or settings.max_answers or bernoulli
        self.facts = (facts or TripleIndex(beliefs.triples, pbe.entities, pbe.relations)) if needs_facts else None
        self.current, self.best = "", ""
        self.shared = SharedTables({})

    @property
    def per_epoch(self) -> int:
        return math.ceil(len(self.beliefs) / self.settings.batch_size)

    @property
    def partitions(self) -> int:
        return min(self.settings.partitions, self.pbe.entities)

    def snapshots(self) -> PartitionedRun:
        return self

    def start(self) -> None:
        """Write the model as it is now, unless the run goes on from files."""
        if self.current:
            return
        remove_epochs(self.storage)
        constrain(self.pbe, self.settings.entity_norm)
        self.shared.new_epoch(shared_columns(self.pbe, self.settings))
        names = []
        for number, block in enumerate(entity_blocks(self.pbe, self.settings)):
            names.append(f"{START}/block-{number:05d}")
            self.storage.write(names[-1], block)
        self._finish(START, 0, names)

    def begin(self, number: int, rounds: Sequence[Sequence[Pair]]) -> Epoch:
        """Cut the entities anew, and sort rows and beliefs by where this epoch needs them."""
        folder = f"epoch-{number + 1:05d}"
        while folder in (self.current, self.best):  # an epoch that was interrupted, and goes on from its own files
            folder += "b"
        self.storage.remove(folder)
        cut = Cut.draw(self.pbe.entities, self.partitions, self.settings.seed, number)
        plan, cut_files = Plan(rounds, self.partitions), list[str]()
        for source in self._files(self.current):
            cut_files.append(f"{folder}/cut-{len(cut_files):05d}")
            write_cut(self.storage, cut_files[-1], self.storage.read(source), cut)
        counts = write_buckets(self.storage, folder, self._step_beliefs, cut, plan)
        before = np.cumsum(counts) - counts
        first = number * self.per_epoch + before // self.settings.batch_size
        tasks = [Task(task, pair, number, int(first[task]), int(counts[task])) for task, pair in enumerate(plan.tasks)]
        self.shared.new_epoch(self.storage.read(f"{self.current}/{SHARED}"))
        return Epoch(number, folder, tasks, cut_files)

    @property
    def _step_beliefs(self) -> Beliefs:
        """The beliefs with the words that steps train on: none where words are trained by themselves."""
        if isinstance(self.pbe.mention, Mention) or not len(self.beliefs.mention.values):
            return self.beliefs
        beliefs = self.beliefs
        columns = (beliefs.head, beliefs.relation, beliefs.tail, Ragged.empty(len(beliefs)), beliefs.confidence)
        return Beliefs(beliefs.vocabularies, *columns)

    def commit(self, epoch: Epoch, shared: Columns) -> None:
        """Make the latest versions the weights of the epoch, remove what it needed meanwhile, and load the model."""
        self.shared.tables = shared
        for partition in range(self.partitions):
            if partition not in epoch.versions:
                name = epoch.version_name(partition, len(epoch.tasks))
                self.storage.write(name, epoch.read_partition(self.storage, partition))
                epoch.versions[partition] = name
        before = self.current
        files = [epoch.versions[each] for each in range(self.partitions)]
        self._finish(epoch.folder, epoch.number + 1, files, epoch.done)
        kept = {name.rpartition("/")[2] for name in self._files(self.current)} | {NOTE, SHARED}
        for name in set(self.storage.names(epoch.folder)) - kept:
            self.storage.remove(f"{epoch.folder}/{name}")
        remove_epochs(self.storage, {self.current, before, self.best})
        self._load()

    def _finish(self, folder: str, epoch: int, files: list[str], tasks: Sequence[int] = ()) -> None:
        """Write what makes the files of an epoch whole; `tasks` are the numbers of those trained, in their order."""
        self.storage.write(f"{folder}/{SHARED}", self.shared.tables)
        sums = {name: self.storage.checksum(name) for name in (*files, f"{folder}/{SHARED}")}
        note = {"epoch": epoch, "entities": self.pbe.entities, "files": files, "tasks": list(tasks), "sha256": sums}
        self.storage.write_note(f"{folder}/{NOTE}", note)
        self.storage.checksum(f"{folder}/{NOTE}")
        self.current = folder

    def _check(self, folder: str) -> None:
        """Refuse the files of an epoch that are not as they were written; those of earlier versions have no sums."""
        for name, expected in self.storage.read_note(f"{folder}/{NOTE}").get("sha256", {}).items():
            if self.storage.checksum(name) != expected:
                raise BadFile(f"{self.storage.path(name)} of a partitioned run is damaged: its checksum is another one")

    def _files(self, folder: str) -> list[str]:
        return list(self.storage.read_note(f"{folder}/{NOTE}")["files"])

    def _load(self) -> None:
        """Copy the weights of the present epoch into the model."""
        load_shared(self.pbe, self.storage.read(f"{self.current}/{SHARED}"))
        for name in self._files(self.current):
            load_entities(self.pbe, self.storage.read(name, [ID, *entity_names(self.pbe)]))

    # Snapshots
    every_epoch = True

    @property
    def has_best(self) -> bool:
        return bool(self.best)

    def keep_best(self) -> None:
        self.best = self.current

    def restore_best(self) -> None:
        if self.best and self.best != self.current:
            self.current = self.best
            self._load()

    def save(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {"storage": self.settings.storage, "epoch": self.current, "best": self.best}

    def load(self, tensors: dict[str, Tensor], files: dict[str, Any]) -> None:
        if files.get("storage") != self.settings.storage:
            place = files.get("storage") or "the model folder"
            raise BadFile(f"the partitions of this run are in {place}", "resume it with the same storage")
        self.current, self.best = str(files["epoch"]), str(files["best"])
        for folder in sorted({self.current, self.best} - {""}):
            self._check(folder)
        self._load()


def remove_epochs(storage: Storage, kept: Collection[str] = ()) -> None:
    """Remove the files of all epochs but these."""
    for folder in storage.names():
        if FOLDER.fullmatch(folder) and folder not in kept:
            storage.remove(folder)
