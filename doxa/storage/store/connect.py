"""Connections to a store: SQLite or PostgreSQL, transactions, and one clear error for each fault.

A write transaction excludes other writers of the log: SQLite by `BEGIN IMMEDIATE`, PostgreSQL by an advisory lock that
`lock_log` takes after rows of names and beliefs are written. So decisions have increasing ids and times.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from doxa.errors import BadStore, UsageError
from doxa.storage.store.place import Place, without_password

LOG_LOCK = 0x646F7861
"""Key of PostgreSQL's advisory lock on the log; also the application id of SQLite files: "doxa"."""

TIMEOUT = 30.0
"""Seconds to wait for another writer."""

SCHEMA = "doxa"
"""PostgreSQL schema of the tables, unless the URL says `?schema=NAME`."""

LOG_HEADER = 32
"""Bytes of SQLite's write-ahead log before the first transaction."""


def connect(place: Place, read_only: bool = False, timeout: float = TIMEOUT) -> Engine:
    """An engine for a store; nothing is read yet."""
    return _postgres(place, read_only, timeout) if place.is_postgres else _sqlite(place, read_only, timeout)


def _sqlite(place: Place, read_only: bool, timeout: float) -> Engine:
    """Connections stay open: closing the last one moves the write-ahead log into the file, which is slow."""
    path = place.path.resolve()
    mode = "ro" if read_only else "rw" if path.exists() else "rwc"
    query = {"mode": "ro", "immutable": "1"} if _is_frozen(path) else {"mode": mode}
    url = sa.URL.create("sqlite", database=f"file:{_quoted(str(path))}", query=query | {"uri": "true"})
    engine = sa.create_engine(url, connect_args={"timeout": timeout, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin where `begin` says, not at the first statement
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA temp_store = MEMORY")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        connection.exec_driver_sql(f"PRAGMA foreign_keys = {'OFF' if options.get('unchecked') else 'ON'}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")

    return engine


def _is_frozen(path: Path) -> bool:
    """Whether a store is in a folder where SQLite cannot make its write-ahead log, such as on a read-only disk."""
    log = path.with_name(f"{path.name}-wal")
    return path.exists() and not os.access(path.parent, os.W_OK) and not log.exists()


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def _postgres(place: Place, read_only: bool, timeout: float) -> Engine:
    if importlib.util.find_spec("psycopg") is None:
        raise UsageError("a knowledge base in PostgreSQL needs psycopg", "pip install 'doxa[postgres]'")
    try:
        url = sa.make_url(place.location).set(drivername="postgresql+psycopg")
    except (SQLAlchemyError, ValueError) as fault:
        raise UsageError(
            f"{place} is not a URL of PostgreSQL ({fault})", "expected postgresql://user@host/database"
        ) from None
    schema = str(url.query.get("schema", SCHEMA))
    engine = sa.create_engine(
        url.difference_update_query(["schema"]),
        pool_pre_ping=True,
        connect_args={"connect_timeout": int(timeout)} if "connect_timeout" not in url.query else {},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            quoted = schema.replace('"', '""')
            cursor.execute(f'SET search_path TO "{quoted}"')
            cursor.execute(f"SET lock_timeout = {int(timeout * 1000)}")
            if read_only:
                cursor.execute("SET default_transaction_read_only = on")
        connection.commit()

    return engine


def schema_of(place: Place) -> str:
    """The PostgreSQL schema of a store."""
    return str(sa.make_url(place.location).query.get("schema", SCHEMA))


@contextlib.contextmanager
def reading(engine: Engine, place: Place) -> Iterator[Connection]:
    """A transaction that sees one moment of the store."""
    with faults(place), engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


@contextlib.contextmanager
def writing(engine: Engine, place: Place, unchecked: bool = False) -> Iterator[Connection]:
    """A transaction that writes: all of it or nothing.

    `unchecked` is for imports, whose rows refer only to rows that the same transaction has looked up or inserted:
    SQLite does not look them up once more as foreign keys.
    """
    try:
        with faults(place), engine.connect() as plain:
            connection = plain.execution_options(writes=True, unchecked=unchecked)
            with connection.begin():
                yield connection
    except BadStore as fault:
        if _is_unsynced(fault.__cause__, place):
            engine.dispose()
        raise


def _is_unsynced(fault: BaseException | None, place: Place) -> bool:
    """Whether a transaction is in SQLite's write-ahead log and was refused because it did not reach the disk.

    The next process would take it for committed. Closing all connections removes the log without it.
    """
    if getattr(getattr(fault, "orig", fault), "sqlite_errorcode", None) != sqlite3.SQLITE_IOERR_FSYNC:
        return False
    log = place.path.with_name(f"{place.path.name}-wal")
    return log.exists() and log.stat().st_size > LOG_HEADER


def lock_log(connection: Connection) -> None:
    """Wait until no other transaction writes decisions; rows of names and beliefs are written before this."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOG_LOCK)))


@contextlib.contextmanager
def faults(place: Place) -> Iterator[None]:
    """Turn the faults of a database into errors that say what to do."""
    try:
        yield
    except _database_errors() as fault:
        if "0x00" in str(getattr(fault, "orig", fault)):
            raise UsageError("a text has the character U+0000, which PostgreSQL cannot hold", "remove it") from fault
        raise translated(fault, place) from fault


def _database_errors() -> tuple[type[Exception], ...]:
    """Those of SQLAlchemy, and of drivers: it wraps them, but not where bulk rows go through the driver itself."""
    psycopg: Any = sys.modules.get("psycopg")
    return (DBAPIError, sqlite3.Error, *(() if psycopg is None else (psycopg.Error,)))


MESSAGES = (
    (("database is locked", "lock timeout", "could not obtain lock", "deadlock detected"),
     "is locked by another program", "wait until it has finished, then repeat the command"),
    (("readonly database", "read-only transaction"), "cannot be written: it is read-only",
     "check the permissions of the file and its folder, or open a copy"),
    (("disk is full", "no space left"), "cannot be written: the disk is full",
     "free space, then repeat the command; nothing of it was kept"),
    (("disk i/o error",), "cannot be written: the disk is full or broken",
     "look with `doxa kb log` whether it was kept, and repeat the command if not"),
    (("file is not a database", "malformed", "encrypted"), "is damaged or not a database",
     "restore it from a backup (`doxa kb backup`)"),
    (("unable to open database",), "cannot be opened", "check the path and the permissions of its folder"),
    (("append-only",), "refuses to change a decision: the log is append-only", "undo the decision instead"),
    (("password authentication", "no password", "does not exist", "permission denied"), "refuses the connection",
     "check user, password and database of the URL"),
    (("could not translate host", "connection refused", "connection failed", "is the server running",
      "no such file or directory"), "cannot be reached", "check that the server runs, and host and port of the URL"),
    (("terminating connection", "server closed the connection", "connection is lost", "connection is closed",
      "consuming input failed", "could not receive data", "the connection is closed"), "lost the connection",
     "repeat the command; what was not finished was not kept"),
)  # fmt: skip
"""Parts of a driver's message, what they mean, and what to do."""


def translated(fault: Exception, place: Place) -> BadStore:
    """The error of a fault of the database, without SQL."""
    text = " ".join(str(fault.orig if isinstance(fault, DBAPIError) else fault).split())
    where = without_password(place.location)
    for parts, meaning, remedy in MESSAGES:
        if any(part in text.lower() for part in parts):
            return BadStore(f"{where} {meaning} ({text[:160]})", remedy)
    if isinstance(fault, DBAPIError) and fault.connection_invalidated:
        return BadStore(f"{where} lost the connection ({text[:160]})", "repeat the command; it was not finished")
    return BadStore(f"{where}: {text[:300]}", "nothing of this command was kept")


def now() -> int:
    """Microseconds since 1970, UTC."""
    return time.time_ns() // 1000
