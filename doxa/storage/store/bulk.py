"""Bulk rows: frames into tables by COPY or batched inserts, and queries out as frames.

The only place with SQL that depends on the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.schema import AddConstraint, CreateIndex, DropConstraint, DropIndex

from doxa.storage.store.schema import metadata

ROWS = 100_000
"""Rows that are handed to the driver at a time."""

FETCHED = 250_000
"""Rows that become a frame."""

Schema = Mapping[str, Any]
"""Polars types by column."""


def is_postgres(connection: Connection) -> bool:
    """Whether the store is in PostgreSQL."""
    return connection.dialect.name == "postgresql"


def insert_frame(connection: Connection, table: str, frame: pl.DataFrame) -> None:
    """Append the rows of a frame to a table; its columns have the names of the table's."""
    columns = ", ".join(f'"{name}"' for name in frame.columns)
    for part in frame.iter_slices(ROWS):
        if not len(part):
            continue
        if is_postgres(connection):
            with (
                _driver(connection).cursor() as cursor,
                cursor.copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT csv)") as copy,
            ):
                copy.write(part.write_csv(include_header=False).encode())
        else:
            marks = ", ".join("?" * part.width)
            connection.exec_driver_sql(f"INSERT INTO {table} ({columns}) VALUES ({marks})", part.rows())


def frames(
    connection: Connection, query: sa.Select[Any], schema: Schema, integers: Collection[str] = (), rows: int = FETCHED
) -> Iterator[pl.DataFrame]:
    """The rows of a query as frames with these columns, in order; memory stays bounded.

    `integers` are columns of integers that are never null. Their values and floats do not stay Python objects, which is
    faster.
    """
    if is_postgres(connection):
        yield from (_copied if rows >= FETCHED else _streamed)(connection, query, schema, rows)
        return
    cursor: Any = connection.execute(query).cursor
    record = np.dtype([(name, _stored_as(kind, name in integers)) for name, kind in schema.items()])
    while len(batch := np.fromiter(islice(cursor, rows), record)):
        yield pl.DataFrame([_series(name, batch[name], kind) for name, kind in schema.items()])


def _stored_as(kind: Any, is_integer: bool) -> type:
    """The type of numpy for a column: a float of SQLite is null or a number, and numpy makes NaN of null."""
    return np.int64 if is_integer else np.float64 if kind == pl.Float64 else object


def _series(name: str, values: NDArray[Any], kind: Any) -> pl.Series:
    if values.dtype != object:
        return pl.Series(name, np.ascontiguousarray(values), kind, nan_to_null=True)
    return pl.Series(name, values.tolist(), kind, strict=kind != pl.Boolean)  # SQLite has 0 and 1 for booleans


def frame(
    connection: Connection, query: sa.Select[Any], schema: Schema, integers: Collection[str] = ()
) -> pl.DataFrame:
    """The rows of a query as one frame."""
    return pl.concat([pl.DataFrame(schema=dict(schema)), *frames(connection, query, schema, integers)])


def _copied(connection: Connection, query: sa.Select[Any], schema: Schema, rows: int) -> Iterator[pl.DataFrame]:
    """All rows of a query by COPY."""
    text = query.compile(connection.engine, compile_kwargs={"literal_binds": True})
    # Booleans are written as t and f; read as text first
    types = {name: pl.String if kind == pl.Boolean else kind for name, kind in schema.items()}
    flags = [pl.col(name) == "t" for name, kind in schema.items() if kind == pl.Boolean]
    with _driver(connection).cursor() as cursor, cursor.copy(f"COPY ({text}) TO STDOUT (FORMAT csv)") as copy:
        pieces = iter(copy)
        while lines := b"".join(islice(pieces, rows)):
            yield pl.read_csv(lines, has_header=False, schema=types, infer_schema=False).with_columns(flags)


def _streamed(connection: Connection, query: sa.Select[Any], schema: Schema, rows: int) -> Iterator[pl.DataFrame]:
    """The rows of a query by a cursor of the server, of which the first come soon."""
    with connection.execution_options(stream_results=True, max_row_buffer=rows).execute(query) as result:
        for batch in result.partitions(rows):
            yield pl.DataFrame(list(map(tuple, batch)), schema=dict(schema), orient="row")


def _driver(connection: Connection) -> Any:
    driver = connection.connection.driver_connection
    assert driver is not None
    return driver


def insert_new(connection: Connection, table: sa.Table, columns: list[str], query: sa.Select[Any]) -> None:
    """Insert the rows of a query that break no unique constraint."""
    make = postgresql.insert if is_postgres(connection) else sqlite.insert
    connection.execute(make(table).from_select(columns, query).on_conflict_do_nothing())


Check = sa.Index | sa.ForeignKeyConstraint


def drop_checks(connection: Connection, tables: Iterable[sa.Table]) -> list[Check]:
    """Drop the indexes of those tables that have no rows, and the foreign keys that PostgreSQL would check row by row.

    To make them after many rows is faster. Readers of these tables wait until the transaction ends.
    """
    dropped: list[Check] = []
    for table in tables:
        if connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first() is None:
            keys = table.foreign_key_constraints if is_postgres(connection) else ()
            dropped += sorted([*table.indexes, *keys], key=lambda one: str(one.name))
    for one in dropped:
        connection.execute(DropIndex(one) if isinstance(one, sa.Index) else DropConstraint(one))
    return dropped


def create_checks(connection: Connection, dropped: Iterable[Check]) -> None:
    """Make indexes and foreign keys that were dropped; PostgreSQL checks all rows at once."""
    for one in dropped:
        connection.execute(CreateIndex(one) if isinstance(one, sa.Index) else AddConstraint(one))


def count_values(connection: Connection, tables: Iterable[sa.Table]) -> None:
    """Let PostgreSQL learn how the values of tables are distributed, since it plans reads by that."""
    if is_postgres(connection):
        connection.exec_driver_sql(f"ANALYZE {', '.join(table.name for table in tables)}")


def continue_ids(connection: Connection, name: str) -> None:
    """Let new ids of a table follow those that were inserted with their ids."""
    if is_postgres(connection):
        table = metadata.tables[name]
        last = connection.execute(sa.select(sa.func.max(table.c.id))).scalar()
        if last is not None:
            sequence = sa.func.pg_get_serial_sequence(name, "id")
            connection.execute(sa.select(sa.func.setval(sequence, last)))
