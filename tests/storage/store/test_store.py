"""The store on SQLite and PostgreSQL: imports, splits, the log as a table, and copies."""

import time

import polars as pl
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from doxa.data.iris import Prefixes
from doxa.errors import BadStore, UnknownName, UsageError
from doxa.storage.store import log
from doxa.storage.store.evidence import Splitter
from doxa.storage.store.history import local_time
from doxa.storage.store.knowledge_base import KnowledgeBase, as_time
from doxa.storage.store.schema import belief_state, decision, entity, metadata
from tests.storage.store.conftest import FACTS, rows


def test_migrations_make_the_schema_and_imports_keep_it(kb):
    for facts in (None, FACTS, FACTS):
        if facts:
            kb.import_beliefs(facts)
        with kb.reading() as connection:
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_new_store_is_made_once(new_place):
    place = new_place()
    kb = KnowledgeBase.create(place, valid=0.3, test=0.1, split_by="pair")
    assert KnowledgeBase(place).splitter == Splitter(0.3, 0.1, "pair")
    with pytest.raises(UsageError, match="already holds a knowledge base"):
        KnowledgeBase.create(place)
    assert kb.snapshot() == 0


def test_import_and_read(kb):
    assert kb.import_beliefs(FACTS, source="atlas.tsv", license="CC0") == 1
    assert rows(kb) == [fact[:3] for fact in FACTS]
    beliefs = kb.beliefs()
    assert beliefs.to_frame()["mention"].to_list() == ["Lyon is in France", None, None]
    assert beliefs.to_frame()["confidence"].to_list() == [0.9, None, None]
    record = kb.history("lyon", "in", "france")
    assert (record["holds"], record["assertions"][0]["uri"]) == (True, "atlas.tsv")
    sizes = kb.status()
    assert (sizes["beliefs"], sizes["entities"], sizes["relations"], sizes["decisions"]) == (3, 3, 2, 1)


def test_a_null_character_is_kept_or_refused(kb):
    rows = [("a\0", "in", "b", None, None)]
    if kb.place.is_postgres:
        with pytest.raises(UsageError, match=r"U\+0000"):
            kb.add("a\0", "in", "b")
        with pytest.raises(UsageError, match=r"U\+0000"):
            kb.import_beliefs(rows, source="x")
    else:
        kb.import_beliefs(rows, source="x")
        assert kb.holds("a\0", "in", "b")


def test_a_failed_import_leaves_nothing(kb):
    def broken():
        yield pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["b"]})
        raise UsageError("line 2 is broken")

    with pytest.raises(UsageError, match="line 2"):
        kb.import_beliefs(broken())
    assert kb.status()["entities"] == kb.snapshot() == 0


def test_a_rejected_belief_stays_rejected_by_imports(kb):
    kb.import_beliefs(FACTS)
    kb.retract("lyon", "in", "france", reason="no longer true")
    kb.import_beliefs(FACTS)
    assert ("lyon", "in", "france") not in rows(kb)
    kb.add("lyon", "in", "france")
    assert ("lyon", "in", "france") in rows(kb)


def test_the_last_verdict_counts(kb):
    kb.decide("a", "r", "b", "accept")
    kb.decide("a", "r", "b", "reject")
    assert not kb.holds("a", "r", "b")
    assert rows(kb) == []
    kb.undo(2)
    assert rows(kb) == [("a", "r", "b")]


def test_undoing_an_import_spares_what_another_asserts(kb):
    kb.import_beliefs(FACTS)
    kb.import_beliefs(FACTS[:1])
    kb.undo(1)
    assert rows(kb) == [FACTS[0][:3]]
    assert kb.holds(*FACTS[0][:3])
    assert not kb.holds(*FACTS[1][:3])


def test_merged_facts_share_a_split(kb):
    facts = [(f"e{number}", "r", "tail") for number in range(40)]
    kb.import_beliefs(facts)
    valid, train = (rows(kb, part=part) for part in ("valid", "train"))
    first, second = sorted([valid[0], train[-1]], key=facts.index)
    kb.merge(second[0], first[0])
    part = "valid" if first == valid[0] else "train"
    assert rows(kb, part=part).count(first) == 2
    assert rows(kb).count(first) == 2


def test_old_names_are_understood(kb):
    kb.import_beliefs(FACTS)
    kb.rename("lyon", "Lyon")
    kb.import_beliefs([("lyon", "twin", "milan")])
    assert ("Lyon", "twin", "milan") in rows(kb)
    with pytest.raises(UnknownName, match="Did you mean 'Lyon'"):
        kb.retract("Lyn", "in", "france")
    with pytest.raises(UsageError, match="belongs to another entity"):
        kb.rename("paris", "lyon")


def test_times_and_snapshots(kb):
    kb.import_beliefs(FACTS[:1], at=1_000_000)
    kb.import_beliefs(FACTS[1:2], at=3_000_000)
    assert len(rows(kb, at="1970-01-01T00:00:02+00:00")) == 1
    assert len(rows(kb, at="1970-01-01T00:00:03+00:00")) == len(rows(kb, at=2)) == 2
    with pytest.raises(UnknownName, match="the last one is 2"):
        kb.snapshot(3)
    with pytest.raises(UsageError, match="expected a snapshot number, or a time"):
        kb.snapshot("yesterday")


def test_times_that_are_shown_are_read_back(monkeypatch):
    try:
        monkeypatch.setenv("TZ", "JST-9")
        time.tzset()
        assert local_time(as_time("2026-03-01T12:00:05")) == "2026-03-01T12:00:05"
        assert local_time(as_time("2026-03-01T12:00:05Z")) == "2026-03-01T21:00:05"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_log_never_goes_back_in_time(kb):
    kb.import_beliefs(FACTS[:1], at=5_000_000)
    kb.import_beliefs(FACTS[1:2], at=4_000_000)
    assert kb.entries()["at"].to_list() == [5_000_000, 5_000_000]


def test_the_log_is_append_only(kb):
    kb.import_beliefs(FACTS)
    for statement in (sa.delete(decision), sa.update(decision).values(curator="eve")):
        with pytest.raises(BadStore, match="append-only"), kb.writing() as connection:
            connection.execute(statement)


def test_splits_stay_as_the_store_grows(kb):
    facts = [(f"e{i}", "r", f"e{i + 1}") for i in range(200)]
    kb.import_beliefs(facts[:100])
    before = {part: set(rows(kb, part=part)) for part in ("train", "valid", "test")}
    kb.import_beliefs(facts)
    after = {part: set(rows(kb, part=part)) for part in ("train", "valid", "test")}
    assert all(before[part] == after[part] & set(facts[:100]) for part in before)
    assert 20 < len(after["valid"]) < 60
    assert sum(map(len, after.values())) == 200


def test_pairs_share_a_split():
    facts = [(f"e{i}", "r", f"e{i + 1}") for i in range(100)]
    there = pl.DataFrame(facts, schema=["head", "relation", "tail"], orient="row")
    back = there.select(head="tail", relation=pl.lit("inverse"), tail="head")
    splitter = Splitter(0.3, 0.3, "pair")
    assert splitter.splits(there).equals(splitter.splits(back))
    assert splitter.splits(there).n_unique() == 3
    assert not Splitter(0.3, 0.3).splits(there).equals(Splitter(0.3, 0.3).splits(back))
    assert Splitter(0.3, 0.3).splits(there)[:4].to_list() == [1, 2, 2, 0]  # on every machine, in every version


def test_a_dataset_keeps_its_parts(kb):
    kb.import_beliefs({"train": [("a", "r", "b")], "test": [("b", "r", "a"), ("a", "r", "b")]})
    assert rows(kb, part="train") == [("a", "r", "b")] * 2
    assert rows(kb, part="test") == [("b", "r", "a")]


def test_the_log_goes_into_another_store_and_back(make_store, new_place, tmp_path):
    kb = make_store()
    kb.import_beliefs(FACTS, source="atlas.tsv", extractor="hand")
    kb.add("lyon", "twin", "milan", mention='a "twin"\ttown', note="two\nlines")
    kb.rename("lyon", "Lyon")
    kb.merge("milan", "paris")
    kb.undo(4)
    kb.queue.propose(
        pl.DataFrame({"head": ["milan"], "relation": ["in"], "tail": ["italy"], "credence": [0.5]}), "missing"
    )
    kb.queue.decide(kb.queue.claim().id, "reject", reason="other")
    kb.write_log(tmp_path / "log.tsv")
    states = [list(rows(kb, at=number)) for number in range(kb.snapshot() + 1)]
    other = KnowledgeBase.create(new_place(), curator="bob")
    assert other.import_log(tmp_path / "log.tsv") == 6
    assert [list(rows(other, at=number)) for number in range(7)] == states
    other.write_log(tmp_path / "again.tsv")
    ids = ["proposal", "run"]
    logs = [pl.read_csv(tmp_path / name, separator="\t").drop(ids) for name in ("log.tsv", "again.tsv")]
    assert logs[0].equals(logs[1])
    assert other.add("a", "r", "b") == 7
    with pytest.raises(UsageError, match="only into an empty knowledge base"):
        other.import_log(tmp_path / "log.tsv")


def test_decisions_go_into_another_store(make_store, new_place, tmp_path):
    kb, other = make_store(), KnowledgeBase.create(new_place(), curator="bob")
    kb.decide("a", "r", "b", "reject", reason="other")
    kb.decide("a", "r", "c", "replace", replacement="d")
    kb.decisions_table().write_csv(tmp_path / "decisions.tsv", separator="\t")
    assert other.import_decisions(tmp_path / "decisions.tsv") == 2
    assert other.import_decisions(tmp_path / "decisions.tsv") == 0
    assert rows(other) == [("a", "r", "d")]
    assert other.entries()["curator"].to_list() == ["ann", "ann"]


def test_prov(kb, tmp_path):
    from pyoxigraph import RdfFormat, parse

    kb.import_beliefs(FACTS[:1], source="atlas.tsv")
    kb.retract("lyon", "in", "france")
    count = kb.write_prov(tmp_path / "log.ttl")
    statements = list(parse((tmp_path / "log.ttl").read_bytes(), RdfFormat.TURTLE))
    assert len(statements) == count
    assert any("wasInvalidatedBy" in str(one.predicate) for one in statements)
    subjects = [str(one.object) for one in statements if str(one.predicate).endswith("#subject>")]
    assert set(subjects) == {"<urn:doxa:lyon>"}
    with pytest.raises(UsageError, match=r"\.ttl or \.nt"):
        kb.write_prov(tmp_path / "log.csv")


def test_a_backup_is_a_store(kb, tmp_path):
    kb.import_beliefs(FACTS)
    kb.merge("lyon", "paris")
    kb.backup(tmp_path / "copy.db")
    assert [path.name for path in tmp_path.glob("*copy*")] == ["copy.db"]
    copy = KnowledgeBase(tmp_path / "copy.db")
    assert rows(copy) == rows(kb)
    assert copy.settings == kb.settings
    assert copy.undo(2) == 3


def test_states_are_what_a_replay_says(kb):
    """The projection of single beliefs, without merges."""
    kb.import_beliefs(FACTS)
    kb.retract("lyon", "in", "france")
    kb.undo(1)
    with kb.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(belief_state)).scalar() == 1
        assert log.undone_at(connection, 3) == {1}
        assert log.undone_at(connection, 2) == set()
    kb.undo(3)
    assert len(rows(kb)) == 2


def test_accounts_and_jobs(kb):
    token = kb.accounts.add("eve", "reader")
    assert kb.accounts.of_token(token) == ("eve", "reader")
    assert kb.accounts.of_token("guess") is None
    with pytest.raises(UsageError, match="already an account"):
        kb.accounts.add("eve")
    kb.accounts.remove("eve")
    assert [row["action"] for row in kb.accounts.trail()] == ["add account eve", "remove account eve"]
    number = kb.jobs.add("update", {"epochs": 2})
    taken = kb.jobs.start()
    assert (taken["id"], taken["settings"]) == (number, {"epochs": 2})
    assert kb.jobs.start() is None
    kb.jobs.finish(number, failed=True, message="no live model")
    assert kb.jobs.all()[0]["state"] == "failed"


def test_one_model_is_live(kb, tmp_path):
    first = kb.models.register(tmp_path / "m1", 0, figures={"mrr": 0.5})
    second = kb.models.register(tmp_path / "m2", 0, parent=first.id)
    assert (first.state, second.state) == ("live", "candidate")
    kb.models.publish(second.id)
    assert [one.state for one in kb.models.all()] == ["retired", "live"]
    assert kb.models.live().folder == (tmp_path / "m2").resolve()


def test_iris_of_names(make_store, new_place, tmp_path):
    kb = make_store()
    prefixes = Prefixes.of({"ex": "http://example.org/"})
    kb.import_beliefs([("ex:lyon", "ex:in", "dbr:France")], prefixes=prefixes)
    kb.import_beliefs([("http://example.org/lyon", "<http://example.org/in>", "Gaul")],
                      prefixes={"ex": "http://other.org/"})  # fmt: skip
    assert kb.prefixes() == {"ex": "http://example.org/"}
    assert rows(kb) == [("ex:lyon", "ex:in", "dbr:France"), ("ex:lyon", "ex:in", "Gaul")]
    with kb.reading() as connection:
        iris = connection.execute(sa.select(entity.c.iri).order_by(entity.c.id)).scalars().all()
    assert iris == ["http://example.org/lyon", "http://dbpedia.org/resource/France", None]
    kb.rename("http://example.org/lyon", "Lyon")
    assert kb.holds("<http://example.org/lyon>", "ex:in", "http://dbpedia.org/resource/France")
    assert rows(kb)[1] == ("Lyon", "ex:in", "Gaul")
    assert rows(kb, iris=True)[1] == ("<http://example.org/lyon>", "<http://example.org/in>", "Gaul")
    assert kb.beliefs().vocabularies.prefixes == kb.prefixes()
    kb.write_log(tmp_path / "log.tsv")
    if new_place().startswith("postgresql"):
        return
    copy = make_store()
    copy.import_log(tmp_path / "log.tsv")
    assert rows(copy, iris=True) == rows(kb, iris=True)
