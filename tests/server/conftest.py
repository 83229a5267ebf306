"""A board of squares with a trained model, served to a test client."""

from pathlib import Path

import pytest

from doxa.data.beliefs import Beliefs
from doxa.model import Model
from tests.worlds import board, board_model

pytest.importorskip("fastapi", reason="serving needs pip install 'doxa[serve]'")

TOKEN = "t" * 43
ADMIN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("served") / "board"
    known, _ = board_model(6, share=0.6, valid=0.3)
    known.calibrate(Beliefs.from_triples(known.vocabularies, known.valid)).save(place)
    return place


@pytest.fixture(scope="session")
def model(folder) -> Model:
    return Model.load(folder)


@pytest.fixture(scope="session")
def app(folder):
    from doxa.server.app import Options, create_app
    from doxa.server.served import Source

    return create_app(Source(folder), Options(token=TOKEN))


@pytest.fixture(scope="session")
def client(app):
    """A client on the same machine without a token."""
    from fastapi.testclient import TestClient

    with TestClient(app, base_url="http://127.0.0.1") as connected:
        yield connected


@pytest.fixture
def kb(folder, tmp_path):
    """A knowledge base of the board whose live model is the one of `folder`."""
    from doxa.storage.store.knowledge_base import KnowledgeBase

    store = KnowledgeBase.create(tmp_path / "kb.db", valid=0.2, test=0.2, curator="owner")
    store.import_beliefs(board(6), source="board")
    store.models.register(folder, store.snapshot())
    yield store
    store.close()


@pytest.fixture
def tokens(kb):
    """The headers of somebody with each role, of the owner, and of nobody."""
    headers = {
        role: {"Authorization": f"Bearer {kb.accounts.add(role, role)}"} for role in ("reader", "curator", "admin")
    }
    return headers | {"owner": ADMIN, "nobody": {}}


@pytest.fixture
def store(kb):
    """A client of a server that serves the knowledge base."""
    from fastapi.testclient import TestClient

    from doxa.server.app import Options, create_app
    from doxa.server.living import StoreSource

    served = create_app(StoreSource(kb), Options(token=TOKEN, owner="owner"))
    with TestClient(served, base_url="http://127.0.0.1") as connected:
        yield connected
