"""Shared tables: relations, words and scalars, which every task of an epoch moves.

The owner holds them. A task of this process moves the owner's arrays themselves. Tasks elsewhere move copies, and send
what has changed every SYNCHRONIZE steps; the owner adds the changes of all tasks and returns the rows that others have
changed. The sums of the optimizer are added, too, as they are by workers on shared tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from doxa.training.partitions.files import Columns

SYNCHRONIZE = 8
"""Steps from one merge to the next, at most: on FB15k with two nodes, 25 lost 1.7 points of MRR and 8 lost 1.4."""

Rows = dict[str, tuple[NDArray[np.int64], NDArray[Any]]]
"""By the name of a table, rows and their values (or what is to be added to them)."""


class Merged(NamedTuple):
    """The answer to a merge: how many merges there were, and the rows that others have changed since the last one."""

    version: int
    rows: Rows
    stop: bool


class Owner(Protocol):
    """What a task needs of the owner of the shared tables, wherever it is."""

    def begin(self, task: int) -> tuple[int, Columns]:
        """The number of merges so far and all tables; steps that this task reported earlier no longer count."""
        ...

    def merge(self, task: int, version: int, changes: Rows, beliefs: int, loss: float) -> Merged:
        """Add the changes of a task, which knows the merges up to `version`, and what it has trained so far."""
        ...


@dataclass
class SharedTables:
    """The owner: tables and optimizer sums by name, the merge that last changed each row, and what tasks report."""

    tables: Columns
    version: int = 0
    stop: bool = False
    beliefs: dict[int, int] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)
    repeated: int = 0
    changed: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def begin(self, task: int) -> tuple[int, Columns]:
        self.repeated += self.beliefs.pop(task, 0)
        self.losses.pop(task, None)
        return self.version, self.tables

    def merge(self, task: int, version: int, changes: Rows, beliefs: int, loss: float) -> Merged:
        news = self._changed_since(version)
        self.version += 1
        for name, (rows, delta) in changes.items():
            table = _as_rows(self.tables[name])
            table[rows] += delta
            self._last_change(name)[rows] = self.version
            others = news.get(name, (rows[:0],))[0]
            both = np.union1d(others, rows)
            news[name] = both, table[both]
        self.report(task, beliefs, loss)
        return Merged(self.version, news, self.stop)

    def report(self, task: int, beliefs: int, loss: float) -> None:
        """Note what a task has trained so far."""
        self.beliefs[task], self.losses[task] = beliefs, loss

    def progress(self) -> tuple[int, float]:
        """Beliefs that the tasks of the epoch have trained on so far, and their loss."""
        return sum(self.beliefs.values()), float(sum(self.losses.values()))

    def current(self) -> Columns:
        """All tables as they are now."""
        return self.tables

    def request_stop(self) -> None:
        """Let every task end after its next merge."""
        self.stop = True

    def new_epoch(self, tables: Columns) -> None:
        """Start an epoch with copies of these tables."""
        self.tables = {name: np.array(table) for name, table in tables.items()}
        self.version, self.stop, self.repeated = 0, False, 0
        self.beliefs, self.losses, self.changed = {}, {}, {}

    def _last_change(self, name: str) -> NDArray[np.int64]:
        if name not in self.changed:
            self.changed[name] = np.zeros(len(_as_rows(self.tables[name])), np.int64)
        return self.changed[name]

    def _changed_since(self, version: int) -> Rows:
        changes: Rows = {}
        for name, last in self.changed.items():
            rows = np.flatnonzero(last > version)
            if len(rows):
                changes[name] = rows, _as_rows(self.tables[name])[rows]
        return changes


class SharedCopy:
    """The tables of a task that is elsewhere than their owner."""

    def __init__(self, owner: Owner, task: int) -> None:
        self.owner, self.task, self.stop = owner, task, False
        self._version, tables = owner.begin(task)
        self.tables = {name: np.array(table) for name, table in tables.items()}
        self._base = {name: table.copy() for name, table in self.tables.items()}

    def merge(self, beliefs: int, loss: float) -> None:
        """Send what has changed since the last merge, take over what others have changed."""
        changes: Rows = {}
        for name, table in self.tables.items():
            now, base = _as_rows(table), _as_rows(self._base[name])
            rows = np.flatnonzero((now != base).reshape(len(now), -1).any(axis=1))
            if len(rows):
                changes[name] = rows, now[rows] - base[rows]
        answer = self.owner.merge(self.task, self._version, changes, beliefs, loss)
        self._version, self.stop = answer.version, answer.stop
        for name, (rows, values) in answer.rows.items():
            _as_rows(self.tables[name])[rows] = _as_rows(self._base[name])[rows] = values


def _as_rows(table: NDArray[Any]) -> NDArray[Any]:
    """A view of a table by rows; a scalar has one."""
    return table.reshape(1) if table.ndim == 0 else table
