"""Headings of files and frames: which column each one means."""

import itertools

import polars as pl
import pytest

from doxa.data.beliefs import Beliefs
from doxa.data.columns import is_header, meanings
from doxa.errors import UsageError

TRIPLES = [
    ("head", "relation", "tail"),
    ("subject", "predicate", "object"),
    ("source", "edge", "target"),
    ("h", "r", "t"),
    ("from", "type", "to"),
    ("s", "p", "o"),
    ("source", "relation", "target"),
    ("from", "relation", "to"),
    ("subject", "relation", "object"),
    ("head", "predicate", "tail"),
    ("source", "type", "target"),
    ("from", "edge", "to"),
    ("h", "property", "t"),
    ("s", "predicate", "o"),
    ("subject", "r", "object"),
    ("head", "p", "tail"),
]


@pytest.mark.parametrize("names", TRIPLES)
def test_every_vocabulary_is_a_header_in_any_order_and_case(names):
    expected = dict(zip(names, ("head", "relation", "tail"), strict=True))
    for order in itertools.permutations(names):
        assert meanings(order) == expected
        assert is_header([name.upper() for name in order])
        assert is_header([f" {name.title()} " for name in (*order, "confidence", "anything")])


@pytest.mark.parametrize(
    "row",
    [
        ("from", "x", "y"),
        ("from", "type", "x"),
        ("h", "r", "b"),
        ("source", "edge", "tail"),
        ("head", "relation", "target"),
        ("source", "label", "target"),
        ("h", "p", "o"),
        ("head", "tail", "weight"),
        ("", None, "x"),
        (),
    ],
)
def test_part_of_a_vocabulary_is_not_a_header(row):
    assert not is_header(row)


def test_standard_names_win_over_other_vocabularies():
    headings = ["source", "target", "edge", "head", "relation", "tail", "from", "type", "to"]
    assert meanings(headings) == {"head": "head", "relation": "relation", "tail": "tail"}
    assert meanings(["subject", "head", "relation", "tail", "source"]) == {
        "head": "head", "relation": "relation", "tail": "tail",
    }  # fmt: skip
    assert meanings(["Confidence", "s", "p", "o", "LABEL"]) == {
        "Confidence": "confidence", "s": "head", "p": "relation", "o": "tail", "LABEL": "label",
    }  # fmt: skip


def test_the_usual_relation_heading_of_a_pair_wins_over_others():
    assert meanings(["s", "p", "o", "type"]) == {"s": "head", "p": "relation", "o": "tail"}
    assert meanings(["from", "edge", "type", "to"]) == {"from": "head", "type": "relation", "to": "tail"}
    assert meanings(["source", "type", "relation", "target"])["relation"] == "relation"


def test_columns_that_are_assigned_need_no_heading():
    assert meanings(["p", "o", "mention"], ["head", "mention"]) == {"p": "relation", "o": "tail"}


@pytest.mark.parametrize("names", TRIPLES)
def test_frames_with_these_columns_are_beliefs(names):
    frame = pl.DataFrame([("a", "r", "b", 0.5)], schema=[*names, "Confidence"], orient="row")
    for order in (frame, frame.select(reversed(frame.columns))):
        assert Beliefs.of(order).to_frame().rows() == [("a", "r", "b", 0.5)]


def test_a_frame_without_a_whole_vocabulary_is_refused():
    with pytest.raises(UsageError, match="no column relation"):
        Beliefs.of(pl.DataFrame({"from": ["a"], "link": ["r"], "to": ["b"]}))


def test_a_provenance_column_of_a_frame_is_ignored():
    frame = pl.DataFrame({"source": ["web"], "head": ["a"], "relation": ["r"], "tail": ["b"], "target": ["x"]})
    assert Beliefs.of(frame).to_frame().rows() == [("a", "r", "b")]


def test_a_sentence_is_a_mention_unless_a_mention_is_there():
    triple = {"head": "head", "relation": "relation", "tail": "tail"}
    assert meanings([*triple, "Sentence"]) == triple | {"Sentence": "mention"}
    assert meanings(["text", *triple]) == triple | {"text": "mention"}
    assert meanings(["text", "sentence", *triple, "mention"]) == triple | {"mention": "mention"}
    assert meanings(["sentence", *triple], ["mention"]) == triple
