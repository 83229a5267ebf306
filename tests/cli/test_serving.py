"""`doxa serve` and `doxa mcp` refuse what they cannot serve before they open a port."""

import pytest

from doxa.cli import serving


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
