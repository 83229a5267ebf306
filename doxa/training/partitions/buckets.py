"""Buckets: the beliefs of each task of an epoch, in files, with entities as rows of the task's partitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.data.beliefs import Beliefs, no_confidence
from doxa.data.mentions import Ragged
from doxa.data.vocabulary import Ids, Vocabularies
from doxa.training.partitions.cuts import Cut, Plan
from doxa.training.partitions.files import Columns, Storage, by_destination

CHUNK = 2_000_000
"""Beliefs that are sorted into buckets at a time."""

NO_NAMES = Vocabularies.empty()


def write_buckets(storage: Storage, folder: str, beliefs: Beliefs, cut: Cut, plan: Plan, chunk: int = CHUNK) -> Ids:
    """Write the beliefs sorted by task, a file for each chunk of them; returns how many each task has."""
    counts = np.zeros(len(plan.tasks), np.int64)
    for number, start in enumerate(range(0, len(beliefs), chunk)):
        rows = np.arange(start, min(start + chunk, len(beliefs)))
        head, tail = beliefs.head[rows], beliefs.tail[rows]
        task = plan.task_of_bucket[cut.partition[head], cut.partition[tail]]
        columns: Columns = {
            "head": local_rows(cut, plan, head, task),
            "relation": beliefs.relation[rows].astype(np.int32),
            "tail": local_rows(cut, plan, tail, task),
        }
        if not np.isnan(beliefs.confidence[rows]).all():
            columns["confidence"] = beliefs.confidence[rows]
        storage.write(f"{folder}/beliefs-{number:05d}", by_destination(columns, task, len(counts)))
        if len(beliefs.mention.values):
            mention = beliefs.mention.take(rows)
            words = {"words": mention.values}
            of_word = np.repeat(task, mention.lengths)
            storage.write(f"{folder}/words-{number:05d}", by_destination(words, of_word, len(counts)))
            lengths = {"lengths": mention.lengths}
            storage.write(f"{folder}/lengths-{number:05d}", by_destination(lengths, task, len(counts)))
        counts += np.bincount(task, minlength=len(counts))
    return counts


def read_bucket(storage: Storage, folder: str, task: int) -> Beliefs:
    """The beliefs of a task, in the order of the training beliefs."""
    names = storage.names(folder)
    parts = [storage.read_part(f"{folder}/{name}", task) for name in names if name.startswith("beliefs-")]
    words, lengths = (
        [storage.read_part(f"{folder}/{name}", task)[kind] for name in names if name.startswith(f"{kind}-")]
        for kind in ("words", "lengths")
    )
    head, relation, tail = (
        np.concatenate([part[key] for part in parts]).astype(np.int64) for key in ("head", "relation", "tail")
    )
    mention = Ragged.from_lengths(np.concatenate(words), np.concatenate(lengths)) if words else Ragged.empty(len(head))
    confidence = np.concatenate([part.get("confidence", no_confidence(len(part["head"]))) for part in parts])
    return Beliefs(NO_NAMES, head, relation, tail, mention, confidence)


def local_rows(cut: Cut, plan: Plan, entities: Ids, task: NDArray[np.int32]) -> NDArray[np.int32]:
    """The row of each entity in the tables of its task: the rows of the first partition, then those of the second."""
    first = np.array([pair[0] for pair in plan.tasks])[task]
    before = np.where(cut.partition[entities] == first, 0, cut.sizes[first]).astype(np.int32)
    return np.asarray(cut.row[entities] + before)
