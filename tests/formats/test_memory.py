"""Beliefs in memory: inspected, split and written without a file in between."""

import polars as pl
import pytest

import doxa
from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError

ROWS = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a"), ("a", "s", "c")]
NAMES = ["subject", "predicate", "object"]


def sources():
    pandas = pytest.importorskip("pandas")
    frame = pl.DataFrame(ROWS, schema=NAMES, orient="row")
    yield from (ROWS, frame, pandas.DataFrame(ROWS, columns=NAMES), frame.to_dicts(), Beliefs.of(ROWS))


@pytest.mark.parametrize("number", range(5))
def test_every_source_is_inspected_split_and_written(number, tmp_path):
    source = list(sources())[number]
    profile = doxa.inspect(source)
    assert list(profile.parts) == ["train"]
    assert profile.parts["train"]["beliefs"] == 4
    train, rest = doxa.split(source, (0.25,))
    assert len(train) + len(rest) == 4
    assert [len(part) for part in doxa.split(source, 0.25)] == [len(train), len(rest)]
    for name in ("b.tsv", "b.nt", "b.parquet"):
        doxa.write(source, tmp_path / name)
        assert len(doxa.read(tmp_path / name)) == 4
    assert doxa.read(tmp_path / "b.parquet").to_frame().rows() == ROWS


def test_frames_and_iterators_of_frames_are_written_whole(tmp_path):
    frame = pl.DataFrame(ROWS, schema=["head", "relation", "tail"], orient="row").with_columns(verdict=pl.lit("yes"))
    for source in (frame, [frame[:1], frame[1:]], iter([frame])):
        doxa.write(source, tmp_path / "b.csv")
        assert pl.read_csv(tmp_path / "b.csv").rows() == frame.rows()


@pytest.mark.parametrize("source", [5, ("a", "r", "b"), [], [("a", "r", "b", 7.0)]])
def test_what_is_no_source_of_beliefs_is_refused(source, tmp_path):
    for use in (doxa.inspect, lambda it: doxa.split(it, (0.1,)), lambda it: doxa.write(it, tmp_path / "b.tsv")):
        with pytest.raises(UsageError):
            use(source)
    assert list(tmp_path.iterdir()) == []
