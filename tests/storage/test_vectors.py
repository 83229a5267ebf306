"""Vectors for other tools: every format holds the numbers the model has."""

import numpy as np
import polars as pl
import pytest

from doxa.data.beliefs import Beliefs
from doxa.errors import DoxaError, UsageError
from doxa.model import fit
from doxa.storage.vectors import export, vectors
from tests.worlds import beliefs, board


@pytest.fixture(scope="module")
def model():
    return fit(Beliefs.from_frame(board(3)), dimension=4, epochs=1, batch_size=8, num_candidates=4, threads=1)


@pytest.fixture(scope="module")
def entity(model):
    return model.pbe.score.entity.weight.detach().numpy()


def test_parquet(model, entity, tmp_path):
    export(model, tmp_path / "v.parquet")
    table = pl.read_parquet(tmp_path / "v.parquet")
    assert table["kind"].unique(maintain_order=True).to_list() == ["entity", "relation", "word"]
    row = table.filter(kind="entity", name="1,1")["vector"][0].to_list()
    assert row == entity[model.vocabularies.entities.id("1,1")].tolist()


def test_numpy(model, entity, tmp_path):
    export(model, tmp_path / "v.npz")
    with np.load(tmp_path / "v.npz", allow_pickle=False) as result:
        assert np.array_equal(result["entity"], entity)
        assert result["relation_names"].tolist() == model.vocabularies.relations.names.to_list()


def test_word2vec(model, entity, tmp_path):
    export(model, tmp_path / "v.vec")
    lines = (tmp_path / "v.vec").read_text().splitlines()
    assert lines[0] == f"{len(lines) - 1} 4"
    rows = {line.split(" ")[0]: [float(number) for number in line.split(" ")[1:]] for line in lines[1:]}
    assert np.array_equal(np.float32(rows["entity/1,1"]), entity[model.vocabularies.entities.id("1,1")])
    assert "relation/up" in rows


def test_projector(model, entity, tmp_path):
    export(model, tmp_path / "projector")
    assert np.allclose(np.loadtxt(tmp_path / "projector" / "entity_vectors.tsv"), entity, atol=1e-5)
    names = (tmp_path / "projector" / "entity_names.tsv").read_text().splitlines()
    assert names == model.vocabularies.entities.names.to_list()
    assert 'tensor_path: "entity_vectors.tsv"' in (tmp_path / "projector" / "projector_config.pbtxt").read_text()


def test_what_cannot_be_written_is_refused(model, tmp_path):
    with pytest.raises(UsageError, match="no format has that ending"):
        export(model, tmp_path / "v.xyz")
    alike = fit(beliefs([("a b", "r", "a_b"), ("a_b", "r", "c"), ("c", "s", "a b")]), dimension=2, epochs=1, threads=1)
    with pytest.raises(DoxaError, match="once spaces are replaced"):
        export(alike, tmp_path / "v.vec")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("system", ["unstructured", "se", "ntn", "transh"])
def test_systems_with_other_tables_have_vectors_too(system):
    result = vectors(fit(Beliefs.from_frame(board(3, words=False)), system=system, dimension=4, epochs=1, threads=1))
    assert result["entity"][1].shape == (9, 4)
    assert ("relation" in result) == (system != "unstructured")


def test_the_command(doxa, model, tmp_path):
    model.save(tmp_path / "m")
    code, text, _ = doxa("export", tmp_path / "m", tmp_path / "v.npz")
    assert (code, "9 entity vectors of 4" in text) == (0, True)
    assert doxa("export", tmp_path / "m", tmp_path / "m" / "v.npz")[0] == 2
