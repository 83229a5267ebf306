"""The log: every change of the knowledge base is a decision, and an undo is a decision that names the one it undoes.

| verdict | effect while it is effective |
|---|---|
| import | the assertions of its run count |
| add | a curator states the belief, with an assertion |
| accept, reject | a curator says that the belief is true or false |
| retract | a curator removes the belief |
| replace | the belief is false, `replacement_id` is true |
| unsure | none |
| rename, merge | of an entity or relation |
| undo | the decision `undoes` is not effective |

A decision is effective unless an effective undo names it. The last effective decision about a belief by a curator
decides; without one, the belief holds if an effective import or addition asserts it. A snapshot is the number of a
decision: all decisions up to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from doxa.errors import UnknownName, UsageError
from doxa.storage.store import bulk, names
from doxa.storage.store.connect import lock_log, now
from doxa.storage.store.schema import (
    ACCEPTED,
    ASSERTED,
    REJECTED,
    assertion,
    belief_state,
    decision,
    proposal,
    run,
    undone,
)

STATUS = {"add": ACCEPTED, "accept": ACCEPTED, "reject": REJECTED, "retract": REJECTED, "replace": REJECTED}
"""Status that each verdict gives its belief; the replacement is accepted."""

VERDICTS = (*STATUS, "unsure", "import", "rename", "merge", "undo")

REASONS = (
    "wrong head",
    "wrong tail",
    "wrong relation",
    "not stated by the mention",
    "no longer true",
    "duplicate",
    "other",
)
"""Reasons of a rejection."""


def head(connection: Connection) -> int:
    """The present snapshot, 0 for an empty log."""
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(decision.c.id), 0))).scalar_one())


def snapshot_at(connection: Connection, time: int) -> int:
    """The snapshot at a time."""
    query = sa.select(sa.func.coalesce(sa.func.max(decision.c.id), 0)).where(decision.c.at <= time)
    return int(connection.execute(query).scalar_one())


def record(connection: Connection, verdict: str, curator: str, at: int | None = None, **columns: Any) -> int:
    """Append a decision and bring all projections up to date; the number of the decision."""
    lock_log(connection)
    last = connection.execute(sa.select(sa.func.max(decision.c.at))).scalar() or 0
    values = {"verdict": verdict, "curator": curator, "at": max(now() if at is None else at, last)} | columns
    number = connection.execute(sa.insert(decision).values(values).returning(decision.c.id)).scalar_one()
    _apply(connection, get(connection, number), True)
    return int(number)


def undo(connection: Connection, number: int, curator: str, note: str | None = None, at: int | None = None) -> int:
    """Append the undo of an effective decision; of an undo, this is a redo."""
    lock_log(connection)
    row = get(connection, number)
    if is_undone(connection, number):
        by = connection.execute(sa.select(sa.func.max(decision.c.id)).where(decision.c.undoes == number)).scalar()
        raise UsageError(f"decision {number} is already undone, by decision {by}", f"undo decision {by} to redo it")
    return record(connection, "undo", curator, at, undoes=row.id, note=note, belief_id=row.belief_id)


def get(connection: Connection, number: int) -> Row[Any]:
    """A row of the log."""
    row = connection.execute(sa.select(decision).where(decision.c.id == number)).first()
    if row is None:
        raise UnknownName(f"no decision {number} in the log", f"the last one is {head(connection)}")
    return row


def is_undone(connection: Connection, number: int) -> bool:
    """Whether a decision is not effective at present."""
    query = sa.select(undone.c.decision_id).where(undone.c.decision_id == number)
    return connection.execute(query).first() is not None


def _apply(connection: Connection, row: Row[Any], effective: bool) -> None:
    """Bring the projections up to date after a decision has become effective or ceased to be."""
    if row.verdict == "undo":
        target = get(connection, row.undoes)
        if effective:
            connection.execute(sa.insert(undone).values(decision_id=target.id))
        else:
            connection.execute(sa.delete(undone).where(undone.c.decision_id == target.id))
        _apply(connection, target, not effective)
        return
    if row.run_id is not None:
        activate(connection, row.run_id, effective)
    if row.verdict in STATUS:
        project_beliefs(connection, {row.belief_id, row.replacement_id} - {None})
    elif row.verdict == "merge":
        names.project_merges(connection, row.kind)
    elif row.verdict == "rename":
        names.project_name(connection, row.kind, row.subject)
    if row.proposal_id is not None:
        state = {"state": "decided", "decided_by": row.curator} if effective else {"state": "open", "decided_by": None}
        free = {"leased_by": None, "leased_until": None}
        connection.execute(sa.update(proposal).where(proposal.c.id == row.proposal_id).values(**state, **free))


def activate(connection: Connection, run_id: int, active: bool) -> None:
    """Let the assertions of a run count, or not, in the state of their beliefs."""
    connection.execute(sa.update(run).where(run.c.id == run_id).values(active=active))
    if active:
        establish(connection, run_id)
        return
    mine = sa.select(assertion.c.belief_id).where(assertion.c.run_id == run_id)
    lost = sa.delete(belief_state).where(
        belief_state.c.status == ASSERTED,
        belief_state.c.belief_id.in_(mine),
        ~_asserted(belief_state.c.belief_id),
    )
    connection.execute(lost)


def establish(connection: Connection, run_id: int) -> None:
    """Give the beliefs of a run a state if they have none."""
    stated = sa.select(assertion.c.belief_id, sa.literal(ASSERTED)).where(assertion.c.run_id == run_id)
    bulk.insert_new(connection, belief_state, ["belief_id", "status"], stated)


def _asserted(belief_id: Any) -> sa.Exists:
    """Whether an assertion of an active run states the belief."""
    return (
        sa.select(assertion.c.id)
        .join(run, run.c.id == assertion.c.run_id)
        .where(assertion.c.belief_id == belief_id, run.c.active)
        .exists()
    )


def project_beliefs(connection: Connection, beliefs: Iterable[int]) -> None:
    """Set the present state of these beliefs as the log says."""
    for number in sorted(beliefs):
        status, by = _status(connection, number)
        connection.execute(sa.delete(belief_state).where(belief_state.c.belief_id == number))
        if status is not None:
            connection.execute(sa.insert(belief_state).values(belief_id=number, status=status, decision_id=by))


def _status(connection: Connection, number: int) -> tuple[int | None, int | None]:
    ineffective = sa.select(undone.c.decision_id).where(undone.c.decision_id == decision.c.id).exists()
    last = (
        sa.select(decision.c.id, decision.c.verdict, decision.c.replacement_id)
        .where(sa.or_(decision.c.belief_id == number, decision.c.replacement_id == number))
        .where(decision.c.verdict.in_(list(STATUS)), ~ineffective)
        .order_by(decision.c.id.desc())
        .limit(1)
    )
    row = connection.execute(last).first()
    if row is not None:
        return (ACCEPTED if row.replacement_id == number else STATUS[row.verdict]), row.id
    stated = connection.execute(sa.select(_asserted(sa.literal(number)))).scalar()
    return (ASSERTED if stated else None), None


def undone_at(connection: Connection, snapshot: int) -> set[int]:
    """The decisions up to a snapshot that were not effective then."""
    query = (
        sa.select(decision.c.id, decision.c.undoes)
        .where(decision.c.undoes.is_not(None), decision.c.id <= snapshot)
        .order_by(decision.c.id.desc())
    )
    without_effect: set[int] = set()
    for row in connection.execute(query):  # the latest first: whether an undo is effective is known when its turn comes
        if row.id not in without_effect:
            without_effect.add(row.undoes)
    return without_effect


def roll_back(connection: Connection, snapshot: int, curator: str, note: str | None = None) -> list[int]:
    """Append undos and redos until the state is that of a snapshot; the numbers of these decisions."""
    lock_log(connection)
    present, then = undone_at(connection, head(connection)), undone_at(connection, snapshot)
    ids = connection.execute(
        sa.select(decision.c.id).where(decision.c.undoes.is_(None)).order_by(decision.c.id.desc())
    ).scalars().all()  # fmt: skip
    wanted = {number for number in ids if number <= snapshot and number not in then}
    effective = {number for number in ids if number not in present}
    written = [undo(connection, number, curator, note) for number in ids if number in effective - wanted]
    for number in sorted(wanted - effective):
        undos = sa.select(decision.c.id).where(decision.c.undoes == number).order_by(decision.c.id.desc())
        last = next(one for one in connection.execute(undos).scalars().all() if not is_undone(connection, one))
        written.append(undo(connection, last, curator, note))
    return written
