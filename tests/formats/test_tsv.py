"""TSV by the rules of the contract: the meaning of each shape of file, and the errors of faulty files."""

import gzip
import logging
import os

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa import formats as files
from doxa.errors import DoxaError


def put(tmp_path, content, name="b.tsv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(table, *columns):
    return table.select(columns).rows()


@pytest.mark.parametrize(
    ("content", "columns", "expected"),
    [
        ("a\tr\tb\nb\tr\tc\n", ("head", "relation", "tail"), [("a", "r", "b"), ("b", "r", "c")]),
        ("a\tr\tb\t1\nb\tr\tc\t-1\n", ("head", "label"), [("a", 1), ("b", -1)]),
        ("a\tr\tb\t0.5\nb\tr\tc\t1\n", ("head", "confidence"), [("a", 0.5), ("b", 1.0)]),
        ("a\tr\tb\tas written\nb\tr\tc\t0.5\n", ("head", "mention"), [("a", "as written"), ("b", "0.5")]),
        ("a\tr\tb\tx\t0.5\nb\tr\tc\t\t\n", ("mention", "confidence"), [("x", 0.5), (None, None)]),
        ("tail\tconfidence\tHead\trelation\nb\t0.5\ta\tr\n", ("head", "tail", "confidence"), [("a", "b", 0.5)]),
        ("a\tr\tb", ("head", "relation", "tail"), [("a", "r", "b")]),
        ("\n\na\tr\tb\r\n\r\n", ("line", "head", "tail"), [(3, "a", "b")]),
        ("\ufeffa\tr\tb\n", ("head",), [("a",)]),
        ('"a\t\'r\tb"c\n', ("head", "relation", "tail"), [('"a', "'r", 'b"c')]),
    ],
)
def test_shapes_of_files(tmp_path, content, columns, expected):
    assert rows(files.read_frame(put(tmp_path, content)), *columns) == expected


@pytest.mark.parametrize("block", [1, 7, 20, 64])
def test_blocks_of_any_size_hold_the_same_beliefs(tmp_path, monkeypatch, block):
    random = np.random.default_rng(block)
    names = ["a", "ü", "a longer name", "x" * 40]
    lines = ["\t".join((*random.choice(names, 3), f"{random.random():.3f}")) for _ in range(30)]
    lines[7], lines[20] = "", "\r"
    content = ("\ufeff" + "\n".join(lines)).encode()
    whole = files.read_frame(put(tmp_path, content))
    monkeypatch.setattr("doxa.formats.packing.BLOCK", block)
    monkeypatch.setattr("doxa.formats.packing.PACKED", block)
    for name, packed in (("b.tsv", content), ("b.gz", gzip.compress(content)), ("b.zst", zstandard.compress(content))):
        path = put(tmp_path, packed, name)
        assert files.read_frame(path).equals(whole)
        if name != "b.zst":  # unpacked all at once here, being so small
            assert len(list(files.blocks(path))) > (5 if block < 20 else 1)
    assert whole["line"].to_list() == [n for n in range(1, 31) if n not in (8, 21)]


def test_faults_are_found_and_counted_across_blocks(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("doxa.formats.packing.BLOCK", 12)
    content = b"a\tr\tb\t0.5\na\tr\nb\tr\tc\t7\n\tr\tc\t0.5\nc\tr\t\xff\t0.5\nd\tr\te\t0.25\n"
    with pytest.raises(DoxaError, match="line 2: 2 fields where other lines have 4"):
        files.read_frame(put(tmp_path, content))
    with caplog.at_level(logging.WARNING):
        table = files.read_frame(put(tmp_path, content), on_error="skip")
    assert rows(table, "line", "head", "confidence") == [(1, "a", 0.5), (6, "d", 0.25)]
    assert "skipped 4 of 6 lines (line 2" in caplog.text


def test_one_late_word_makes_the_fourth_column_a_mention(tmp_path, monkeypatch):
    monkeypatch.setattr("doxa.formats.packing.BLOCK", 12)
    assert "mention" in files.read_frame(put(tmp_path, "a\tr\tb\t1\n" * 20 + "a\tr\tb\ttext\n")).columns
    assert "label" in files.read_frame(put(tmp_path, "a\tr\tb\t1\n" * 20 + "a\tr\tb\t-1\n")).columns
    assert "confidence" in files.read_frame(put(tmp_path, "a\tr\tb\t1\n" * 20 + "a\tr\tb\t0.5\n")).columns


def test_a_confidence_of_zero_is_accepted_on_request(tmp_path):
    path = put(tmp_path, "a\tr\tb\t0.5\nb\tr\tc\t0.0\n")
    assert files.read_frame(path, allow_zero_confidence=True)["confidence"].to_list() == [0.5, 0.0]
    with pytest.raises(DoxaError, match="the confidence is '-1'; expected a number from 0 to 1"):
        files.read_frame(put(tmp_path, "a\tr\tb\t0.5\nb\tr\tc\t-1\n"), allow_zero_confidence=True)


def test_unknown_columns_are_ignored_with_a_notice(tmp_path, caplog):
    path = put(tmp_path, "head\trelation\ttail\tsource\na\tr\tb\tweb\n")
    with caplog.at_level(logging.WARNING):
        table = files.read_frame(path)
    assert table.columns == ["line", "head", "relation", "tail"]
    assert "ignoring column source" in caplog.text


def test_an_almost_numeric_fourth_column_is_a_mention_with_a_notice(tmp_path, caplog):
    path = put(tmp_path, "".join(f"a{i}\tr\tb\t0.5\n" for i in range(20)) + "a\tr\tb\tabc\n")
    with caplog.at_level(logging.WARNING):
        assert "mention" in files.read_frame(path).columns
    assert "name the columns in a header" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("a\tr\n", "line 1: 2 fields"),
        ("a\n", "line 1: 1 field"),
        ("a\tr\tb\na\tr\nb\tr\tc\n", "line 2: 2 fields where other lines have 3"),
        ("a\tr\tb\n\na\tr\tb\tx\n", "line 3: 4 fields where other lines have 3"),
        ("a\tr\tb\tx\t0.5\ty\n", "line 1: 6 fields and no header"),
        ("a\tr\tb\t0.5\nb\tr\tc\t1.5\n", "line 2: the confidence is '1.5'; expected a number above 0 and at most 1"),
        ("a\tr\tb\t0.5\nb\tr\tc\t0\n", "line 2: the confidence is '0'"),
        ("a\tr\tb\t0.5\nb\tr\tc\tNaN\n", "line 2: the confidence is 'NaN'"),
        ("a\tr\tb\tm\tlots\n", "line 1: the confidence is 'lots'"),
        ("head\trelation\ttail\tlabel\na\tr\tb\t1\na\tr\tc\t0\n", "line 3: the label is '0'; expected 1"),
        ("a\tr\tb\n\tr\tb\n", "line 2: the head is empty"),
        ("a\t\tb\n", "line 1: the relation is empty"),
        ("head\trelation\ttail\n", "no belief in this file"),
        ("head\trelation\ttail\thead\na\tr\tb\tc\n", "names a column twice"),
        ("# exported\na\tr\tb\nb\tr\tc\n", "line 1: 1 field where other lines have 3"),
        ("head\trelation\ttail\na\tr\nb\tr\nc\tr\n", "line 2: 2 fields where the header names 3"),
        (b"a\tr\tb\nc\tr\t\xff\xfe\n", "line 2: not UTF-8 text"),
    ],
)
def test_faulty_files_are_refused_with_the_line(tmp_path, content, message):
    path = put(tmp_path, content)
    with pytest.raises(DoxaError) as fault:
        files.read_frame(path)
    assert message in str(fault.value)
    assert str(path) in str(fault.value)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(DoxaError, match="no file"):
        files.read_frame(tmp_path / "none.tsv")
    with pytest.raises(DoxaError, match="is a folder"):
        files.read_frame(tmp_path)
    with pytest.raises(DoxaError, match="no file or folder"):
        files.dataset(tmp_path / "none")
    with pytest.raises(DoxaError, match="holds no train file"):
        files.dataset(tmp_path)


def test_skipping_leaves_out_faulty_lines_and_counts_them(tmp_path, caplog):
    content = b"a\tr\tb\t0.5\na\tr\nb\tr\tc\t7\n\tr\tc\t0.5\nc\tr\t\xff\t0.5\nd\tr\te\t0.25\n"
    with caplog.at_level(logging.WARNING):
        table = files.read_frame(put(tmp_path, content), on_error="skip")
    assert rows(table, "line", "head", "confidence") == [(1, "a", 0.5), (6, "d", 0.25)]
    assert "skipped 4 of 6 lines (line 2: 2 fields where other lines have 4)" in caplog.text


def test_compressed_files_read_and_write(tmp_path):
    table = pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["ü"]})
    for ending in ("", ".gz", ".zst"):
        path = tmp_path / f"b.tsv{ending}"
        files.write(table, path)
        assert rows(files.read_frame(path), "head", "relation", "tail") == [("a", "r", "ü")]
    assert gzip.decompress((tmp_path / "b.tsv.gz").read_bytes()) == "a\tr\tü\n".encode()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.tsv", "b.tsv.gz", "b.tsv.zst"]


def test_a_comment_above_the_beliefs_can_be_skipped(tmp_path):
    table = files.read_frame(put(tmp_path, "# exported by a tool\na\tr\tb\nb\tr\tc\n"), on_error="skip")
    assert rows(table, "line", "head") == [(2, "a"), (3, "b")]


def test_compression_is_known_by_content_whatever_the_name(tmp_path):
    for packed in (gzip.compress(b"a\tr\tb\n"), zstandard.compress(b"a\tr\tb\n")):
        assert rows(files.read_frame(put(tmp_path, packed, "misnamed.tsv")), "head", "tail") == [("a", "b")]


def test_a_compressed_file_cut_short_is_refused(tmp_path):
    whole = gzip.compress(os.urandom(200) + b"a\tr\tb\n" * 50)
    with pytest.raises(DoxaError, match="not a whole compressed file"):
        files.read_frame(put(tmp_path, whole[:150], "b.tsv.gz"))
    whole = zstandard.compress(b"a\tr\tb\n" * 50)
    for part in (whole[: len(whole) // 2], b"not zstd at all"):
        with pytest.raises(DoxaError, match="not a whole compressed file"):
            files.read_frame(put(tmp_path, part, "b.tsv.zst"))


def test_what_a_tsv_cannot_carry_is_refused_and_nothing_is_left(tmp_path):
    table = pl.DataFrame({"head": ["a\tb"], "relation": ["r"], "tail": ["c"]})
    with pytest.raises(DoxaError, match="a head holds a TAB"):
        files.write(table, tmp_path / "b.tsv")
    assert list(tmp_path.iterdir()) == []


def test_pipes_and_links_are_written_to_not_replaced(tmp_path):
    table = pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["c"]})
    put(tmp_path, "old", "real.tsv")
    (tmp_path / "link.tsv").symlink_to(tmp_path / "real.tsv")
    files.write(table, tmp_path / "link.tsv")
    assert (tmp_path / "link.tsv").is_symlink()
    assert (tmp_path / "real.tsv").read_text() == "a\tr\tc\n"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write(table, tmp_path / "pipe")
    assert os.read(reader, 100) == b"a\tr\tc\n"
    os.close(reader)
    assert not (tmp_path / "pipe").is_file()


def test_writing_into_a_file_as_folder_is_an_error(tmp_path):
    put(tmp_path, "x", "taken")
    table = pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["c"]})
    with pytest.raises(DoxaError, match="cannot write"):
        files.write(table, tmp_path / "taken" / "b.tsv")


def test_a_dataset_is_a_folder_with_train_valid_test(tmp_path):
    put(tmp_path, "a\tr\tb\n", "train.txt")
    put(tmp_path, "a\tr\tb\n", "valid.tsv")
    parts = files.dataset(tmp_path)
    assert (parts.train.name, parts.valid.name, parts.test) == ("train.txt", "valid.tsv", None)
    assert files.dataset(tmp_path / "train.txt").train.name == "train.txt"


name = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\t\n\r\ufeff\x85\u2028\u2029"),
               min_size=1, max_size=8)  # fmt: skip


@given(st.lists(st.tuples(name, name, name, st.none() | name, st.none() | st.floats(0.001, 1)), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_back(tmp_path_factory, beliefs):
    columns = ["head", "relation", "tail", "mention", "confidence"]
    schema = dict.fromkeys(columns[:4], pl.String) | {"confidence": pl.Float64}
    table = pl.DataFrame(beliefs, schema=schema, orient="row")
    path = tmp_path_factory.mktemp("round") / "b.tsv.zst"
    files.write(table, path)
    assert files.read_frame(path).select(columns).equals(table)
