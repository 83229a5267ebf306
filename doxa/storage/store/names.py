"""Names of entities and relations: ids of names, renames and merges.

An entity has one name at a time. Its former names stay as aliases while their rename is effective, so that a file with
old names still means the same entity. `merged_into` is the entity that a merged one stands for in the end. A name that
is an IRI, whole or with a prefix, has its IRI beside it: another spelling of the IRI means the same entity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from doxa.data.iris import Prefixes
from doxa.errors import UnknownName, UsageError, did_you_mean, one_of
from doxa.storage.store import bulk, prefixes
from doxa.storage.store.schema import KINDS, NAMED, alias, decision, undone

SUGGESTIONS = 2000
"""Names of similar spelling among which a suggestion is looked for."""

NAMES = {"name": pl.String, "id": pl.Int64}

incoming_name = sa.Table(
    "incoming_name",
    sa.MetaData(),
    sa.Column("position", sa.BigInteger),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("iri", sa.Text),
    prefixes=["TEMPORARY"],
)


class NameIds:
    """Ids of names within one transaction; names that are new get ids.

    `declared` are RDF prefixes, which may grow while a file is read; those of the store by default.
    """

    def __init__(self, connection: Connection, kind: str, declared: Prefixes | None = None) -> None:
        one_of("kind", kind, KINDS)
        self.connection, self.kind = connection, kind
        self.declared = prefixes.read(connection) if declared is None else declared
        self.known = pl.DataFrame(schema=NAMES)

    def ids(self, names: pl.Series) -> pl.Series:
        """The id of each name."""
        wanted = names.cast(pl.String).rename("name").to_frame()
        unknown = wanted.unique(maintain_order=True).join(self.known, on="name", how="anti", maintain_order="left")
        if len(unknown):
            self.known = pl.concat([self.known, self._ask(unknown)])
        return wanted.join(self.known, on="name", how="left", maintain_order="left")["id"]

    def _ask(self, names: pl.DataFrame) -> pl.DataFrame:
        connection, table = self.connection, NAMED[self.kind]
        incoming_name.create(connection, checkfirst=False)
        iris = prefixes.iris(names["name"], self.kind, self.declared)
        bulk.insert_frame(connection, "incoming_name", names.with_row_index("position").with_columns(iris))
        former = sa.select(alias.c.target).where(alias.c.kind == self.kind, alias.c.name == incoming_name.c.name)
        new = sa.select(incoming_name.c.name, incoming_name.c.iri).where(~former.exists())
        bulk.insert_new(connection, table, ["name", "iri"], new.order_by(incoming_name.c.position))
        present = sa.select(table.c.name, table.c.id).join(incoming_name, incoming_name.c.name == table.c.name)
        aliases = (
            sa.select(alias.c.name, alias.c.target)
            .join(incoming_name, incoming_name.c.name == alias.c.name)
            .where(alias.c.kind == self.kind)
        )
        spelled = sa.select(incoming_name.c.name, table.c.id).join(incoming_name, incoming_name.c.iri == table.c.iri)
        queries = [present, aliases, *([spelled] if iris.is_not_null().any() else [])]
        matches = pl.concat([bulk.frame(connection, query, NAMES) for query in queries])
        incoming_name.drop(connection)
        return matches.unique("name", keep="first")


def find(connection: Connection, kind: str, name: str) -> int | None:
    """The id of a name, a former name, or another spelling of an IRI."""
    one_of("kind", kind, KINDS)
    table = NAMED[kind]
    present = connection.execute(sa.select(table.c.id).where(table.c.name == name)).scalar()
    if present is not None:
        return int(present)
    former = sa.select(alias.c.target).where(alias.c.kind == kind, alias.c.name == name)
    target = connection.execute(former).scalar()
    iri = prefixes.iris(pl.Series([name]), kind, prefixes.read(connection))[0] if target is None else None
    if iri is not None:
        target = connection.execute(sa.select(table.c.id).where(table.c.iri == iri)).scalar()
    return None if target is None else int(target)


def require(connection: Connection, kind: str, name: str) -> int:
    """The id of a name; an unknown name is an error that offers the nearest ones."""
    number = find(connection, kind, name)
    if number is None:
        table = NAMED[kind]
        like = (
            sa.select(table.c.name).where(sa.func.lower(table.c.name).startswith(name[:1].lower())).limit(SUGGESTIONS)
        )
        near = connection.execute(like).scalars().all()
        raise UnknownName(f"no {kind} {name!r} in this knowledge base.{did_you_mean(name, near)}")
    return number


def name_of(connection: Connection, kind: str, number: int) -> str:
    """The present name of an id."""
    return str(connection.execute(sa.select(NAMED[kind].c.name).where(NAMED[kind].c.id == number)).scalar_one())


def root(connection: Connection, kind: str, number: int) -> int:
    """The entity or relation that an id stands for after merges."""
    table = NAMED[kind]
    query = sa.select(sa.func.coalesce(table.c.merged_into, table.c.id)).where(table.c.id == number)
    return int(connection.execute(query).scalar_one())


def effective_changes(verdict: str, kind: str) -> sa.Select[Any]:
    """The effective decisions of a verdict about names, in order."""
    is_undone = sa.select(undone.c.decision_id).where(undone.c.decision_id == decision.c.id).exists()
    return (
        sa.select(decision)
        .where(decision.c.verdict == verdict, decision.c.kind == kind, ~is_undone)
        .order_by(decision.c.id)
    )


def follow(parents: dict[int, int], number: int) -> int:
    """The end of a chain of merges."""
    while number in parents:
        number = parents[number]
    return number


def project_merges(connection: Connection, kind: str) -> None:
    """Set `merged_into` to the present ends of all chains of merges; two merges of one name or a cycle are refused."""
    parents: dict[int, int] = {}
    for row in connection.execute(effective_changes("merge", kind)):
        if row.subject in parents or follow(parents, row.object) == row.subject:
            name = name_of(connection, kind, row.subject)
            raise UsageError(f"{name!r} is merged otherwise by now", "undo the later merge first")
        parents[row.subject] = row.object
    table = NAMED[kind]
    connection.execute(sa.update(table).where(table.c.merged_into.is_not(None)).values(merged_into=None))
    for subject in parents:
        target = follow(parents, subject)
        connection.execute(sa.update(table).where(table.c.id == subject).values(merged_into=target))


def project_name(connection: Connection, kind: str, number: int) -> None:
    """Set the name and the aliases of an id as its effective renames say; a name that is taken is refused."""
    table = NAMED[kind]
    first = (
        sa.select(decision.c.old_name)
        .where(decision.c.verdict == "rename", decision.c.kind == kind, decision.c.subject == number)
        .order_by(decision.c.id)
        .limit(1)
    )
    original = connection.execute(first).scalar_one()
    renames = connection.execute(effective_changes("rename", kind).where(decision.c.subject == number))
    names = [original, *(row.new_name for row in renames)]
    check_free(connection, kind, number, names)
    connection.execute(sa.delete(alias).where(alias.c.kind == kind, alias.c.target == number))
    connection.execute(sa.update(table).where(table.c.id == number).values(name=names[-1]))
    for former in sorted(set(names) - {names[-1]}):
        connection.execute(sa.insert(alias).values(kind=kind, name=former, target=number))


def check_free(connection: Connection, kind: str, number: int, names: Iterable[str]) -> None:
    """Refuse names that belong to another id."""
    for name in names:
        owner = find(connection, kind, name)
        if owner is not None and owner != number:
            raise UsageError(
                f"the name {name!r} belongs to another {kind}", "if both are the same, merge them: doxa kb merge"
            )
