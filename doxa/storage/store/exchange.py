"""The log as a table: every decision and assertion by name, for git, and back into an empty store; and backups.

An entity or relation has in the table the name it had first, which never belongs to another one, so that the table says
the same however names change later. An import is a row `import` followed by its rows `assert`. The first row has
the RDF prefixes of the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from doxa.data.atomic import written
from doxa.data.iris import Prefixes
from doxa.errors import BadFile, UsageError
from doxa.storage.store import bulk, evidence, history, log, names, prefixes
from doxa.storage.store.evidence import DETAILS, TRIPLE, Facts, Import, Splitter
from doxa.storage.store.moment import first_names
from doxa.storage.store.schema import KINDS, SPLITS, belief, decision, metadata, proposal, run, setting, source

TEXTS = ("curator", "verdict", *TRIPLE, "replacement", "mention", "extractor", "valid_from", "valid_to", "split",
         "source", "license", "sha256", "kind", "name", "into", "old_name", "new_name", "reason", "note",
         "proposal_kind", "prefixes")  # fmt: skip
SCHEMA: dict[str, Any] = (
    dict.fromkeys(("decision", "at"), pl.Int64)
    | dict.fromkeys(TEXTS, pl.String)
    | dict.fromkeys(("confidence", "credence"), pl.Float64)
    | dict.fromkeys(("undoes", "proposal", "run"), pl.Int64)
)
SPLIT_NAMES = {number: name for name, number in SPLITS.items()}
SIGNS = ["decision", "at", "curator", "verdict", "undoes"]
"""Columns that tell a log from other tables."""


def log_rows(connection: Connection) -> Iterator[pl.DataFrame]:
    """The whole log as frames of SCHEMA."""
    originals = {kind: first_names(connection, kind) for kind in KINDS}
    facts = belief.alias()
    other = belief.alias()
    query = (
        sa.select(
            decision, *(facts.c[name].label(f"{name}_id") for name in TRIPLE), facts.c.split,
            other.c.tail.label("other"),
            proposal.c.kind.label("proposal_kind"), proposal.c.run_id.label("proposal_run"), source.c.uri,
            source.c.license, source.c.sha256,
        )
        .outerjoin(facts, facts.c.id == decision.c.belief_id)
        .outerjoin(other, other.c.id == decision.c.replacement_id)
        .outerjoin(proposal, proposal.c.id == decision.c.proposal_id)
        .outerjoin(run, run.c.id == decision.c.run_id)
        .outerjoin(source, source.c.id == run.c.source_id)
        .order_by(decision.c.id)
    )  # fmt: skip
    entities, relations = originals["entity"], originals["relation"]
    declared = prefixes.read(connection).declared
    for row in connection.execute(query).all():
        kind = originals.get(row.kind)
        values = {name: getattr(row, name) for name in ("at", "curator", "verdict", "kind", "old_name", "new_name")}
        values |= {name: getattr(row, name) for name in ("reason", "note", "credence", "undoes")}
        values |= {"decision": row.id, "proposal": row.proposal_id, "proposal_kind": row.proposal_kind}
        values["prefixes"] = json.dumps(declared, sort_keys=True) if declared else None
        declared = {}
        values |= {"run": row.proposal_run, "source": row.uri, "license": row.license, "sha256": row.sha256}
        if row.belief_id is not None:
            values |= {"head": entities[row.head_id], "relation": relations[row.relation_id]}
            values |= {"tail": entities[row.tail_id], "split": SPLIT_NAMES[row.split]}
        if row.other is not None:
            values["replacement"] = entities[row.other]
        if kind is not None:
            values |= {"name": kind[row.subject], "into": None if row.object is None else kind[row.object]}
        yield pl.DataFrame([values], schema_overrides=SCHEMA).select(_column(values, name) for name in SCHEMA)
        if row.run_id is not None:
            for block in history.assertions_of(connection, row.run_id):
                yield _asserted(block, row.id, entities, relations)


def _column(values: dict[str, Any], name: str) -> pl.Expr:
    return (pl.col(name) if name in values else pl.lit(None).alias(name)).cast(SCHEMA[name])


def _asserted(block: pl.DataFrame, number: int, entities: pl.Series, relations: pl.Series) -> pl.DataFrame:
    columns = {name: (relations if name == "relation" else entities).gather(block[name]) for name in TRIPLE}
    columns |= {name: block[name] for name in DETAILS}
    columns["split"] = block["split"].replace_strict(SPLIT_NAMES, return_dtype=pl.String)
    table = pl.DataFrame(columns).with_columns(decision=pl.lit(number), verdict=pl.lit("assert"))
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None).alias(name)).cast(SCHEMA[name]) for name in SCHEMA
    )


def write_log(connection: Connection, path: Path) -> None:
    """Write the log as TSV, all or nothing."""
    with written(path) as unfinished, unfinished.open("wb") as file:
        file.write(pl.DataFrame(schema=SCHEMA).write_csv(separator="\t").encode())
        for table in log_rows(connection):
            file.write(table.write_csv(separator="\t", include_header=False).encode())


def is_log(path: Path) -> bool:
    """Whether a file is a log that `write_log` wrote, by its first line."""
    return set(SIGNS) <= set(_first_line(path))


def _first_line(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.readline(4096).decode("utf-8", "replace").rstrip("\r\n").split("\t")
    except OSError:
        return []


def read_log(path: Path) -> pl.DataFrame:
    """The rows of a log; a damaged one is refused."""
    try:
        table = pl.read_csv(path, separator="\t", schema_overrides=SCHEMA)
    except (pl.exceptions.PolarsError, OSError) as fault:
        raise BadFile(f"{path} is not a whole log: {str(fault).partition(chr(10))[0]}") from None
    lacking = [name for name in SCHEMA if name not in table.columns]
    if lacking:
        raise BadFile(f"{path} is not a whole log: no column {lacking[0]!r}")
    return table


DECISION_COLUMNS = ("head", "relation", "tail", "verdict", "replacement", "reason", "note", "curator", "credence",
                    "label")  # fmt: skip


def decisions_table(connection: Connection) -> pl.DataFrame:
    """The effective decisions of curators about beliefs, by present names, with a label 1 or -1 for each."""
    table = history.entries(connection, decision.c.verdict.in_(list(log.STATUS))).filter("effective")
    labels = {verdict: 1 if status > 0 else -1 for verdict, status in log.STATUS.items()}
    label = pl.col("verdict").replace_strict(labels, return_dtype=pl.Int8)
    return table.with_columns(label=label).select(DECISION_COLUMNS)


def is_decisions(path: Path) -> bool:
    """Whether a file is a table of decisions, by its first line."""
    return {*TRIPLE, "verdict", "curator"} <= set(_first_line(path))


def read_decisions(path: Path) -> list[dict[str, Any]]:
    """The rows of a table of decisions; a verdict that is none is refused."""
    table = pl.read_csv(path, separator="\t", infer_schema=False)
    rows = table.to_dicts()
    for line, row in enumerate(rows, 2):
        if row["verdict"] not in log.STATUS or not all(row[name] for name in (*TRIPLE, "curator")):
            raise BadFile(
                f"{path}, line {line}: the verdict is {row['verdict']!r}", f"expected {', '.join(log.STATUS)}"
            )
        if (row["verdict"] == "replace") != bool(row.get("replacement")):
            raise BadFile(f"{path}, line {line}: replace needs a replacement, and only replace takes one")
    return rows


def merge_decisions(connection: Connection, rows: list[dict[str, Any]], splitter: Splitter) -> int:
    """Append decisions of another store; those that the same curator has taken already are left out."""
    facts, count = Facts(connection, splitter), 0
    for row in rows:
        tails = [row["tail"], *filter(None, [row.get("replacement")])]
        table = pl.DataFrame([{"head": row["head"], "relation": row["relation"], "tail": tail} for tail in tails])
        number, other = [*facts.ids(table).to_list(), None][:2]
        last = (
            sa.select(decision.c.verdict, decision.c.reason, decision.c.note)
            .where(decision.c.belief_id == number, decision.c.curator == row["curator"])
            .order_by(decision.c.id.desc())
        )
        same = connection.execute(last.limit(1)).first()
        details = {"reason": row.get("reason") or None, "note": row.get("note") or None}
        if same is None or tuple(same) != (row["verdict"], *details.values()):
            credence = float(row["credence"]) if row.get("credence") else None
            log.record(connection, row["verdict"], row["curator"], None, belief_id=number, replacement_id=other,
                       credence=credence, **details)  # fmt: skip
            count += 1
    return count


def replay(connection: Connection, table: pl.DataFrame, splitter: Splitter) -> int:
    """Write the decisions of a log into an empty store, with their numbers and times; how many they are."""
    if log.head(connection):
        raise UsageError("a whole log goes only into an empty knowledge base", "make one: doxa kb init")
    for declared in table["prefixes"].drop_nulls():
        prefixes.keep(connection, Prefixes.of(json.loads(declared)))
    proposals = _Proposals(connection)
    start = 0
    groups = table["decision"].rle().struct.unnest()
    for number, size in groups.select("value", "len").iter_rows():
        row = table.row(start, named=True)
        _replay(connection, number, row, table.slice(start + 1, size - 1), splitter, proposals)
        start += size
    bulk.continue_ids(connection, "decision")
    return len(groups)


def _replay(
    connection: Connection, number: int, row: dict[str, Any], stated: pl.DataFrame, splitter: Splitter,
    proposals: _Proposals,
) -> None:  # fmt: skip
    columns = {name: row[name] for name in ("kind", "old_name", "new_name", "reason", "note", "credence", "undoes")}
    columns |= {"id": number}
    facts = Facts(connection, splitter)
    if row["head"] is not None:
        columns["belief_id"] = facts.ids(_fact_frame(_row(row)))[0]
        if row["replacement"] is not None:
            other = row | {"tail": row["replacement"], "split": None}
            columns["replacement_id"] = facts.ids(_fact_frame(_row(other)))[0]
        if row["proposal"] is not None:
            columns["proposal_id"] = proposals.id(row, columns["belief_id"])
    if row["kind"] is not None:
        columns["subject"] = names.require(connection, row["kind"], row["name"])
        if row["into"] is not None:
            columns["object"] = names.require(connection, row["kind"], row["into"])
    if not len(stated):
        log.record(connection, row["verdict"], row["curator"], row["at"], **columns)
        return
    origin = evidence.source_id(connection, row["source"], row["license"], row["sha256"])
    batch = Import(connection, evidence.start_run(connection, row["verdict"], source=origin), origin, splitter)
    for block in stated.iter_slices(bulk.ROWS):
        batch.add(_fact_frame(block))
    batch.finish(row["verdict"], row["curator"], row["at"], **columns)


def _row(values: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([values], schema=SCHEMA)


def _fact_frame(rows: pl.DataFrame) -> pl.DataFrame:
    split = pl.col("split").replace_strict(SPLITS, default=None, return_dtype=pl.Int8)
    return rows.select(*TRIPLE, *DETAILS, split)


class _Proposals:
    """The decided proposals of a log, made again."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ids: dict[int, int] = {}
        self.runs: dict[int, int] = {}
        self.pairs: set[tuple[int, int]] = set()

    def id(self, row: dict[str, Any], belief_id: int) -> int:
        known = self.ids.get(row["proposal"])
        if known is not None:
            return known
        if row["run"] not in self.runs:
            self.runs[row["run"]] = evidence.start_run(self.connection, "log")
        run_id = self.runs[row["run"]]
        second = (run_id, belief_id) in self.pairs
        self.pairs.add((run_id, belief_id))
        values = {
            "belief_id": belief_id, "run_id": run_id, "kind": row["proposal_kind"], "credence": row["credence"] or 0.0,
            "second": second, "state": "open",
        }  # fmt: skip
        number = self.connection.execute(sa.insert(proposal).values(values).returning(proposal.c.id)).scalar_one()
        self.ids[row["proposal"]] = number
        return int(number)


TYPES = {"TEXT": pl.String, "FLOAT": pl.Float64, "BOOLEAN": pl.Boolean}


def copy_tables(original: Connection, copy: Connection) -> None:
    """Copy all rows of a store into a new SQLite store, which has the tables but no rows."""
    copy.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    copy.execute(sa.delete(setting))
    for table in metadata.sorted_tables:
        kinds = {column.name: TYPES.get(str(column.type).partition("(")[0], pl.Int64) for column in table.columns}
        key = list(table.primary_key.columns)
        for block in bulk.frames(original, sa.select(table).order_by(*key), kinds):
            bulk.insert_frame(copy, table.name, block)
