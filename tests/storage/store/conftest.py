"""Every test of the store runs on SQLite and on a real PostgreSQL."""

import itertools
import os
import shutil

import pytest

from doxa.storage.store.knowledge_base import KnowledgeBase
from doxa.storage.store.schema import metadata
from tests import databases

SPLIT = {"valid": 0.2, "test": 0.2}

FACTS = [("lyon", "in", "france", "Lyon is in France", 0.9), ("paris", "in", "france", None, None),
         ("france", "capital", "paris", None, None)]  # fmt: skip


def rows(kb, **options):
    return [row[:3] for table in kb.frames(**options) for row in table.iter_rows()]


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL database."""
    reason = databases.why_no_postgres()
    if reason:
        pytest.skip(reason)
    with databases.postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def new_place(request, tmp_path):
    """Places for new stores, of one of the two databases."""
    numbers = itertools.count()
    if request.param == "sqlite":
        return lambda: str(tmp_path / f"kb{next(numbers)}.db")
    url = request.getfixturevalue("postgres")
    joint = "&" if "?" in url else "?"
    return lambda: f"{url}{joint}schema=test_{os.getpid()}_{request.node.name.partition('[')[0][-30:]}_{next(numbers)}"


@pytest.fixture(scope="session")
def _templates(tmp_path_factory):
    """An empty store of each database, made once."""
    return {}


@pytest.fixture
def make_store(request, new_place, _templates, tmp_path):
    """A function that returns an empty store; the earlier one of PostgreSQL is emptied."""
    numbers = itertools.count()
    kind = "postgres" if new_place().startswith("postgresql") else "sqlite"

    def make():
        if kind not in _templates:
            _templates[kind] = KnowledgeBase.create(_template_place(request, kind), curator="ann", **SPLIT)
            _templates[kind].close()
        template = _templates[kind]
        if kind == "sqlite":
            path = tmp_path / f"store{next(numbers)}.db"
            shutil.copy(template.place.path, path)
            return KnowledgeBase(path, curator="ann")
        empty(template)
        return template

    return make


def _template_place(request, kind):
    if kind == "sqlite":
        return str(request.getfixturevalue("tmp_path_factory").mktemp("template") / "kb.db")
    url = request.getfixturevalue("postgres")
    return f"{url}{'&' if '?' in url else '?'}schema=doxa_test_{os.getpid()}"


def empty(kb):
    """Remove all rows but the settings of `create`: faster than TRUNCATE, which makes new files."""
    statements = ["SET LOCAL session_replication_role = replica"]  # without triggers and foreign keys
    for table in metadata.sorted_tables:
        if table.name != "setting":
            statements.append(f"DELETE FROM {table.name}")
            if "id" in table.c:
                statements.append(f"ALTER SEQUENCE {table.name}_id_seq RESTART")
    statements.append("DELETE FROM setting WHERE name = 'prefixes'")
    with kb.writing() as connection:
        connection.exec_driver_sql("; ".join(statements))


@pytest.fixture
def kb(make_store):
    return make_store()
