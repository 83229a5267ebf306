"""Every result of curation has a frame, plain data, a short text and an HTML face."""

import json
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from doxa.curation.audit import audit
from doxa.curation.complete import complete
from doxa.curation.explain import explain
from doxa.curation.map import draw_map
from doxa.curation.review import decide, to_review
from doxa.curation.similar import duplicates, similar
from doxa.curation.update import update
from doxa.data.results import Result
from tests.worlds import random_model

NEW = [("new", "r1", "e1"), ("e2", "r0", "new")]


@pytest.fixture(scope="module")
def model():
    return random_model(0)[0]


def decided(model):
    """The decisions of a curator who accepts every proposal but the last."""
    table = to_review(complete(model, min_credence=0, top=3).to_frame(), "missing", model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "missing.tsv"
        table.with_columns(review=pl.Series(["accept", "accept", "reject"])).write_csv(path, separator="\t")
        return decide(path)


RESULTS = {
    "Proposals": lambda model: complete(model, min_credence=0, top=5),
    "Suspects": lambda model: audit(model, top=4),
    "Explanation": lambda model: explain(model, "e2", "r1", "e4", "w1 w2"),
    "Similar": lambda model: similar(model, "e1", 3),
    "Duplicates": lambda model: duplicates(model, min_similarity=-1),
    "UpdateResult": lambda model: update(model, NEW, epochs=1),
    "Map": lambda model: draw_map(model, layout="pca"),
    "Decisions": lambda model: decided(model),
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_its_faces(model, name):
    result = RESULTS[name](model)
    assert isinstance(result, Result)
    assert type(result).__name__ == name
    assert len(result.to_frame()) > 0
    assert json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert repr(result).startswith(f"{name}(")
    assert "\n" not in repr(result)
    assert len(repr(result)) < 200
    assert "<table" in result._repr_html_()


@pytest.mark.parametrize("name", ["Proposals", "Suspects", "Similar", "Duplicates"])
def test_lists_have_a_length_and_can_be_iterated(model, name):
    result = RESULTS[name](model)
    assert len(list(result)) == len(result) == len(result.to_frame())


def test_memory_does_not_change_a_result(model):
    for memory in (1, 10_000):
        assert complete(model, min_credence=0, top=9, memory=memory).triples.tolist() == (
            complete(model, min_credence=0, top=9).triples.tolist()
        )
        assert np.allclose(audit(model, memory=memory).suspicion, audit(model).suspicion)


def test_empty_results_have_their_columns(model):
    nothing = complete(model, min_credence=1.0)
    assert (len(nothing), len(nothing.to_frame())) == (0, 0)
    assert duplicates(model, min_similarity=1.0).to_frame().columns[:3] == ["first", "second", "similarity"]
    assert len(audit(model, [("zz", "r1", "e1")]).to_frame()) == 0
