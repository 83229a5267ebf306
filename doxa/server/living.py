"""A knowledge base as the source of a server: its live model, its versions, and its beliefs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from doxa.errors import CannotAnswer
from doxa.model import Model
from doxa.server.served import Change, Served, Source, manifest_version
from doxa.storage.store.knowledge_base import KnowledgeBase
from doxa.storage.store.log import STATUS
from doxa.storage.store.publishing import ModelVersion

TRIPLE = ["head", "relation", "tail"]


class StoreSource(Source):
    """The live model of a knowledge base; a version that is published later takes its place."""

    def __init__(self, kb: KnowledgeBase) -> None:
        super().__init__(Path())
        self.kb: KnowledgeBase = kb
        self._settled: tuple[int, pl.DataFrame] | None = None
        self._changes: tuple[tuple[str, int], list[Change]] | None = None
        self._loading = threading.Lock()

    @property
    def name(self) -> str:
        return self.kb.place.location.partition("?")[0].rpartition("/")[2]

    def refresh(self) -> bool:
        with self._loading:
            live = self.kb.models.live()
            if live is None or (self._current is not None and self._current.number == live.id):
                return False
            served = self.load(live)
            self._current = served if self._current is None else served.index_names()
            return True

    def load(self, version: ModelVersion) -> Served:
        """A version, ready to answer questions."""
        model = Model.load(self.kb.models.folder_of(version))
        return Served(model, f"{version.id}-{manifest_version(version.folder)}", version.id).warm()

    def publish(self, kb: KnowledgeBase, number: int) -> None:
        """Make a version live and put it in use; a version that cannot be loaded is not published."""
        served = self.load(kb.models.get(number)).index_names()
        with self._loading:
            kb.models.publish(number)
            self._current = served

    @property
    def current(self) -> Served:
        if self._current is None:
            raise CannotAnswer("the knowledge base has no live model", f"train one: doxa train {self.name} --out MODEL")
        return self._current

    def versions(self) -> list[dict[str, Any]]:
        return [version_dict(version) for version in self.kb.models.all()]

    def beliefs(self, split: str | None = None) -> Iterator[pl.DataFrame]:
        columns = [*TRIPLE, *self.kb.details()]
        for frame in self.kb.frames(split):
            yield frame.select(columns)

    def settled(self) -> pl.DataFrame:
        snapshot = self.kb.snapshot()
        if self._settled is None or self._settled[0] != snapshot:
            self._settled = snapshot, self.kb.settled()
        return self._settled[1]

    def changes(self) -> list[Change]:
        served, last = self.current, self.kb.snapshot()
        key = (served.version, last)
        if self._changes is None or self._changes[0] != key:
            first = self.kb.models.get(served.number).snapshot if served.number is not None else last
            self._changes = key, decided_between(self.kb, first, last)
        return self._changes[1]

    def store(self) -> KnowledgeBase:
        return self.kb


def decided_between(kb: KnowledgeBase, first: int, last: int) -> list[Change]:
    """The beliefs that were decided after a snapshot, in the order of the last decision about each."""
    changes: dict[tuple[str, ...], Change] = {}

    def note(row: dict[str, Any], tail: str, holds: bool) -> None:
        triple = (row["head"], row["relation"], tail)
        changes.pop(triple, None)
        changes[triple] = Change(*triple, holds, row["decision"], row["curator"])

    entries = kb.entries(last - first) if last > first else pl.DataFrame()
    for row in entries.iter_rows(named=True):
        if row["decision"] <= first or not row["effective"] or row["head"] is None:
            continue
        if row["verdict"] in STATUS:
            note(row, row["tail"], STATUS[row["verdict"]] > 0)
            if row["replacement"] is not None:
                note(row, row["replacement"], True)
        elif row["verdict"] == "undo" and row["undoes"] <= first:
            note(row, row["tail"], kb.holds(row["head"], row["relation"], row["tail"]))
    return list(changes.values())


def version_dict(version: ModelVersion) -> dict[str, Any]:
    """A version without the place of its folder, which is nobody's business outside."""
    return version.as_dict() | {"folder": version.folder.name}
