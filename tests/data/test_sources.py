"""Beliefs from frames and tuples, as users of other tools have them at hand."""

import polars as pl
import pytest

from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError

ROWS = [("Lyon", "located in", "France"), ("Graz", "located in", "Austria")]


def triples_of(beliefs):
    return beliefs.to_frame().select("head", "relation", "tail").rows()


@pytest.mark.parametrize(
    "columns",
    [("head", "relation", "tail"), ("subject", "predicate", "object"), ("source", "edge", "target"), ("h", "r", "t"),
     ("from", "type", "to"), ("Head", "RELATION", "tail")],
)  # fmt: skip
def test_polars_frames_with_headings_people_write(columns):
    assert triples_of(Beliefs.of(pl.DataFrame(ROWS, schema=list(columns), orient="row"))) == ROWS


def test_pandas_frames_with_missing_values():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=["subject", "predicate", "object"])
    frame["mention"], frame["confidence"] = ["is a city of", None], [0.5, float("nan")]
    beliefs = Beliefs.of(frame)
    assert triples_of(beliefs) == ROWS
    assert beliefs.text.to_list() == ["is a city of", None]
    assert beliefs.to_frame()["confidence"].to_list() == [0.5, None]


def test_tuples_of_three_four_and_five():
    assert triples_of(Beliefs.of(ROWS)) == ROWS
    assert Beliefs.of([(*row, 0.5) for row in ROWS]).confidence.tolist() == [0.5, 0.5]
    assert Beliefs.of([(*row, "is in") for row in ROWS]).text.to_list() == ["is in", "is in"]
    beliefs = Beliefs.of([(*row, "is in", 0.9) for row in ROWS])
    assert (beliefs.text[0], beliefs.confidence[1]) == ("is in", 0.9)


def test_beliefs_pass_unchanged_and_are_encoded_on_request():
    beliefs = Beliefs.of(ROWS)
    assert Beliefs.of(beliefs) is beliefs
    assert Beliefs.of([("Lyon", "located in", "Peru")], beliefs.vocabularies).triples.tolist() == [[0, 0, -1]]


@pytest.mark.parametrize("source", ["beliefs.tsv", 5, [], [("a", "r")], [("a", "r", "b"), ("a", "r", "b", 0.5)]])
def test_other_things_are_refused(source):
    with pytest.raises(UsageError, match="expected"):
        Beliefs.of(source)


def test_a_frame_without_the_three_parts_is_refused():
    with pytest.raises(UsageError, match="no column tail"):
        Beliefs.of(pl.DataFrame({"head": ["a"], "relation": ["r"]}))
    with pytest.raises(UsageError, match="without head"):
        Beliefs.of(pl.DataFrame({"head": [None], "relation": ["r"], "tail": ["b"]}))
