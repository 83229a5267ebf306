"""The methods of a model: what users call, with beliefs from frames and tuples."""

import inspect

import numpy as np
import polars as pl
import pytest

import doxa
from doxa.data.beliefs import Beliefs
from doxa.errors import CannotAnswer
from doxa.model import Model
from tests.worlds import board

SETTINGS = {"dimension": 6, "epochs": 5, "batch_size": 16, "num_candidates": 16, "threads": 1}


@pytest.fixture(scope="module")
def model():
    return doxa.fit(board(5).rows(), **SETTINGS)


def test_frames_tuples_and_beliefs_train_the_same_model(model):
    for source in (board(5), Beliefs.from_frame(board(5))):
        assert np.array_equal(doxa.fit(source, **SETTINGS).credence(board(5)), model.credence(board(5)))


def test_a_progress_bar_is_drawn_on_request(capsys):
    doxa.fit(board(3), progress=True, **SETTINGS)
    assert "epoch" in capsys.readouterr().err
    doxa.fit(board(3), **SETTINGS)
    assert "epoch" not in capsys.readouterr().err


def test_progress_is_reported_to_a_function():
    states = []
    doxa.fit(board(3), report=states.append, **SETTINGS)
    assert states[-1].fraction == 1


def test_every_method_has_a_full_signature():
    """Only `fit` takes names that its signature does not list: the settings."""
    for name, method in inspect.getmembers(Model):
        if callable(method) and not name.startswith("_") and name != "fit":
            kinds = [parameter.kind for parameter in inspect.signature(method).parameters.values()]
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name
            assert method.__doc__, name


def test_curation_takes_tuples_too(model):
    new = [("5,5", "up", "5,6"), ("4,4", "right", "5,5")]
    assert "5,5" in set(model.fold_in([("5,5", "up", "4,4"), ("4,4", "right", "5,5")]).vocabularies.entities.names)
    updated = model.update(new, epochs=1).model
    assert {c.name: c.known for c in updated.tails("4,4", "right", top=99)}["5,5"]
    assert len(model.audit(board(5).rows()[:3])) == 3
    assert len(model.audit(top=2)) == 2
    assert len(model.complete(top=3, min_credence=0.0).triples) == 3
    assert model.explain("0,0", "up", "0,1", top=1, influences=1).credence == pytest.approx(
        float(model.credence([("0,0", "up", "0,1")])[0])
    )


def test_vectors_and_export(model, tmp_path):
    names, vectors = model.vectors()["entity"]
    assert vectors.shape == (len(names), 6)
    model.export(tmp_path / "v.parquet")
    assert pl.read_parquet(tmp_path / "v.parquet")["kind"].unique().sort().to_list() == ["entity", "relation", "word"]


def test_a_system_that_predicts_relations_alone_says_so():
    model = doxa.fit(board(3), system="jrme", dimension=2, epochs=1, threads=1)
    with pytest.raises(CannotAnswer, match="cannot answer"):
        model.tails("0,0", "up")
    assert model.relations("0,0", "0,1")[0].name in ("up", "right")
