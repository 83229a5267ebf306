"""RDF prefixes of a store and the IRIs of its names.

Imports read with the prefixes of the store, so that a name means one IRI however later files declare their prefixes.
"""

from __future__ import annotations

import json

import polars as pl
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from doxa.data.iris import BASE, Prefixes, terms
from doxa.storage.store.connect import lock_log
from doxa.storage.store.schema import setting

SETTING = "prefixes"


def read(connection: Connection) -> Prefixes:
    """The well-known prefixes and those that imported files declared."""
    stored = connection.execute(sa.select(setting.c.value).where(setting.c.name == SETTING)).scalar()
    return Prefixes.of(json.loads(stored) if stored else None)


def keep(connection: Connection, prefixes: Prefixes) -> None:
    """Add the prefixes that a file declared; a prefix that the store has keeps its namespace."""
    if not prefixes.declared:
        return
    lock_log(connection)
    known = read(connection).declared
    if known == known | prefixes.declared:
        return
    connection.execute(sa.delete(setting).where(setting.c.name == SETTING))
    value = json.dumps(prefixes.declared | known, sort_keys=True)
    connection.execute(sa.insert(setting).values(name=SETTING, value=value))


def iris(names: pl.Series, kind: str, prefixes: Prefixes) -> pl.Series:
    """The IRI of each name, null where the name is no IRI."""
    known = terms(names, prefixes, "relation" if kind == "relation" else "tail")
    inner = known.str.strip_prefix("<").str.strip_suffix(">")
    is_iri = known.str.starts_with("<") & ~known.str.starts_with(f"<{BASE}")
    return pl.select(pl.when(is_iri).then(inner)).to_series().alias("iri")
