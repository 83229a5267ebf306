"""Places that are none, and faults of databases: one clear error for each, and nothing half-done."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from unittest.mock import MagicMock

import polars as pl
import pytest
import sqlalchemy as sa

from doxa.errors import BadStore, UsageError
from doxa.storage.store import bulk, log, versions
from doxa.storage.store.connect import translated
from doxa.storage.store.knowledge_base import KnowledgeBase
from doxa.storage.store.place import Place, store_place
from tests.faults.failing import Failing, why_not
from tests.storage.store.conftest import FACTS, rows


def test_places(tmp_path):
    assert store_place("kb.db@41#test") == Place("kb.db", "41", "test")
    assert store_place("postgresql:/ann:pw@host/db@2026-01-01#train").location == "postgresql://ann:pw@host/db"
    assert "pw" not in str(store_place("postgresql://ann:pw@host/db"))
    assert store_place("beliefs.tsv") is None
    with pytest.raises(UsageError, match="part 'tset'"):
        store_place("kb.db#tset")


def test_moments_and_parts_cannot_be_written(tmp_path):
    KnowledgeBase.create(tmp_path / "kb.db").import_beliefs(FACTS)
    for end in ("@1", "#test", "@1#test"):
        with pytest.raises(UsageError, match=r"needs the whole of it"):
            KnowledgeBase(f"{tmp_path}/kb.db{end}").add("a", "r", "b")
    with pytest.raises(UsageError, match=r"the part test of a knowledge base"):
        KnowledgeBase.create(tmp_path / "new.db#test")
    assert KnowledgeBase(tmp_path / "kb.db").snapshot() == 1


def test_missing(tmp_path):
    with pytest.raises(BadStore, match="no knowledge base") as fault:
        KnowledgeBase(tmp_path / "kb.db")
    assert "doxa kb init" in str(fault.value)
    assert not (tmp_path / "kb.db").exists()


def test_of_another_program(tmp_path):
    with sqlite3.connect(tmp_path / "bank.db") as connection:
        connection.execute("CREATE TABLE money (amount)")
    with pytest.raises(BadStore, match="another program"):
        KnowledgeBase(tmp_path / "bank.db")
    with pytest.raises(UsageError, match="tables of another program"):
        KnowledgeBase.create(tmp_path / "bank.db")


def test_newer(tmp_path):
    KnowledgeBase.create(tmp_path / "kb.db")
    with sqlite3.connect(tmp_path / "kb.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(BadStore, match="newer than this doxa reads"):
        KnowledgeBase(tmp_path / "kb.db")


def test_no_database(tmp_path):
    (tmp_path / "kb.db").write_text("head\trelation\ttail\n" * 100)
    with pytest.raises(BadStore, match="damaged or not a database"):
        KnowledgeBase(tmp_path / "kb.db")


def test_read_only(tmp_path):
    KnowledgeBase.create(tmp_path / "kb.db").import_beliefs(FACTS)
    kb = KnowledgeBase(tmp_path / "kb.db", read_only=True)
    assert len(rows(kb)) == 3
    with pytest.raises(BadStore, match="read-only"):
        kb.add("a", "r", "b")


def test_on_a_read_only_disk(tmp_path, monkeypatch):
    KnowledgeBase.create(tmp_path / "kb.db").import_beliefs(FACTS)
    (tmp_path / "disk").mkdir()
    with sqlite3.connect(tmp_path / "kb.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    shutil.copy(tmp_path / "kb.db", tmp_path / "disk" / "kb.db")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    kb = KnowledgeBase(tmp_path / "disk" / "kb.db")
    assert len(rows(kb)) == 3
    with pytest.raises(BadStore, match="read-only"):
        kb.add("a", "r", "b")
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["kb.db"]


CUT = """
import os, sys
from doxa.errors import BadStore
from doxa.storage.store.knowledge_base import KnowledgeBase
kb = KnowledgeBase(sys.argv[1])
try:
    kb.add("a", "r", "new")
except BadStore as fault:
    print(fault, flush=True)
    os._exit(1)
os._exit(0)
"""
"""A process that ends without closing its store, as one that is killed."""


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "calls can be made to fail")
def test_a_decision_that_does_not_reach_the_disk_is_not_there_afterwards(tmp_path):
    """SQLite has written it to its log before it fails, where the next process would find it."""
    for name in ("counted", "kb"):
        with contextlib.closing(KnowledgeBase.create(tmp_path / f"{name}.db")) as kb:
            kb.import_beliefs(FACTS)

    def add(name):
        command = [sys.executable, "-B", "-c", CUT, str(tmp_path / f"{name}.db")]
        return lambda: sys.exit(subprocess.run(command, check=False, stderr=subprocess.STDOUT).returncode)

    counted = Failing(2**40)
    assert counted.run(add("counted"), tmp_path / "log") == 0
    place = max(place for place, (name, _) in enumerate(counted.calls, 1) if name == "fdatasync")
    assert Failing(place).run(add("kb"), tmp_path / "log") == 1
    assert "the disk is full or broken" in (tmp_path / "log").read_text()
    assert [len(rows(KnowledgeBase(tmp_path / f"{name}.db"))) for name in ("counted", "kb")] == [4, 3]


def test_locked(tmp_path):
    KnowledgeBase.create(tmp_path / "kb.db")
    other = sqlite3.connect(tmp_path / "kb.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BadStore, match="locked by another program"):
        KnowledgeBase(tmp_path / "kb.db", timeout=0.01).add("a", "r", "b")
    other.close()


def test_full(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb.db")
    with pytest.raises(BadStore, match="disk is full"), kb.writing() as connection:  # noqa: PT012
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
        log.record(connection, "unsure", "ann", note="x" * 1_000_000)
    assert kb.snapshot() == 0


def test_unreachable():
    pytest.importorskip("psycopg")
    with pytest.raises(BadStore, match="cannot be reached"):
        KnowledgeBase("postgresql://ann@127.0.0.1:1/db", timeout=2)


def test_lost(postgres):
    url = f"{postgres}{'&' if '?' in postgres else '?'}schema=lost"
    kb = KnowledgeBase.create(url)
    with pytest.raises(BadStore, match="lost the connection"), kb.writing() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert kb.add("a", "r", "b")


def test_faults_of_the_driver(kb):
    with pytest.raises(BadStore, match=r"nothing of this command was kept"), kb.writing() as connection:
        bulk.insert_frame(connection, "relation", pl.DataFrame({"name": ["a", "a"]}))
    fault = sqlite3.OperationalError("database or disk is full")
    assert "free space" in str(translated(fault, Place("kb.db")))


def test_other_faults_show_no_sql():
    fault = sa.exc.DBAPIError("SELECT secret", {}, Exception("odd"))
    assert str(translated(fault, Place("kb.db"))).startswith("kb.db: odd")


def full(*_):
    raise sqlite3.OperationalError("database or disk is full")


def test_a_disk_that_is_full_when_a_store_is_made_leaves_no_file(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(versions, "upgrade", full)
        with pytest.raises(BadStore, match="disk is full"):
            KnowledgeBase.create(tmp_path / "kb.db")
    assert list(tmp_path.iterdir()) == []
    assert KnowledgeBase.create(tmp_path / "kb.db").snapshot() == 0


def test_a_store_that_cannot_be_made_in_a_file_that_exists_leaves_the_file(tmp_path, monkeypatch):
    (tmp_path / "kb.db").touch()
    monkeypatch.setattr(versions, "upgrade", full)
    with pytest.raises(BadStore, match="disk is full"):
        KnowledgeBase.create(tmp_path / "kb.db")
    assert [path.name for path in tmp_path.iterdir()] == ["kb.db"]


@pytest.mark.parametrize("work", ["make", "finish"])
def test_a_disk_that_is_full_outside_a_transaction_is_reported_by_name(tmp_path, monkeypatch, work):
    engine, place = MagicMock(), Place(str(tmp_path / "kb.db"))
    engine.connect.return_value.__enter__.return_value.connection.driver_connection.execute.side_effect = full
    monkeypatch.setattr(versions, "writing", MagicMock())
    for name in ("upgrade", "_tables"):
        monkeypatch.setattr(versions, name, lambda _: None)
    with pytest.raises(BadStore, match=r"kb\.db cannot be written: the disk is full"):
        versions.finish(engine, place) if work == "finish" else versions.create(engine, place, {})
    assert list(tmp_path.iterdir()) == []
