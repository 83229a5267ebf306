"""Model versions and jobs: which model was trained on which snapshot, which one is live, and what is being done."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from doxa.errors import BadModel, UnknownName, one_of
from doxa.storage import folders
from doxa.storage.store.connect import lock_log, now
from doxa.storage.store.schema import job, model_version

if TYPE_CHECKING:
    from doxa.storage.store.knowledge_base import KnowledgeBase

STATES = ("live", "candidate", "retired")


@dataclass(frozen=True)
class ModelVersion:
    """A model folder, the snapshot it was trained on, and its figures. One version is live."""

    id: int
    folder: Path
    sha256: str | None
    snapshot: int
    parent: int | None
    created: int
    state: str
    reason: str | None
    figures: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"folder": str(self.folder)}


def checksum(folder: str | Path) -> str | None:
    """The checksum of the model in a folder; models of earlier versions have none."""
    return folders.read_manifest(Path(folder)).get("sha256")


class ModelVersions:
    """The models of a knowledge base. Folders beside a SQLite file are stored relative to it."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    def register(
        self,
        folder: str | Path,
        snapshot: int,
        *,
        state: str | None = None,
        parent: int | None = None,
        reason: str | None = None,
        sha256: str | None = None,
        figures: Mapping[str, Any] | None = None,
    ) -> ModelVersion:
        """Record a model folder. A live version retires the former one; without `state`, the first version is live.

        A version that would be live stays a candidate if another one than its `parent` has become live meanwhile.
        Earlier versions in the same folder are gone, and retire.
        """
        if state is not None:
            one_of("state", state, STATES)
        with self.kb.writing() as connection:
            lock_log(connection)
            gone = sa.update(model_version).where(
                model_version.c.folder == self._stored(Path(folder)), model_version.c.state != "retired"
            )
            connection.execute(gone.values(state="retired", reason="another model was written to its folder"))
            live = connection.execute(sa.select(model_version.c.id).where(model_version.c.state == "live")).scalar()
            state = state or ("live" if live is None else "candidate")
            if state == "live" and parent is not None and live != parent:
                state, reason = "candidate", f"version {live} has become live meanwhile; update again"
            if state == "live":
                former = model_version.c.state == "live"
                connection.execute(sa.update(model_version).where(former).values(state="retired"))
            values = {
                "folder": self._stored(Path(folder)), "snapshot": snapshot, "state": state, "parent": parent,
                "reason": reason, "sha256": sha256, "created": now(),
                "figures": json.dumps(dict(figures), sort_keys=True) if figures else None,
            }  # fmt: skip
            row = connection.execute(sa.insert(model_version).values(values).returning(model_version)).one()
            return self._version(row)

    def live(self) -> ModelVersion | None:
        """The live version."""
        return next((one for one in self.all() if one.state == "live"), None)

    def all(self) -> list[ModelVersion]:
        """All versions, in order."""
        with self.kb.reading() as connection:
            rows = connection.execute(sa.select(model_version).order_by(model_version.c.id)).all()
            return [self._version(row) for row in rows]

    def get(self, number: int) -> ModelVersion:
        """A version by its number."""
        versions = {one.id: one for one in self.all()}
        if number not in versions:
            known = f"the last one is {max(versions)}" if versions else "there is no model yet"
            raise UnknownName(f"no model version {number}", known)
        return versions[number]

    @staticmethod
    def folder_of(version: ModelVersion) -> Path:
        """The folder of a version; refused if it holds another model by now."""
        if version.sha256 is not None and checksum(version.folder) != version.sha256:
            raise BadModel(
                f"{version.folder} does not hold version {version.id}: another model was written there",
                "publish another version, or train again",
            )
        return version.folder

    def publish(self, number: int) -> None:
        """Make a version live."""
        self.folder_of(self.get(number))
        with self.kb.writing() as connection:
            lock_log(connection)
            former = model_version.c.state == "live"
            connection.execute(sa.update(model_version).where(former).values(state="retired"))
            chosen = model_version.c.id == number
            connection.execute(sa.update(model_version).where(chosen).values(state="live"))
            self.kb.accounts.record_within(connection, f"publish model version {number}")

    @property
    def _base(self) -> Path | None:
        return None if self.kb.place.is_postgres else self.kb.place.path.resolve().parent

    def _stored(self, folder: Path) -> str:
        path, base = folder.resolve(), self._base
        return os.path.relpath(path, base) if base is not None and path.is_relative_to(base) else str(path)

    def _version(self, row: Row[Any]) -> ModelVersion:
        base = self._base
        folder = Path(row.folder) if base is None else base / row.folder
        figures = json.loads(row.figures) if row.figures else {}
        return ModelVersion(
            row.id, folder, row.sha256, row.snapshot, row.parent, row.created, row.state, row.reason, figures
        )


class Jobs:
    """Long tasks that a server runs: waiting, running, done or failed."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    def add(self, kind: str, settings: Mapping[str, Any] | None = None) -> int:
        """Put a task into the list; its number."""
        values = {"kind": kind, "state": "waiting", "created": now(), "settings": json.dumps(dict(settings or {}))}
        with self.kb.writing() as connection:
            return int(connection.execute(sa.insert(job).values(values).returning(job.c.id)).scalar_one())

    def start(self) -> dict[str, Any] | None:
        """Take the first waiting task, by one statement; None if nothing waits."""
        with self.kb.writing() as connection:
            waiting = sa.select(job.c.id).where(job.c.state == "waiting").order_by(job.c.id).limit(1)
            if connection.dialect.name == "postgresql":
                waiting = waiting.with_for_update(skip_locked=True)
            taken = sa.update(job).where(job.c.id == waiting.scalar_subquery(), job.c.state == "waiting")
            row = connection.execute(taken.values(state="running", started=now()).returning(job)).mappings().first()
            return None if row is None else dict(row) | {"settings": json.loads(row["settings"] or "{}")}

    def report(self, number: int, progress: float, message: str = "") -> None:
        """Record how far a task is."""
        with self.kb.writing() as connection:
            connection.execute(sa.update(job).where(job.c.id == number).values(progress=progress, message=message))

    def finish(self, number: int, *, failed: bool = False, message: str = "") -> None:
        """Record the end of a task."""
        values = {"state": "failed" if failed else "done", "finished": now(), "message": message}
        with self.kb.writing() as connection:
            connection.execute(sa.update(job).where(job.c.id == number).values(values))

    def all(self) -> list[dict[str, Any]]:
        """All tasks, in order."""
        with self.kb.reading() as connection:
            return [dict(row) for row in connection.execute(sa.select(job).order_by(job.c.id)).mappings()]
