"""A task: the beliefs between one or two partitions, trained by the same steps as in a single process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.training.executors import Fraction
from doxa.training.partitions.cuts import Pair
from doxa.training.partitions.facts import LocalFacts
from doxa.training.partitions.files import Columns
from doxa.training.partitions.tables import ID, SEEN, WholeSizes, local_model, split_rows
from doxa.training.steps import Part, Steps
from doxa.training.threads import ALONE, Threads


@dataclass(frozen=True)
class Task:
    """What a task of an epoch trains. `first_step` is the step of a single process that its first batch stands for."""

    number: int
    pair: Pair
    epoch: int
    first_step: int
    beliefs: int


class TaskRun:
    """Runs a task on its partitions and on the shared tables, which are moved in place."""

    def __init__(
        self,
        task: Task,
        parts: Sequence[Columns],
        beliefs: Beliefs,
        shared: Columns,
        settings: Settings,
        sizes: WholeSizes,
        facts: TripleIndex | None = None,
        threads: Threads = ALONE,
    ) -> None:
        self.task = task
        self._parts = [{name: part[name] for name in (ID, SEEN)} for part in parts]
        self._pbe, self._sums, ids = local_model(settings, sizes, parts, shared)
        stream = task.pair if settings.partitions > 1 else ()
        known = None if facts is None else LocalFacts(facts, ids)
        self._steps = Steps(self._pbe, beliefs, settings, Part(stream, sizes.pool, self._sums, known))
        self._steps.threads = threads
        self._batch = settings.batch_size

    def warm_up(self) -> None:
        """Compile the loops; moves nothing."""
        self._steps.warm_up()

    def run(self, fraction: Fraction, stopped: Callable[[], bool]) -> Iterator[tuple[int, int, float]]:
        """Take all steps; yields how many steps, how many beliefs and what loss there were so far."""
        loss, steps = 0.0, self._steps
        first = self.task.epoch * steps.per_epoch
        for done in range(steps.per_epoch):
            share = fraction(self.task.first_step + done)
            if share >= 1 or stopped():
                return
            loss += steps.take(first + done, share)
            yield done + 1, min((done + 1) * self._batch, self.task.beliefs), loss

    @property
    def versions(self) -> list[Columns]:
        """The partitions as they are now."""
        return split_rows(self._pbe, self._sums, self._parts)
