"""The methods of a model: what users call, with beliefs from frames and tuples."""

import inspect
import json

import numpy as np
import polars as pl
import pytest

import doxa
from doxa.config import Settings
from doxa.curation.map import draw_map
from doxa.data.beliefs import Beliefs
from doxa.data.results import Result
from doxa.errors import CannotAnswer, UnknownName, UsageError
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


def test_progress_is_drawn_and_reported_at_once(capsys):
    states = []
    doxa.fit(board(3), progress=True, report=states.append, **SETTINGS)
    assert states[-1].fraction == 1
    assert "epoch" in capsys.readouterr().err


def test_one_name_stands_for_a_list_of_one(model):
    for values in ({"relations": "up"}, {"entities": "1,1"}):
        listed = {name: [value] for name, value in values.items()}
        one, many = (model.complete(top=3, min_credence=0.0, **chosen) for chosen in (values, listed))
        assert len(one) == 3
        assert one.triples.tolist() == many.triples.tolist()
    assert draw_map(model, "up", layout="pca").title == "up"
    with pytest.raises(UnknownName, match="no relation 'upp'"):
        model.complete(relations="upp")


def test_numbers_are_names_too():
    rows = [(number, relation, number + 1) for number in range(8) for relation in (1, 2)]
    model = doxa.fit(rows, **SETTINGS)
    assert model.tails(1, 2, top=3) == model.tails("1", "2", top=3)
    assert not model.judge([(1, 2, 2)]).unknown[0]
    assert model.explain(1, 2, 2, top=1, influences=0).belief[0] == "1"
    with pytest.raises(UnknownName, match="no entity '99'"):
        model.tails(99, 1)


@pytest.mark.parametrize("top", [0, -1])
def test_at_least_one_answer_is_asked_for(model, top):
    with pytest.raises(UsageError, match=f"top is {top}; expected at least 1"):
        model.tails("0,0", "up", top=top)


@pytest.mark.parametrize("question", ["0,0", ("0,0", "?"), ("0,0", "up", "?", None, 1)])
def test_a_question_has_three_or_four_parts(model, question):
    with pytest.raises(UsageError, match=r"question 1 is .*; expected"):
        model.ask([question])


def test_a_single_tuple_is_no_list_of_beliefs(model):
    with pytest.raises(UsageError, match="not a tuple or list"):
        model.judge(("abc", "def", "ghi"))


def test_models_beliefs_and_judges_show_themselves(model):
    assert "<table" in model._repr_html_()
    assert "Model(pbe on translation" in model._repr_html_()
    beliefs = Beliefs.of(board(5))
    assert repr(beliefs) in beliefs._repr_html_()
    assert beliefs._repr_html_().count("<tr>") < 30
    assert json.loads(json.dumps(beliefs.as_dict()))["beliefs"][0]["relation"] == board(5)["relation"][0]
    assert beliefs.as_dict()["beliefs"] == beliefs.to_frame().to_dicts()
    assert repr(model.calibration).startswith("Judge(rule product, ")
    assert len(repr(model.calibration)) < 80


def test_vectors_are_a_result(model):
    vectors = model.vectors()
    assert isinstance(vectors, Result)
    assert list(vectors) == ["entity", "relation", "word"]
    frame = vectors.to_frame()
    assert frame.columns == ["kind", "name", "vector"]
    assert len(frame) == sum(len(names) for names, _ in vectors.values())
    assert repr(vectors).startswith("ModelVectors(25 entity of 6, 2 relation of 6")
    assert json.loads(json.dumps(vectors.as_dict()))["entity"]["vectors"] == vectors["entity"][1].tolist()
    assert "<table" in vectors._repr_html_()


@pytest.mark.parametrize("function", [doxa.fit, doxa.tune])
def test_settings_are_named_in_the_signature(function):
    parameters = inspect.signature(function).parameters
    assert set(Settings().as_dict()) <= set(parameters)
    assert str(parameters["dimension"]).replace("'", "") == "dimension: int = 200"
    assert str(parameters["filter_negatives"]).replace("'", "") == "filter_negatives: bool = False"
