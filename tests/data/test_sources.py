"""Beliefs from frames and tuples, as users of other tools have them at hand."""

import numpy as np
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


def test_pandas_frames_with_text_that_is_missing_or_a_column_named_twice():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=["subject", "predicate", "object"], dtype="string")
    frame["mention"] = pandas.array(["is in", pandas.NA], dtype="string")
    assert Beliefs.of(frame).text.to_list() == ["is in", None]
    with pytest.raises(UsageError, match="names a column twice"):
        Beliefs.of(pandas.DataFrame([("a", "r", "b", "c")], columns=["head", "relation", "tail", "tail"]))


def test_tuples_of_three_four_and_five():
    assert triples_of(Beliefs.of(ROWS)) == ROWS
    assert Beliefs.of([(*row, 0.5) for row in ROWS]).confidence.tolist() == [0.5, 0.5]
    assert Beliefs.of([(*row, "is in") for row in ROWS]).text.to_list() == ["is in", "is in"]
    beliefs = Beliefs.of([(*row, "is in", 0.9) for row in ROWS])
    assert (beliefs.text[0], beliefs.confidence[1]) == ("is in", 0.9)


def test_arrays_have_one_belief_per_row():
    assert triples_of(Beliefs.of(np.array(ROWS))) == ROWS
    assert triples_of(Beliefs.of(np.array([[1, 2, 3], [3, 2, 1]]))) == [("1", "2", "3"), ("3", "2", "1")]
    mixed = np.array([[*row, "is in", 0.5] for row in ROWS], dtype=object)
    assert Beliefs.of(mixed).confidence.tolist() == [0.5, 0.5]
    for shape in ((3,), (2, 2), (2, 3, 1)):
        with pytest.raises(UsageError, match="expected"):
            Beliefs.of(np.full(shape, "a"))


def test_beliefs_pass_unchanged_and_are_encoded_on_request():
    beliefs = Beliefs.of(ROWS)
    assert Beliefs.of(beliefs) is beliefs
    assert Beliefs.of([("Lyon", "located in", "Peru")], beliefs.vocabularies).triples.tolist() == [[0, 0, -1]]


def test_rows_of_two_parts_say_so():
    with pytest.raises(UsageError, match=r"row 1 of the beliefs has 2 parts\n"):
        Beliefs.of([("a", "r"), ("b", "r")])


@pytest.mark.parametrize("source", ["beliefs.tsv", 5, [], [("a", "r")], [("a", "r", "b"), ("a", "r", "b", 0.5)]])
def test_other_things_are_refused(source):
    with pytest.raises(UsageError, match="expected"):
        Beliefs.of(source)


def test_a_frame_without_the_three_parts_is_refused():
    with pytest.raises(UsageError, match=r"no column tail .*\n  rename its columns to head, relation and tail"):
        Beliefs.of(pl.DataFrame({"head": ["a"], "relation": ["r"]}))
    with pytest.raises(UsageError, match=r"row 1 of the beliefs: the head is empty\n  leave such rows out"):
        Beliefs.of(pl.DataFrame({"head": [None], "relation": ["r"], "tail": ["b"]}))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("confidence", [0.5, 7.0], "row 2 of the beliefs: the confidence is 7.0; expected a number from 0 to 1"),
        ("confidence", [-1.0, 0.5], "row 1 of the beliefs: the confidence is -1.0"),
        ("confidence", ["0.5", "high"], "row 2 of the beliefs: the confidence is 'high'"),
        ("confidence", [[0.5], [0.5]], "row 1 of the beliefs: the confidence is"),
        ("label", [1, 0], r"row 2 of the beliefs: the label is 0; expected 1 \(true\) or -1 \(false\)"),
        ("label", [1, None], "row 2 of the beliefs: the label is None"),
        ("label", ["true", "false"], "row 1 of the beliefs: the label is 'true'"),
        ("mention", [["a"], ["b"]], "the column mention has values of type List"),
        ("tail", ["France", ""], "row 2 of the beliefs: the tail is empty"),
    ],
)
def test_frames_are_checked_like_files(column, values, message):
    pandas = pytest.importorskip("pandas")
    frame = pl.DataFrame(ROWS, schema=["head", "relation", "tail"], orient="row")
    frame = frame.with_columns(pl.Series(column, values))
    with pytest.raises(UsageError, match=message):
        Beliefs.of(frame)
    if None not in values:  # pandas turns whole numbers beside None into fractions
        with pytest.raises(UsageError, match=message):
            Beliefs.of(pandas.DataFrame({name: frame[name].to_list() for name in frame.columns}))


def test_values_that_files_take_are_taken_from_frames():
    frame = pl.DataFrame(ROWS, schema=["head", "relation", "tail"], orient="row")
    beliefs = Beliefs.of(frame.with_columns(confidence=pl.Series(["0.5", None]), label=pl.Series(["1", "-1.0"])))
    assert beliefs.confidence.tolist()[0] == 0.5
    assert beliefs.label.tolist() == [1, -1]
    beliefs = Beliefs.of(frame.with_columns(confidence=pl.Series([0.0, float("nan")])))
    assert beliefs.to_frame()["confidence"].to_list() == [0.0, None]


def test_a_fourth_part_means_what_it_means_in_files():
    def beliefs(*values):
        return Beliefs.of([(*row, value) for row, value in zip(ROWS, values, strict=True)])

    assert beliefs(1, -1).label.tolist() == [1, -1]
    assert beliefs(1, -1).to_frame().columns == ["head", "relation", "tail", "label"]
    assert beliefs(1.0, 0.5).confidence.tolist() == [1, 0.5]
    assert beliefs("0.7", "1").confidence.tolist() == [0.7, 1]
    assert beliefs(1, None).to_frame()["confidence"].to_list() == [1, None]
    assert beliefs("is in", None).text.to_list() == ["is in", None]
    assert beliefs(None, None).text.to_list() == [None, None]
    with pytest.raises(UsageError, match="row 2 of the beliefs: the confidence is 7"):
        beliefs(0.5, 7)


def test_dictionaries_are_rows_by_name():
    rows = [{"subject": "Lyon", "predicate": "located in", "object": "France", "confidence": 0.5}]
    rows.append({"subject": "Graz", "predicate": "located in", "object": "Austria"})
    beliefs = Beliefs.of(rows)
    assert triples_of(beliefs) == ROWS
    assert beliefs.to_frame()["confidence"].to_list() == [0.5, None]
    with pytest.raises(UsageError, match=r"no column tail .*\n  rename its columns to head, relation and tail"):
        Beliefs.of([{"head": "a", "relation": "r"}])


@pytest.mark.parametrize("source", [("abc", "def", "ghi"), ["abc"], [ROWS[0], "def"], [ROWS[0], {"head": "a"}]])
def test_a_row_is_a_tuple_or_a_list(source):
    with pytest.raises(UsageError, match="not a tuple or list"):
        Beliefs.of(source)
    assert triples_of(Beliefs.of([list(row) for row in ROWS])) == ROWS


def test_names_of_several_types_become_text():
    assert triples_of(Beliefs.of([(1, "r", "b"), ("a", 2, 3)])) == [("1", "r", "b"), ("a", "2", "3")]
