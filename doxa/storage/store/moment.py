"""The knowledge base at a snapshot, as a replay of the log.

    effective decisions → active runs, names, merges, verdicts → rows of beliefs

The present is the last snapshot, so that training now and training again from the snapshot later read the same rows in
the same order: beliefs in the order of their ids, each with its assertions; accepted beliefs that nothing asserts come
last. A fact that was merged into another counts as that other one, and keeps the split of the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from doxa.storage.store import bulk, log
from doxa.storage.store.names import follow
from doxa.storage.store.schema import ACCEPTED, KINDS, NAMED, SPLITS, TRAIN, assertion, belief, decision, run

TRIPLE = ["head", "relation", "tail"]
IDS: dict[str, type[pl.DataType]] = {"head": pl.Int64, "relation": pl.Int64, "tail": pl.Int64, "split": pl.Int8}
DETAILS: dict[str, type[pl.DataType]] = {"mention": pl.String, "confidence": pl.Float64}
ROWS = dict.fromkeys(TRIPLE, pl.String) | DETAILS
FEW = 1000
"""Rows of a block that are fetched to see whether there are any."""

Schema = dict[str, type[pl.DataType]]
VERDICTS = {"belief_id": pl.Int64, "decision": pl.Int64, "status": pl.Int8, "reviewed": pl.Boolean,
            "credence": pl.Float64}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Names:
    """Names and roots by id: index with an id."""

    names: pl.Series
    roots: NDArray[np.int64]

    @property
    def merged(self) -> bool:
        return bool((self.roots != np.arange(len(self.roots))).any())

    def root(self, column: str) -> pl.Expr:
        if not self.merged:
            return pl.col(column)
        return pl.col(column).map_batches(lambda ids: pl.Series(self.roots[ids.to_numpy()]), return_dtype=pl.Int64)

    def name(self, column: str) -> pl.Expr:
        return pl.col(column).map_batches(lambda ids: self.names.gather(ids), return_dtype=pl.String)


@dataclass(frozen=True, eq=False)
class Moment:
    """Everything that the log says at a snapshot.

    `verdicts` has a row per decided fact, by the ids of its names after merges: the last verdict, its decision, and
    whether a proposal of it was ever decided. `splits` has the splits of facts that merges brought together.
    """

    snapshot: int
    runs: pl.Series
    entities: Names
    relations: Names
    verdicts: pl.DataFrame
    splits: pl.DataFrame

    @classmethod
    def of(cls, connection: Connection, snapshot: int, iris: bool = False, named: bool = True) -> Moment:
        """Replay the log up to a snapshot; with `iris`, names that have an IRI are `<IRI>`; not `named`, ids alone."""
        undone = log.undone_at(connection, snapshot)
        runs = active_runs(connection, snapshot, undone)
        entities, relations = (_names(connection, kind, snapshot, undone, iris, named) for kind in KINDS)
        verdicts = _verdicts(connection, snapshot, undone)
        roots = {"head": entities, "relation": relations, "tail": entities}
        facts = _facts(connection, verdicts["belief_id"])
        verdicts = verdicts.join(facts, on="belief_id").with_columns(names.root(name) for name, names in roots.items())
        reviewed = pl.col("reviewed").any().over(TRIPLE)
        verdicts = verdicts.with_columns(reviewed).sort("decision").unique(TRIPLE, keep="last", maintain_order=True)
        splits = _merged_splits(connection, entities, relations)
        return cls(snapshot, runs, entities, relations, verdicts, splits)

    def frames(self, connection: Connection, part: str | None = None) -> Iterator[pl.DataFrame]:
        """The beliefs that hold, by name, one row per assertion, with mention and confidence if any of them has one.

        `part` is train, valid or test; without it the column `split` says which. Facts whose proposal was decided are
        always in train: they are no random sample, so they cannot measure a model.
        """
        details = present_details(connection, self.runs)
        schema = IDS | {name: DETAILS[name] for name in details}
        for rows in self._rows(connection, part, schema, bulk.FETCHED):
            if len(rows):
                yield rows.select(
                    self.entities.name("head"), self.relations.name("relation"), self.entities.name("tail"),
                    *details, *(["split"] if part is None else []),
                )  # fmt: skip

    def parts(self, connection: Connection) -> list[str]:
        """Which of train, valid and test have beliefs."""
        return [part for part in SPLITS if any(map(len, self._rows(connection, part, IDS, FEW)))]

    def _rows(self, connection: Connection, part: str | None, schema: Schema, size: int) -> Iterator[pl.DataFrame]:
        """The beliefs that hold by id, in blocks."""
        here = pl.lit(True) if part is None else pl.col("split") == SPLITS[part]
        decided = self.verdicts.select(*TRIPLE, "status", "reviewed").with_row_index("verdict")
        covered = np.zeros(len(decided), bool)
        for block in self._asserted(connection, schema, part, size):
            rows = self._placed(block)
            if len(decided):
                rows = rows.join(decided, on=TRIPLE, how="left", maintain_order="left")
                covered[rows["verdict"].drop_nulls().to_numpy()] = True
                rows = rows.filter(pl.col("status").is_null() | (pl.col("status") > 0))
                rows = rows.with_columns(split=pl.when(pl.col("reviewed")).then(TRAIN).otherwise("split").cast(pl.Int8))
            yield rows.select(*schema).filter(here)
        unasserted = self.verdicts.filter((pl.col("status") == ACCEPTED) & ~pl.Series(covered)).sort("belief_id")
        if len(unasserted):
            nothing = [pl.lit(None, kind).alias(name) for name, kind in DETAILS.items()]
            rows = self._placed(unasserted.with_columns(nothing))
            rows = rows.with_columns(split=pl.when(pl.col("reviewed")).then(TRAIN).otherwise("split").cast(pl.Int8))
            yield rows.select(*schema).filter(here)

    def _asserted(self, connection: Connection, schema: Schema, part: str | None, rows: int) -> Iterator[pl.DataFrame]:
        """The assertions of active runs by id, in order; with `part`, those of other parts may be left out."""
        every = connection.execute(sa.select(run.c.id).where(_of_run(run.c.id).exists())).scalars()
        only = part is not None and not len(self.splits) and (part != "train" or not self.verdicts["reviewed"].any())
        wanted = {name: kind for name, kind in schema.items() if name != "split" or not only}
        if not set(every) <= set(self.runs):
            wanted["run_id"] = pl.Int64
        query = (
            sa.select(*(belief.c[name] if name in IDS else assertion.c[name] for name in wanted))
            .join(assertion, assertion.c.belief_id == belief.c.id)
            .order_by(belief.c.id, assertion.c.id)
        )
        if part is not None and only:
            query = query.where(belief.c.split == SPLITS[part])
        active = pl.DataFrame({"run_id": self.runs})
        for block in bulk.frames(connection, query, wanted, {*IDS, "run_id"}, rows):
            if "run_id" in wanted:
                block = block.join(active, on="run_id", how="semi", maintain_order="left")
            if part is not None and only:
                block = block.with_columns(split=pl.lit(SPLITS[part], pl.Int8))
            yield block.select(*schema)

    def _placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with the ids after merges, and the split of the whole fact."""
        rows = rows.with_columns(
            self.entities.root("head"), self.relations.root("relation"), self.entities.root("tail")
        )
        if len(self.splits):
            rows = rows.join(self.splits, on=TRIPLE, how="left", maintain_order="left")
            rows = rows.with_columns(split=pl.coalesce("first_split", "split")).drop("first_split")
        return rows

    def decided(self) -> pl.DataFrame:
        """The facts that a curator has decided about: head, relation, tail."""
        return self.verdicts.select(
            self.entities.name("head"), self.relations.name("relation"), self.entities.name("tail")
        )

    def labels(self, after: int = 0) -> pl.DataFrame:
        """The facts whose proposals were decided after a snapshot: triple, credence shown, label 1 or -1."""
        rows = self.verdicts.filter(pl.col("reviewed") & (pl.col("decision") > after))
        return rows.select(
            self.entities.name("head"), self.relations.name("relation"), self.entities.name("tail"), "credence",
            label=pl.when(pl.col("status") > 0).then(1).otherwise(-1).cast(pl.Int8),
        )  # fmt: skip


def active_runs(connection: Connection, snapshot: int, undone: set[int]) -> pl.Series:
    """The runs whose assertions count at a snapshot."""
    query = sa.select(decision.c.id, decision.c.run_id).where(decision.c.run_id.is_not(None), decision.c.id <= snapshot)
    runs = [row.run_id for row in connection.execute(query) if row.id not in undone]
    return pl.Series(runs, dtype=pl.Int64).unique()


def present_details(connection: Connection, runs: pl.Series) -> list[str]:
    """Which of mention and confidence any assertion of these runs has."""

    def are_stated(*names: str) -> bool:
        stated = sa.or_(*(assertion.c[name].is_not(None) for name in names))
        if not connection.execute(sa.select(sa.exists().where(stated))).scalar():  # faster than to search by run
            return False
        by_run = sa.select(run.c.id).where(_of_run(run.c.id).where(stated).exists())
        return bool(set(connection.execute(by_run).scalars()) & set(runs))

    return [name for name in DETAILS if are_stated(name)] if are_stated(*DETAILS) else []  # one search if there is none


def _of_run(number: sa.ColumnElement[int]) -> sa.Select[Any]:
    """The assertions of a run."""
    return sa.select(assertion.c.id).where(assertion.c.run_id == number)


def _names(
    connection: Connection, kind: str, snapshot: int, undone: set[int], iris: bool = False, named: bool = True
) -> Names:
    """Names and roots at a snapshot. A name that was changed later has the name it had."""
    table = NAMED[kind]
    query = sa.select(table.c.id, table.c.name)
    if not named:  # the last row tells how many roots there are
        query = query.order_by(table.c.id.desc()).limit(1)
    present = bulk.frame(connection, query, {"id": pl.Int64, "name": pl.String}, {"id"})
    size = int(present["id"].max() or 0) + 1  # type: ignore[arg-type]
    texts = np.full(size, None, object)
    texts[present["id"].to_numpy()] = present["name"].to_numpy()
    changes = connection.execute(
        sa.select(decision)
        .where(decision.c.kind == kind, decision.c.verdict.in_(["rename", "merge"]))
        .order_by(decision.c.id)
    ).all()
    renamed: set[int] = set()
    parents: dict[int, int] = {}
    for row in changes:
        if row.verdict == "rename" and row.subject not in renamed:
            renamed.add(row.subject)
            texts[row.subject] = row.old_name
        if row.id <= snapshot and row.id not in undone:
            if row.verdict == "rename":
                texts[row.subject] = row.new_name
            else:
                parents[row.subject] = row.object
    if iris:
        known = sa.select(table.c.id, sa.literal("<") + table.c.iri + ">").where(table.c.iri.is_not(None))
        terms = bulk.frame(connection, known, {"id": pl.Int64, "iri": pl.String})
        texts[terms["id"].to_numpy()] = terms["iri"].to_numpy()
    roots = np.arange(size)
    for subject in parents:
        roots[subject] = follow(parents, subject)
    return Names(pl.Series("name", texts.tolist(), dtype=pl.String), roots)


def first_names(connection: Connection, kind: str) -> pl.Series:
    """The first name of each id: index with an id."""
    return _names(connection, kind, 0, set()).names


def _verdicts(connection: Connection, snapshot: int, undone: set[int]) -> pl.DataFrame:
    """The effective verdicts about beliefs up to a snapshot, a row for each belief of each."""
    rows = []
    query = sa.select(decision).where(decision.c.id <= snapshot, decision.c.verdict.in_(list(log.STATUS)))
    for row in connection.execute(query):
        if row.id not in undone:
            reviewed = row.proposal_id is not None
            rows.append((row.belief_id, row.id, log.STATUS[row.verdict], reviewed, row.credence))
            if row.replacement_id is not None:
                rows.append((row.replacement_id, row.id, ACCEPTED, reviewed, None))
    return pl.DataFrame(rows, schema=VERDICTS, orient="row")


def _facts(connection: Connection, ids: pl.Series) -> pl.DataFrame:
    """The triples and splits of beliefs by id."""
    schema = {"belief_id": pl.Int64, **dict.fromkeys(TRIPLE, pl.Int64), "split": pl.Int8}
    wanted = ids.unique().sort()
    columns = [belief.c.id, *(belief.c[name] for name in (*TRIPLE, "split"))]
    parts = [pl.DataFrame(schema=schema)]
    for part in wanted.to_frame().iter_slices(500):
        query = sa.select(*columns).where(belief.c.id.in_(part.to_series().to_list()))
        parts.append(bulk.frame(connection, query, schema))
    return pl.concat(parts)


def _merged_splits(connection: Connection, entities: Names, relations: Names) -> pl.DataFrame:
    """For facts that merges brought together, the split of the first of them."""
    conditions = []
    for names, columns in ((entities, ("head", "tail")), (relations, ("relation",))):
        moved = np.flatnonzero(names.roots != np.arange(len(names.roots)))
        together = np.union1d(moved, names.roots[moved]).tolist()
        if together:
            conditions += [belief.c[name].in_(together) for name in columns]
    schema = {**dict.fromkeys(TRIPLE, pl.Int64), "first_split": pl.Int8}
    if not conditions:
        return pl.DataFrame(schema=schema)
    fields = [belief.c[name] for name in (*TRIPLE, "split")]
    query = sa.select(*fields).where(sa.or_(*conditions)).order_by(belief.c.id)
    facts = bulk.frame(connection, query, schema)
    facts = facts.with_columns(entities.root("head"), relations.root("relation"), entities.root("tail"))
    return facts.unique(TRIPLE, keep="first", maintain_order=True)
