"""`doxa serve` and `doxa mcp` refuse what they cannot serve before they open a port."""

import gc
import socket

import pytest

from doxa.cli import serving
from doxa.model import Model
from tests.worlds import board


def test_a_missing_extra_is_one_sentence(doxa, monkeypatch, tmp_path):
    monkeypatch.setattr(serving.importlib.util, "find_spec", lambda name: None)
    for command in ("serve", "mcp"):
        code, _, error = doxa(command, tmp_path)
        assert code == 2
        assert "pip install 'doxa[serve]'" in error


def test_a_folder_without_a_model_and_an_open_address_are_refused(doxa, tmp_path):
    pytest.importorskip("fastapi")
    code, out, error = doxa("serve", tmp_path)
    assert (code, out) == (1, "")
    assert error.startswith("Error: ")
    code, _, error = doxa("serve", tmp_path, "--host", "0.0.0.0")
    assert code == 2
    assert "--token" in error
    code, _, error = doxa("serve", tmp_path / "none.db")
    assert code != 0
    assert "none.db" in error


def test_small_responses_are_sent_at_once(doxa, monkeypatch, tmp_path):
    """Head and body are two writes: without TCP_NODELAY the second one waits until the first one is acknowledged."""
    uvicorn = pytest.importorskip("uvicorn")
    Model.fit(board(4), epochs=1, dimension=4, score="translation", patience=0, threads=1).save(tmp_path / "m")
    seen = []

    def run(self, sockets):
        seen.extend(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets)
        sockets[0].close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    code, out, error = doxa("serve", tmp_path / "m", "--port", 0)
    assert (code, len(seen)) == (0, 1), error
    assert seen[0]
    assert "http://127.0.0.1:" in out
    gc.unfreeze()
