"""Cuts of the entities into partitions, and the order in which pairs of partitions are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from doxa.data.vocabulary import Ids

Pair = tuple[int, ...]
"""One or two partitions, ascending."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Every entity's partition and its row there, (n,) each. Rows of a partition are in the order of the ids."""

    partition: NDArray[np.int32]
    row: NDArray[np.int32]
    sizes: Ids

    @classmethod
    def draw(cls, entities: int, partitions: int, seed: int, epoch: int) -> Cut:
        """A random cut into partitions whose sizes differ by at most one, drawn anew for every epoch."""
        random = np.random.default_rng([seed, 5, epoch])
        partition = (random.permutation(entities) % partitions).astype(np.int32)
        sizes = np.bincount(partition, minlength=partitions)
        order = np.argsort(partition, kind="stable")
        row = np.empty(entities, np.int32)
        row[order] = np.arange(entities) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return cls(partition, row, sizes)


def tournament(partitions: int) -> list[list[Pair]]:
    """Rounds of pairs: every two partitions meet once, and no partition is in two pairs of a round.

    The circle method: the first partition stays, the others move on by one place. With an odd number one partition has
    no opponent in each round; in the first round it is alone, so that its own bucket is trained then, too.
    """
    places: list[int | None] = [*range(partitions), *([None] if partitions % 2 else [])]
    rounds: list[list[Pair]] = []
    for number in range(max(1, len(places) - 1)):
        half = len(places) // 2
        opposite = zip(places[:half], reversed(places[half:]), strict=True)
        pairs = [tuple(sorted(each for each in pair if each is not None)) for pair in opposite]
        rounds.append([pair for pair in pairs if len(pair) == 2 or number == 0])
        places = [places[0], places[-1], *places[1:-1]]
    return rounds


def sequence(partitions: int) -> list[list[Pair]]:
    """The same pairs one at a time, each with a partition of the pair before it, so that few partitions are moved."""
    pairs: list[Pair] = [(0,)] if partitions == 1 else []
    for first in range(partitions - 1):
        others = range(first + 1, partitions)
        pairs += [(first, other) for other in (reversed(others) if first % 2 else others)]
    return [[pair] for pair in pairs]


@dataclass(frozen=True)
class Plan:
    """The tasks of an epoch in rounds; those of one round have no partition in common."""

    rounds: Sequence[Sequence[Pair]]
    partitions: int

    @cached_property
    def tasks(self) -> list[Pair]:
        """All pairs in their order; the number of a task is its place here."""
        return [pair for each in self.rounds for pair in each]

    @cached_property
    def task_of_bucket(self) -> NDArray[np.int32]:
        """(P, P): the task that trains the beliefs with their head in one partition and their tail in another.

        A bucket of one partition belongs to the first task that has this partition.
        """
        tasks = np.full((self.partitions, self.partitions), -1, np.int32)
        for number, pair in enumerate(self.tasks):
            for head in pair:
                for tail in pair:
                    if tasks[head, tail] < 0:
                        tasks[head, tail] = number
        return tasks
