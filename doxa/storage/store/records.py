"""Reports and copies of a knowledge base: sizes, log, history, tables that go into git, PROV-O, backups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from sqlalchemy.engine import Connection

from doxa.data.atomic import written
from doxa.errors import UsageError
from doxa.storage.store import exchange, history, names, prov, versions
from doxa.storage.store.connect import connect, reading, writing
from doxa.storage.store.evidence import Splitter
from doxa.storage.store.place import Place, require_place, require_whole
from doxa.storage.store.publishing import ModelVersions

KIND_OF_SLOT = ("entity", "relation", "entity")


class Records:
    """The part of a knowledge base that looks back, and writes and reads its records."""

    place: Place
    engine: Any
    splitter: Splitter
    models: ModelVersions

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one moment."""
        with reading(self.engine, self.place) as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self, unchecked: bool = False) -> Iterator[Connection]:
        """A transaction that writes all or nothing; `unchecked` imports need no check of foreign keys."""
        require_whole(self.place)
        with writing(self.engine, self.place, unchecked) as connection:
            yield connection

    def close(self) -> None:
        """Close all connections; they open again when needed."""
        self.engine.dispose()

    def status(self) -> dict[str, Any]:
        """How much the knowledge base holds: beliefs, names, decisions, open proposals, the live model."""
        with self.reading() as connection:
            sizes = history.sizes(connection)
        live = self.models.live()
        return sizes | {"live_model": None if live is None else live.as_dict()}

    def entries(self, last: int | None = None) -> pl.DataFrame:
        """The decisions in order, by present names; with `last`, only the last ones."""
        with self.reading() as connection:
            return history.entries(connection, last=last)

    def history(self, head: str, relation: str, tail: str) -> dict[str, Any]:
        """Everything about a belief: whether it holds, what states it, and what was decided."""
        with self.reading() as connection:
            kinds = zip(KIND_OF_SLOT, (head, relation, tail), strict=True)
            ids = [(kind, names.require(connection, kind, name)) for kind, name in kinds]
            return history.of_fact(connection, [names.root(connection, kind, number) for kind, number in ids])

    def last_import(self, source: str, sha256: str) -> int | None:
        """The last effective import of the same content from the same source: the number of the decision, or None."""
        with self.reading() as connection:
            return history.last_import(connection, source, sha256)

    def write_log(self, path: str | Path) -> None:
        """Write every decision and assertion as TSV; `import_log` reads it into an empty knowledge base."""
        with self.reading() as connection:
            exchange.write_log(connection, Path(path))

    def import_log(self, path: str | Path) -> int:
        """Replay a log into this knowledge base, which must be empty; the number of decisions."""
        table = exchange.read_log(Path(path))
        with self.writing() as connection:
            return exchange.replay(connection, table, self.splitter)

    def decisions_table(self) -> pl.DataFrame:
        """The effective decisions of curators about beliefs, with labels; `import_decisions` reads them elsewhere."""
        with self.reading() as connection:
            return exchange.decisions_table(connection)

    def import_decisions(self, path: str | Path) -> int:
        """Append the decisions of a table (`decisions_table` as TSV) that are not in the log yet; how many they are."""
        rows = exchange.read_decisions(Path(path))
        with self.writing() as connection:
            return exchange.merge_decisions(connection, rows, self.splitter)

    def write_prov(self, path: str | Path) -> int:
        """Write the log as PROV-O in RDF, .ttl or .nt; the number of statements."""
        with self.reading() as connection:
            return prov.write(connection, Path(path))

    def backup(self, path: str | Path) -> None:
        """Write a copy as a SQLite file, which is a knowledge base of its own; nothing at `path` is replaced."""
        place = require_place(path)
        if place.is_postgres or place.path.exists():
            raise UsageError(f"{place} exists or is no file", "expected the name of a new file, such as backup.db")
        with written(place.path) as unfinished, self.reading() as connection:
            copy = Place(str(unfinished))
            engine = connect(copy)
            versions.create(engine, copy, {})
            with writing(engine, place) as target:
                exchange.copy_tables(connection, target)
            versions.finish(engine, place)
