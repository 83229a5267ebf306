"""What the log says, by name: all decisions, those of one belief, and the sizes of the knowledge base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from doxa.storage.store import bulk, evidence, log
from doxa.storage.store.schema import (
    ASSERTED,
    NAMED,
    assertion,
    belief,
    belief_state,
    decision,
    entity,
    job,
    proposal,
    relation,
    run,
    source,
    undone,
)

COLUMNS = {
    "decision": pl.Int64, "at": pl.Int64, "curator": pl.String, "verdict": pl.String, "head": pl.String,
    "relation": pl.String, "tail": pl.String, "replacement": pl.String, "kind": pl.String, "name": pl.String,
    "into": pl.String, "old_name": pl.String, "new_name": pl.String, "reason": pl.String, "note": pl.String,
    "credence": pl.Float64, "undoes": pl.Int64, "run": pl.Int64, "proposal": pl.Int64, "source": pl.String,
    "effective": pl.Boolean,
}  # fmt: skip


def time_text(time: int) -> str:
    """A time of the store as ISO text in UTC."""
    return datetime.fromtimestamp(time / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def local_time(time: int) -> str:
    """A time of the store to the second, in the zone of this machine, as a moment without a zone is read."""
    return datetime.fromtimestamp(time // 1_000_000).isoformat()


def last_import(connection: Connection, uri: str, sha256: str) -> int | None:
    """The last effective import of the same content from the same source."""
    query = (
        sa.select(sa.func.max(decision.c.id))
        .join(run, run.c.id == decision.c.run_id)
        .join(source, source.c.id == run.c.source_id)
        .where(decision.c.verdict == "import", run.c.active, source.c.uri == uri, source.c.sha256 == sha256)
    )
    number = connection.execute(query).scalar()
    return None if number is None else int(number)


def entries(connection: Connection, *conditions: Any, last: int | None = None) -> pl.DataFrame:
    """The decisions that meet the conditions, in order, by present names; with `last`, the last of them."""
    columns: list[Any] = [decision.c[name] for name in ("id", "at", "curator", "verdict")]
    columns += [_name(decision.c.belief_id, name).label(name) for name in ("head", "relation", "tail")]
    columns += [_name(decision.c.replacement_id, "tail").label("replacement")]
    columns += [decision.c.kind, _subject(decision.c.subject).label("name"), _subject(decision.c.object).label("into")]
    columns += [decision.c[name] for name in ("old_name", "new_name", "reason", "note")]
    columns += [decision.c.credence, decision.c.undoes, decision.c.run_id, decision.c.proposal_id]
    origin = sa.select(source.c.uri).join(run, run.c.source_id == source.c.id).where(run.c.id == decision.c.run_id)
    ineffective = sa.select(undone.c.decision_id).where(undone.c.decision_id == decision.c.id).exists()
    columns += [origin.scalar_subquery().label("source"), (~ineffective).label("effective")]
    query = sa.select(*columns).where(*conditions).order_by(decision.c.id.desc())
    table = bulk.frame(connection, query if last is None else query.limit(last), COLUMNS)
    return table.reverse()


def _name(belief_id: Any, slot: str) -> Any:
    facts = belief.alias()
    named = (relation if slot == "relation" else entity).alias()
    query = sa.select(named.c.name).join(facts, facts.c[slot] == named.c.id).where(facts.c.id == belief_id)
    return query.scalar_subquery()


def _subject(number: Any) -> Any:
    """The present name of the entity or relation of a rename or merge."""
    choices = [(decision.c.kind == kind, table) for kind, table in NAMED.items()]
    return sa.case(
        *((of, sa.select(table.c.name).where(table.c.id == number).scalar_subquery()) for of, table in choices)
    )


def of_fact(connection: Connection, roots: Sequence[int]) -> dict[str, Any]:
    """Everything about a fact: whether it holds, its assertions, and the decisions about it."""
    states = evidence.equivalent(connection, roots)
    ids = [row.id for row in states]
    about = sa.or_(decision.c.belief_id.in_(ids), decision.c.replacement_id.in_(ids))
    stated = (
        sa.select(
            *(assertion.c[name] for name in (*evidence.DETAILS, "recorded_at")), source.c.uri, source.c.license,
            run.c.active,
        )
        .join(source, source.c.id == assertion.c.source_id)
        .join(run, run.c.id == assertion.c.run_id)
        .where(assertion.c.belief_id.in_(ids))
        .order_by(assertion.c.id)
    )  # fmt: skip
    return {
        "holds": evidence.holds(states),
        "assertions": [dict(row) for row in connection.execute(stated).mappings()],
        "decisions": entries(connection, about).to_dicts(),
    }


def sizes(connection: Connection) -> dict[str, Any]:
    """How much the store holds at present."""

    def count(query: Any) -> int:
        return int(connection.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one())

    holding = sa.select(belief_state.c.belief_id).where(belief_state.c.status > 0)
    by_status = sa.select(belief_state.c.status, sa.func.count()).group_by(belief_state.c.status)
    statuses = {int(status): int(number) for status, number in connection.execute(by_status)}
    return {
        "snapshot": log.head(connection),
        "beliefs": count(holding),
        "asserted": statuses.get(ASSERTED, 0),
        "accepted": statuses.get(2, 0),
        "rejected": statuses.get(-1, 0),
        "entities": count(sa.select(entity.c.id).where(entity.c.merged_into.is_(None))),
        "relations": count(sa.select(relation.c.id).where(relation.c.merged_into.is_(None))),
        "assertions": count(sa.select(assertion.c.id).join(run, run.c.id == assertion.c.run_id).where(run.c.active)),
        "sources": count(sa.select(source.c.id)),
        "decisions": count(sa.select(decision.c.id)),
        "open_proposals": count(sa.select(proposal.c.id).where(proposal.c.state == "open")),
        "waiting_jobs": count(sa.select(job.c.id).where(job.c.state == "waiting")),
    }


def assertions_of(connection: Connection, run_id: int) -> Iterator[pl.DataFrame]:
    """The assertions of a run, in order, with the ids of their names."""
    schema: dict[str, Any] = {**dict.fromkeys(evidence.TRIPLE, pl.Int64), "split": pl.Int8}
    schema |= {name: pl.Float64 if name == "confidence" else pl.String for name in evidence.DETAILS}
    query = (
        sa.select(
            *(belief.c[name] for name in (*evidence.TRIPLE, "split")),
            *(assertion.c[name] for name in evidence.DETAILS),
        )
        .join(belief, belief.c.id == assertion.c.belief_id)
        .where(assertion.c.run_id == run_id)
        .order_by(assertion.c.id)
    )
    yield from bulk.frames(connection, query, schema)
