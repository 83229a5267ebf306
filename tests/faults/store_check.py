"""What must hold of a store after a kill: what was reported is there, all or nothing of the rest, and the projections
are a replay of the log."""

import json
import time
from collections import Counter

import sqlalchemy as sa

from doxa.model import Model
from doxa.storage.store import schema
from doxa.storage.store.knowledge_base import KnowledgeBase
from doxa.storage.store.moment import Moment
from tests.faults.store_worker import frames, rows_of

STATUS = {"add": 2, "accept": 2, "reject": -1, "retract": -1, "replace": -1}
LONGEST = 30
"""Seconds until a server has noticed that its client is gone."""


def reports_of(path):
    """What a worker reported: what is done, and what it had begun, or None. A line is whole or the last one."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    done = [line for line in lines if line["state"] == "done"]
    begun = [line for line in lines if line["state"] == "begun"]
    return done, begun[-1] if len(begun) > len(done) else None


def check(place, log):
    """Everything that must hold after the worker with this log was killed."""
    kb = KnowledgeBase(place, curator="checker")
    done, unfinished = reports_of(log)
    if kb.place.is_postgres:
        wait_for_clients(kb)
    check_database(kb)
    check_projections(kb)
    check_reports(kb, log.stem, done, unfinished)
    check_models(kb, done)
    if unfinished is not None and unfinished["operation"] == "import_":
        check_import(kb, unfinished["token"])
    kb.close()


def wait_for_clients(kb):
    """Wait until the server has ended the connections of killed clients: a commit that was sent may still be done."""
    others = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND application_name = 'worker'"
    )
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        with kb.reading() as connection:
            if not connection.execute(others).scalar():
                return
        time.sleep(0.005)
    raise AssertionError(f"the connection of a killed client is open after {LONGEST} s")


def check_database(kb):
    if not kb.place.is_postgres:
        with kb.reading() as connection:
            assert connection.exec_driver_sql("PRAGMA quick_check").scalar() == "ok"
            assert connection.exec_driver_sql("PRAGMA foreign_key_check").first() is None


def effective_decisions(decisions):
    """The decisions that no effective undo names, from the last one backwards."""
    without_effect = set()
    for row in reversed(decisions):
        if row.undoes is not None and row.id not in without_effect:
            without_effect.add(row.undoes)
    return [row for row in decisions if row.id not in without_effect], without_effect


def replayed_states(effective, asserted):
    """Status and deciding decision of each belief; `asserted` are the beliefs that active runs state."""
    states = dict.fromkeys(asserted, (1, None))
    for row in effective:
        if row.verdict in STATUS:
            states[row.belief_id] = (STATUS[row.verdict], row.id)
            if row.replacement_id is not None:
                states[row.replacement_id] = (2, row.id)
    return states


def check_projections(kb):
    """Every projection is what a replay of the log gives."""
    with kb.reading() as connection:

        def rows(table):
            return connection.execute(sa.select(table).order_by(*table.primary_key.columns)).all()

        decisions, runs, proposals = rows(schema.decision), rows(schema.run), rows(schema.proposal)
        effective, without_effect = effective_decisions(decisions)
        assert {row.decision_id for row in rows(schema.undone)} == without_effect
        active = {row.run_id for row in effective if row.run_id is not None}
        assert {row.id for row in runs if row.active} == active, "active runs"
        asserted = {row.belief_id for row in rows(schema.assertion) if row.run_id in active}
        present = {row.belief_id: (row.status, row.decision_id) for row in rows(schema.belief_state)}
        assert present == replayed_states(effective, asserted), "belief_state is no replay of the log"
        by_proposal = Counter(row.proposal_id for row in effective if row.proposal_id is not None)
        assert set(by_proposal.values()) <= {1}, "a proposal is decided twice"
        assert {row.id for row in proposals if row.state == "decided"} == set(by_proposal), "decided proposals"
        stated = {row.run_id for row in decisions if row.run_id is not None} | {row.run_id for row in proposals}
        orphans = [row for row in runs if row.id not in stated and row.command in ("import", "add")]
        assert not orphans, f"runs that no decision made count: {orphans}"
        facts = {row.id: (row.head, row.relation, row.tail) for row in rows(schema.belief)}
        moment = Moment.of(connection, max((row.id for row in decisions), default=0))
        kinds = [(names.names.to_list(), names.roots.tolist()) for names in (moment.entities, moment.relations)]
        for table, (names, roots) in zip((schema.entity, schema.relation), kinds, strict=True):
            for row in rows(table):
                assert (row.name, row.merged_into or row.id) == (names[row.id], roots[row.id]), row
    expected = holding(present, facts, *kinds)
    exported = {row for table in kb.frames() for row in table.select("head", "relation", "tail").rows()}
    assert exported == expected, f"export and belief_state differ: {sorted(exported ^ expected)[:5]}"


def holding(states, facts, entities, relations):
    """The facts that hold, by name: of beliefs that merges made one fact, the last decision counts."""
    last = {}
    for number, (status, by) in states.items():
        slots = zip(facts[number], (entities, relations, entities), strict=True)
        fact = tuple(names[roots[one]] for one, (names, roots) in slots)
        last[fact] = max(last.get(fact, (-1, 0)), (by or 0, status))
    return {fact for fact, (_, status) in last.items() if status > 0}


def check_reports(kb, name, done, unfinished):
    """What the worker reported is in the log, and at most one operation beside it: the unfinished one."""
    with kb.reading() as connection:
        rows = connection.execute(
            sa.select(schema.decision).where(schema.decision.c.curator == name).order_by(schema.decision.c.id)
        ).all()
        by_id = {row.id: row for row in rows}
        expected = set()
        for report in done:
            if "decision" in report:
                row = by_id.get(report["decision"])
                assert row is not None, f"lost: {report}"
                assert (row.verdict, row.proposal_id) == (report["verdict"], report.get("proposal")), (row, report)
                expected |= {report["decision"], *report.get("also", ())}
            if report["operation"] == "import_":
                check_rows(connection, report["token"])
            if "proposed" in report:
                assert len(proposals_of(connection, report["token"])) == report["proposed"], f"lost: {report}"
        beside = [row for row in rows if row.id not in expected]
        most = {None: 0, "merge": 2}.get(unfinished and unfinished["operation"], 1)
        assert len(beside) <= most, f"decisions that nothing did: {beside}, unfinished {unfinished}"


def proposals_of(connection, token):
    """The proposals, without second copies, of a batch."""
    text = json.dumps({"token": token})
    query = (
        sa.select(schema.proposal.c.id)
        .join(schema.run, schema.run.c.id == schema.proposal.c.run_id)
        .where(schema.run.c.settings == text, ~schema.proposal.c.second)
    )
    return connection.execute(query).all()


def check_rows(connection, token):
    """An import is whole: as many assertions as it has rows."""
    query = (
        sa.select(sa.func.count())
        .select_from(schema.assertion)
        .join(schema.source, schema.source.c.id == schema.assertion.c.source_id)
        .where(schema.source.c.uri == token)
    )
    assert connection.execute(query).scalar() == sum(map(len, rows_of(token))), f"import {token} is not whole"


def check_import(kb, token):
    """An import that was cut is whole or has left nothing; in that case it can be repeated."""
    with kb.reading() as connection:
        present = connection.execute(sa.select(schema.source.c.id).where(schema.source.c.uri == token)).first()
        entity = connection.execute(sa.select(schema.entity.c.id).where(schema.entity.c.name == f"{token}-x")).first()
        assert (present is None) == (entity is None), f"half of import {token}"
        if present is not None:
            check_rows(connection, token)
    if present is None:
        kb.import_beliefs(frames(rows_of(token)), source=token)
        with kb.reading() as connection:
            check_rows(connection, token)


def check_models(kb, done):
    """One version is live and loads, and so do the versions that the worker reported."""
    versions = {one.id: one for one in kb.models.all()}
    live = [one for one in versions.values() if one.state == "live"]
    assert len(live) == 1, versions
    for number in {live[0].id, max(versions), *(report["version"] for report in done if "version" in report)}:
        assert number in versions, f"lost: version {number}"
        model = Model.load(kb.models.folder_of(versions[number]))
        stored = model.origin.get("store", {}).get("snapshot", versions[number].snapshot)
        assert stored == versions[number].snapshot, f"version {number} is the model of snapshot {stored}"
