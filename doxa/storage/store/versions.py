"""Versions of the schema: new stores, upgrades, and the check that a database is a store of this version."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.schema import CreateSchema

from doxa.errors import BadStore, UsageError
from doxa.storage.store import schema
from doxa.storage.store.connect import LOG_LOCK, faults, reading, schema_of, writing
from doxa.storage.store.place import Place

HEAD = "0001"
"""Revision of the schema that this doxa writes; the last of `alembic/versions`."""

REVISIONS = ("0001",)
"""All revisions, in order."""

FORMAT = "doxa knowledge base"


def create(engine: Engine, place: Place, settings: Mapping[str, str]) -> None:
    """Make the tables of a new store; a place that holds something is refused."""
    if place.is_postgres:
        with writing(engine, place) as connection:
            connection.execute(CreateSchema(schema_of(place), if_not_exists=True))
    elif not place.path.exists() and not place.path.resolve().parent.is_dir():
        raise UsageError(f"no folder {place.path.parent} for {place.path.name}", "make it first")
    with _removed_on_failure(engine, place):
        _make(engine, place, settings)


def _make(engine: Engine, place: Place, settings: Mapping[str, str]) -> None:
    with writing(engine, place) as connection:
        tables = _tables(connection)
        if tables:
            ours = "setting" in tables and "decision" in tables
            what = "already holds a knowledge base" if ours else "holds tables of another program"
            raise UsageError(f"{place} {what}", "choose another place" if not ours else "import into it")
        upgrade(connection)
        values = {"format": FORMAT, "id": uuid.uuid4().hex} | dict(settings)
        connection.execute(
            sa.insert(schema.setting), [{"name": name, "value": value} for name, value in values.items()]
        )
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA application_id = {LOG_LOCK}")
    if not place.is_postgres:
        with faults(place), engine.connect() as connection:  # the mode of the journal changes outside a transaction
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute("PRAGMA journal_mode = WAL").fetchone()


@contextmanager
def _removed_on_failure(engine: Engine, place: Place) -> Iterator[None]:
    """Make the file of a SQLite store, and remove it if the block fails; a file that existed stays."""
    made = False
    with suppress(OSError):  # SQLite says why it cannot be opened
        if not place.is_postgres:
            place.path.touch(0o644, exist_ok=False)
            made = True
    try:
        yield
    except BaseException:
        if made:
            engine.dispose()
            for ending in ("", "-journal", "-wal", "-shm"):
                with suppress(OSError):
                    place.path.with_name(place.path.name + ending).unlink()
        raise


def finish(engine: Engine, place: Place) -> None:
    """Put all of a SQLite store into its one file, so that the file can be moved; errors name `place`."""
    with faults(place), engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    engine.dispose()


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations up to a revision within the transaction of the connection."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "alembic"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def check(engine: Engine, place: Place) -> dict[str, str]:
    """The settings of a store; a missing, foreign, older or newer one is refused with the reason."""
    with reading(engine, place) as connection:
        tables = _tables(connection)
        if not tables:
            raise BadStore(f"{place} holds no knowledge base", f"make it: doxa kb init {place}")
        foreign = BadStore(f"{place} is the database of another program", "choose another place for the knowledge base")
        if not {"alembic_version", "setting", "decision"} <= set(tables):
            raise foreign
        revision = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        settings = {row.name: row.value for row in connection.execute(sa.select(schema.setting))}
        if settings.get("format") != FORMAT:
            raise foreign
    if revision not in REVISIONS:
        raise BadStore(f"{place} has schema {revision}, newer than this doxa reads ({HEAD})", "update doxa")
    if revision != HEAD:
        with writing(engine, place) as connection:
            upgrade(connection)
    return settings


def refuse_missing(place: Place) -> None:
    """The error of a file that does not exist; opening it would make an empty one."""
    raise BadStore(f"no knowledge base {place.location}", f"make it: doxa kb init {place.location}")


def _tables(connection: Connection) -> list[str]:
    name = connection.dialect.default_schema_name if connection.dialect.name == "sqlite" else None
    if connection.dialect.name == "postgresql":
        name = connection.execute(sa.text("SELECT current_schema()")).scalar()
    return sa.inspect(connection).get_table_names(schema=name)
