"""doxa compare: what it prints and writes, and how it refuses."""

import json

import polars as pl
import pytest

from doxa import formats
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.model import fit
from tests.worlds import board


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    parts = split(Beliefs.from_frame(board(6)), (0.1, 0.3), seed=0)
    for name, part in zip(("train", "valid", "test"), parts, strict=True):
        formats.write(part.to_frame(), folder / f"{name}.tsv")
    formats.write(pl.concat([part.to_frame() for part in parts[1:]]), folder / "leaking.tsv")
    for name, epochs in (("a", 1), ("b", 10)):
        model = fit(*parts[:2], dimension=8, epochs=epochs, batch_size=16, num_candidates=8, threads=1)
        model.save(folder / name)
    return folder


def test_compare_prints_and_writes(doxa, folder, tmp_path):
    code, text, _ = doxa("compare", folder / "a", folder / "b", folder / "test.tsv", "--json", tmp_path / "c.json")
    assert code == 0
    for part in ("95 % interval", "Entity inference", "Triplet classification", "log loss", "18 beliefs"):
        assert part in text
    stored = json.loads((tmp_path / "c.json").read_text())
    assert stored["a"] == str(folder / "a")
    assert set(stored) == {
        "a", "b", "entity", "relation", "classification", "calibration", "protocol", "seconds",
    }  # fmt: skip
    assert set(stored["entity"]) == {"mrr", "hits@1", "hits@10"}
    assert set(stored["entity"]["mrr"]) == {"a", "b", "difference", "interval", "verdict"}
    arguments = ("--tasks", "entity", "--seed", "5", "--json", tmp_path / "d.json")
    assert doxa("compare", folder / "a", folder / "b", folder / "test.tsv", *arguments)[0] == 0
    other = json.loads((tmp_path / "d.json").read_text())
    assert "relation" not in other
    assert other["protocol"]["interval"]["seed"] == 5


def test_compare_leaves_out_what_a_model_was_trained_on(doxa, folder):
    arguments = ("compare", folder / "a", folder / "b", folder / "leaking.tsv", "--tasks", "entity")
    code, text, _ = doxa(*arguments)
    assert code == 0
    assert "Warning: 6 of these beliefs" in text
    assert "18 beliefs" in text
    code, text, _ = doxa(*arguments, "--keep-known")
    assert code == 0
    assert "24 beliefs" in text
    code, text, err = doxa("compare", folder / "a", folder / "b", folder / "train.tsv")
    assert (code, text) == (1, "")
    assert "pass --keep-known" in err
    assert "keep_known=True" not in err


def test_bad_options_of_compare(doxa, folder, tmp_path):
    good = ("compare", folder / "a", folder / "b", folder / "test.tsv")
    assert doxa(*good[:3])[0] == 2
    for arguments in (("--tasks", "confidence"), ("--tasks", " "), ("--seed", "-1")):
        assert doxa(*good, *arguments)[0] == 2
    for target in (folder / "test.tsv", folder / "a" / "model.json", folder / "b" / "model.json"):
        code, _, err = doxa(*good, "--json", target)
        assert (code, "would replace what is being read" in err) == (2, True)
    code, _, err = doxa("compare", folder / "a", folder / "nothing", folder / "test.tsv")
    assert (code, "no model folder" in err) == (1, True)
    code, _, err = doxa("compare", folder / "a", folder / "b", tmp_path / "nothing.tsv")
    assert code == 1
