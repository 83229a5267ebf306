"""The review queue: proposals, their leases, and the decisions about them.

A proposal is leased to one reviewer and returns to the queue when the lease ends. Claiming is one statement, so that no
proposal is leased twice. A share of the proposals has a second copy, which another reviewer gets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from doxa.errors import UnknownName, UsageError, one_of
from doxa.storage.store import evidence, log
from doxa.storage.store.bulk import frame, insert_frame, is_postgres
from doxa.storage.store.connect import lock_log, now
from doxa.storage.store.evidence import TRIPLE, Facts
from doxa.storage.store.schema import assertion, belief, decision, entity, proposal, relation, source, undone

if TYPE_CHECKING:
    from doxa.storage.store.knowledge_base import KnowledgeBase

KINDS = ("missing", "suspect")
VERDICTS = ("accept", "reject", "unsure", "replace")
ORDERS = ("credence", "uncertainty")

LEASE = 600.0
"""Seconds that a reviewer has for a proposal."""

QUOTES = 5
"""Assertions of a belief that are shown with its proposal."""


@dataclass(frozen=True)
class Proposal:
    """A belief to review: `kind` is missing (not yet known) or suspect (known, but doubtful).

    `suggestion` is a likelier tail, `evidence` says what the model has to say, `mentions` what sources state. `state`
    is open, decided or withdrawn.
    """

    id: int
    kind: str
    head: str
    relation: str
    tail: str
    credence: float
    suggestion: str | None
    evidence: dict[str, Any]
    mentions: list[dict[str, Any]]
    leased_until: int
    state: str

    @property
    def triple(self) -> tuple[str, str, str]:
        return self.head, self.relation, self.tail

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class ReviewQueue:
    """Proposals of a knowledge base: propose, claim, decide, undo."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    def propose(
        self,
        table: pl.DataFrame,
        kind: str,
        *,
        model: str | None = None,
        settings: Mapping[str, Any] | None = None,
        overlap: float = 0.0,
        seed: int = 0,
    ) -> int:
        """Put beliefs into the queue: head, relation, tail, credence and optionally suggestion, the likelier tail.

        All other columns are kept as evidence. Left out are missing beliefs that hold or were rejected, and suspects
        that do not hold or were accepted. An open proposal of the same belief is replaced unless it is leased. The
        share `overlap` goes to two reviewers. Returns how many beliefs were proposed.
        """
        one_of("kind", kind, KINDS)
        if not 0 <= overlap <= 1:
            raise UsageError(f"overlap={overlap}; expected a share from 0 to 1")
        with self.kb.writing() as connection:
            run = evidence.start_run(
                connection, "complete" if kind == "missing" else "audit", model=model, settings=settings
            )
            facts = Facts(connection, self.kb.splitter)
            rows = _proposal_rows(table, facts)
            rows = rows.unique("belief_id", keep="first", maintain_order=True)
            lock_log(connection)
            rows = self._reviewable(connection, rows, kind)
            rows = rows.with_columns(run_id=pl.lit(run), kind=pl.lit(kind), state=pl.lit("open"), second=pl.lit(False))
            chosen = np.random.default_rng([seed, run]).permutation(len(rows))[: round(overlap * len(rows))]
            copies = rows[np.sort(chosen).tolist()].with_columns(second=pl.lit(True))
            insert_frame(connection, "proposal", pl.concat([rows, copies]))
            return len(rows)

    def _reviewable(self, connection: Connection, rows: pl.DataFrame, kind: str) -> pl.DataFrame:
        """The proposals that a reviewer should see; open ones of the same beliefs are withdrawn."""
        kept = []
        for number in rows["belief_id"]:
            roots = connection.execute(_roots().where(belief.c.id == number)).one()
            states = evidence.equivalent(connection, roots)
            decided = any(row.decision_id is not None for row in states)
            wanted = not decided and evidence.holds(states) == (kind == "suspect")
            if kind == "suspect" and decided:
                wanted = False
            same = (proposal.c.belief_id == number, proposal.c.state == "open")
            # locked, so that nobody claims a proposal between this look at its lease and its withdrawal
            leases = connection.execute(sa.select(proposal.c.leased_until).where(*same).with_for_update()).scalars()
            if wanted and max((lease or 0 for lease in leases), default=0) <= now():
                connection.execute(sa.update(proposal).where(*same).values(state="withdrawn"))
                kept.append(number)
        return rows.filter(pl.col("belief_id").is_in(kept))

    def claim(self, *, order: str = "credence", lease: float = LEASE, curator: str | None = None) -> Proposal | None:
        """Lease the next proposal to a curator, or renew the lease of the one in hand; None if nothing is open."""
        return next(iter(self.claim_many(1, order=order, lease=lease, curator=curator)), None)

    def claim_many(
        self, count: int, *, order: str = "credence", lease: float = LEASE, curator: str | None = None
    ) -> list[Proposal]:
        """Lease up to `count` proposals to a curator: those in hand, whose leases are renewed, then the next ones."""
        one_of("order", order, ORDERS)
        me, claimed = curator or self.kb.curator, list[int]()
        with self.kb.writing() as connection:
            time = now()  # after the wait for other writers
            values = {"leased_by": me, "leased_until": time + int(lease * 1e6)}
            in_hand = sa.select(proposal.c.id).where(
                proposal.c.state == "open", proposal.c.leased_by == me, proposal.c.leased_until > time
            )
            free = self._free(me, time, order, is_postgres(connection))
            while len(claimed) < count:
                for candidates in (in_hand.order_by(proposal.c.id).where(proposal.c.id.not_in(claimed)), free):
                    first = candidates.limit(1).scalar_subquery()
                    taken = sa.update(proposal).where(proposal.c.id == first, proposal.c.state == "open")
                    number = connection.execute(taken.values(values).returning(proposal.c.id)).scalar()
                    if number is not None:
                        claimed.append(number)
                        break
                else:
                    break
            return [self._get(connection, number) for number in claimed]

    @staticmethod
    def _free(me: str, time: int, order: str, locks: bool) -> sa.Select[Any]:
        """Open proposals without a valid lease that this curator has not seen the copy of, in order."""
        other = proposal.alias()
        seen = sa.or_(other.c.decided_by == me, sa.and_(other.c.leased_by == me, other.c.leased_until > time))
        twin = sa.select(other.c.id).where(
            other.c.belief_id == proposal.c.belief_id, other.c.run_id == proposal.c.run_id, seen
        )
        by = proposal.c.credence.desc() if order == "credence" else sa.func.abs(proposal.c.credence - 0.5)
        free = sa.or_(proposal.c.leased_until.is_(None), proposal.c.leased_until <= time)
        query = sa.select(proposal.c.id).where(proposal.c.state == "open", free, ~twin.exists())
        query = query.order_by(by, proposal.c.id)
        return query.with_for_update(skip_locked=True, of=proposal) if locks else query

    def get(self, number: int) -> Proposal:
        """A proposal by its number."""
        with self.kb.reading() as connection:
            return self._get(connection, number)

    @staticmethod
    def _get(connection: Connection, number: int) -> Proposal:
        suggested = belief.alias()
        query = (
            sa.select(proposal, *_named(belief), _named(suggested)[2].label("suggested"))
            .join(belief, belief.c.id == proposal.c.belief_id)
            .outerjoin(suggested, suggested.c.id == proposal.c.suggestion)
            .where(proposal.c.id == number)
        )
        row = connection.execute(query).first()
        if row is None:
            raise UnknownName(f"no proposal {number} in the queue")
        stated = (
            sa.select(assertion.c.mention, assertion.c.confidence, source.c.uri)
            .join(source, source.c.id == assertion.c.source_id)
            .where(assertion.c.belief_id == row.belief_id)
            .order_by(assertion.c.id)
            .limit(QUOTES)
        )
        mentions = [dict(one) for one in connection.execute(stated).mappings()]
        return Proposal(
            row.id, row.kind, row.head, row.relation, row.tail, row.credence, row.suggested,
            json.loads(row.evidence) if row.evidence else {}, mentions, row.leased_until or 0, row.state,
        )  # fmt: skip

    def release(self, number: int) -> None:
        """Give a proposal back to the queue."""
        mine = (proposal.c.id == number, proposal.c.leased_by == self.kb.curator, proposal.c.state == "open")
        with self.kb.writing() as connection:
            connection.execute(sa.update(proposal).where(*mine).values(leased_by=None, leased_until=None))

    def decide(
        self,
        number: int,
        verdict: str,
        *,
        reason: str | None = None,
        note: str | None = None,
        replacement: str | None = None,
        curator: str | None = None,
        at: int | None = None,
    ) -> int:
        """Decide a proposal that is not leased to another reviewer; the number of the decision.

        accept: the belief is true. reject: it is false. replace: it is false, and the suggestion, or the tail named as
        `replacement`, is right. unsure decides nothing about the belief.
        """
        one_of("verdict", verdict, VERDICTS)
        if reason is not None:
            one_of("reason", reason, log.REASONS)
        me = curator or self.kb.curator
        with self.kb.writing() as connection:
            row = connection.execute(sa.select(proposal).where(proposal.c.id == number)).first()
            if row is None:
                raise UnknownName(f"no proposal {number} in the queue")
            other = self._replacement(connection, row, replacement) if verdict == "replace" else None
            lock_log(connection)
            free = sa.or_(
                proposal.c.leased_until.is_(None), proposal.c.leased_until <= now(), proposal.c.leased_by == me
            )
            taken = sa.update(proposal).where(proposal.c.id == number, proposal.c.state == "open", free)
            if connection.execute(taken.values(state="decided").returning(proposal.c.id)).first() is None:
                raise self._taken(connection, number)
            return log.record(
                connection, verdict, me, at, belief_id=row.belief_id, proposal_id=number, replacement_id=other,
                reason=reason, note=note, credence=row.credence,
            )  # fmt: skip

    def _replacement(self, connection: Connection, row: Any, tail: str | None) -> int:
        if tail is None:
            if row.suggestion is None:
                raise UsageError(f"proposal {row.id} has no suggestion", "name the right tail as replacement")
            return int(row.suggestion)
        head, name, _ = connection.execute(sa.select(*_named(belief)).where(belief.c.id == row.belief_id)).one()
        table = pl.DataFrame({"head": [head], "relation": [name], "tail": [tail]})
        return int(Facts(connection, self.kb.splitter).ids(table)[0])

    @staticmethod
    def _taken(connection: Connection, number: int) -> UsageError:
        row = connection.execute(sa.select(proposal).where(proposal.c.id == number)).one()
        if row.state == "open":
            return UsageError(f"proposal {number} is leased to {row.leased_by}", "claim another one")
        by = f" by {row.decided_by}" if row.decided_by else ""
        return UsageError(f"proposal {number} is already {row.state}{by}", "undo the decision to decide it again")

    def undo_last(self, *, curator: str | None = None, note: str | None = None) -> int:
        """Undo the curator's last effective review; the number of the undo. The proposal is open again."""
        me = curator or self.kb.curator
        ineffective = sa.select(undone.c.decision_id).where(undone.c.decision_id == decision.c.id).exists()
        with self.kb.writing() as connection:
            lock_log(connection)
            last = connection.execute(
                sa.select(sa.func.max(decision.c.id)).where(
                    decision.c.curator == me, decision.c.proposal_id.is_not(None), ~ineffective
                )
            ).scalar()
            if last is None:
                raise UsageError(f"no review by {me!r} to undo", "name the reviewer: --as NAME")
            return log.undo(connection, last, me, note)

    def proposal_of(self, number: int) -> int | None:
        """The proposal that a decision is about; that of the undone decision, if the decision is an undo."""
        with self.kb.reading() as connection:
            row = log.get(connection, number)
            while row.undoes is not None:
                row = log.get(connection, row.undoes)
            return None if row.proposal_id is None else int(row.proposal_id)

    def counts(self) -> dict[str, int]:
        """How many proposals are open, leased, decided and withdrawn."""
        with self.kb.reading() as connection:
            rows = connection.execute(sa.select(proposal.c.state, sa.func.count()).group_by(proposal.c.state))
            totals = {"open": 0, "decided": 0, "withdrawn": 0} | {row.state: row[1] for row in rows}
            leased = sa.select(sa.func.count()).where(proposal.c.state == "open", proposal.c.leased_until > now())
            return totals | {"leased": int(connection.execute(leased).scalar_one())}

    def decisions(self) -> pl.DataFrame:
        """The effective decisions about proposals, in order: who decided what, with which credence shown."""
        ineffective = sa.select(undone.c.decision_id).where(undone.c.decision_id == decision.c.id).exists()
        columns = [decision.c[name] for name in ("id", "at", "curator", "verdict", "reason", "credence", "belief_id")]
        query = (
            sa.select(*columns, proposal.c.run_id, proposal.c.kind)
            .join(proposal, proposal.c.id == decision.c.proposal_id)
            .where(~ineffective)
            .order_by(decision.c.id)
        )
        with self.kb.reading() as connection:
            return frame(connection, query, DECISIONS)


DECISIONS = {
    "decision": pl.Int64, "at": pl.Int64, "curator": pl.String, "verdict": pl.String, "reason": pl.String,
    "credence": pl.Float64, "belief_id": pl.Int64, "run_id": pl.Int64, "kind": pl.String,
}  # fmt: skip


def _proposal_rows(table: pl.DataFrame, facts: Facts) -> pl.DataFrame:
    """belief_id, credence, suggestion and evidence of each row of a table by name."""
    others = [
        name for name in table.columns if name not in (*TRIPLE, "credence", "suggestion", "mention", "confidence")
    ]
    kept = table.select(others)
    texts = [json.dumps(row, ensure_ascii=False) for row in kept.to_dicts()] if others else [None] * len(table)
    rows = pl.DataFrame(
        {
            "belief_id": facts.ids(table.select(TRIPLE)),
            "credence": table["credence"].cast(pl.Float64),
            "evidence": pl.Series(texts, dtype=pl.String),
        }
    )
    suggestion = pl.Series("suggestion", [None] * len(table), dtype=pl.Int64)
    if "suggestion" in table.columns:
        other = table.with_row_index("row").filter(pl.col("suggestion").is_not_null())
        if len(other):
            ids = facts.ids(other.select("head", "relation", tail="suggestion"))
            suggestion = suggestion.scatter(other["row"], ids)
    return rows.with_columns(suggestion)


def _named(table: Any) -> list[Any]:
    """Scalar subqueries of the present names of a belief's head, relation and tail."""
    columns = []
    for name in TRIPLE:
        named = (relation if name == "relation" else entity).alias()
        columns.append(sa.select(named.c.name).where(named.c.id == table.c[name]).scalar_subquery().label(name))
    return columns


def _roots() -> sa.Select[Any]:
    columns = []
    for name in TRIPLE:
        named = (relation if name == "relation" else entity).alias()
        root = sa.func.coalesce(named.c.merged_into, named.c.id)
        columns.append(sa.select(root).where(named.c.id == belief.c[name]).scalar_subquery())
    return sa.select(*columns)
