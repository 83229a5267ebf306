"""The profile of a dataset, from frames and from files."""

import json

import polars as pl
import pytest

from doxa import formats as files
from doxa.data.profile import profile
from doxa.errors import UsageError

TRAIN = [("a", "parent", "b"), ("b", "child", "a"), ("a", "parent", "c"), ("c", "child", "a"), ("a", "parent", "c"),
         ("x", "x", "x")]  # fmt: skip
TEST = [("d", "parent", "b"), ("c", "child", "a"), ("b", "near", "a")]


def frame(rows, **columns):
    return pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row").with_columns(**columns)


def test_a_profile_counts_per_part_and_compares_with_train():
    result = profile({"train": [frame(TRAIN[:2]), frame(TRAIN[2:])], "test": [frame(TEST)]})
    assert result.parts["train"] == {
        "beliefs": 6, "entities": 4, "relations": 3, "duplicate_lines": 1, "repeated_triples": 1, "self_loops": 1,
    }  # fmt: skip
    assert result.parts["test"] == {
        "beliefs": 3, "entities": 4, "relations": 3, "duplicate_lines": 0, "repeated_triples": 0, "self_loops": 0,
        "with_unseen_entity": 1, "with_unseen_relation": 1, "already_in_train": 1, "reversed_pair_in_train": 2,
        "reversed_share": 0.6667,
    }  # fmt: skip
    assert result.inverses == [{"relation": "parent", "inverse": "child", "share": 1.0, "leaked": 1}]
    assert (result.degrees, result.confidences) == ([0, 3, 1], [])


def test_mentions_confidence_and_labels_are_counted():
    rows = [("a", "r", "b"), ("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")]
    train = frame(
        rows,
        mention=pl.Series(["x", None, "x", "y"]),
        confidence=pl.Series([0.5, 0.75, None, 0.0]),
        label=pl.Series([1, 1, -1, 1], dtype=pl.Int8),
    )
    result = profile({"train": [train]})
    counts = result.parts["train"]
    assert {name: counts[name] for name in list(counts)[6:]} == {
        "with_mention": 3, "distinct_mentions": 2, "with_confidence": 3, "triples_of_differing_confidence": 1,
        "labeled_true": 3, "labeled_false": 1,
    }  # fmt: skip
    assert sum(result.confidences) == 3
    assert result.to_frame()["facts"].to_list() == [1]  # neither the false label nor confidence 0 is a fact


def test_a_profile_is_a_result():
    result = profile({"train": [frame(TRAIN)]})
    table = result.to_frame()
    assert table.columns == ["relation", "kind", "facts", "tails_per_head", "heads_per_tail"]
    assert table.row(0) == ("parent", "1-N", 2, 2.0, 1.0)
    assert json.loads(json.dumps(result.as_dict())) == result.as_dict()
    assert repr(result) == "Profile(6 train; 3 relations, 1 near-inverse pairs)"


def test_inspect_profiles_a_folder_like_its_frames(tmp_path):
    for name, rows in (("train", TRAIN), ("test", TEST)):
        files.write(frame(rows), tmp_path / f"{name}.tsv")
    assert files.inspect(tmp_path) == profile({"train": [frame(TRAIN)], "test": [frame(TEST)]})


def test_a_profile_needs_beliefs_and_a_train_part():
    with pytest.raises(UsageError, match="no beliefs"):
        profile({"train": []})
    with pytest.raises(UsageError, match="no part train among test"):
        profile({"test": [frame(TEST)]})


def test_names_that_look_alike_are_grouped():
    rows = [("Zürich", "in", "Europe"), ("Zu\u0308rich", "in ", "Europe"), (" europe", "in", "World"), ("a", "in", "b")]
    result = profile({"train": [frame(rows[:1])], "valid": [frame(rows[1:])]})
    assert result.lookalikes == [
        {"kind": "entity", "names": ["Zürich", "Zu\u0308rich"]},
        {"kind": "entity", "names": ["Europe", " europe"]},
        {"kind": "relation", "names": ["in", "in "]},
    ]
    assert profile({"train": [frame(TRAIN)]}).lookalikes == []
