"""Promises of every format: reading returns what was written, in any compression; losses are reported."""

import gzip
import io
import logging
import sys

import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa import formats as files
from doxa.data import iris
from doxa.errors import BadFile, DoxaError, UsageError
from doxa.formats import Options
from doxa.formats.registry import format_by_ending

COLUMNS = ["head", "relation", "tail", "mention", "confidence"]
SCHEMA = dict.fromkeys(COLUMNS[:4], pl.String) | {"confidence": pl.Float64}
WHOLE = ("tsv", "csv", "jsonl", "parquet", "nt", "nq", "ttl", "nell")
"""Formats that hold all five columns of a belief."""

ENDINGS = {"nell": "esv"}

plain = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\x85\u2028\u2029"), min_size=1, max_size=9
)
awkward = st.sampled_from(
    ["a b", '"quoted"', '"fr"@fr', "http://ex.org/a#b", "<mailto:a@b>", "_:b1", "dbr:Lyon", "x:y", ":z", "%20", "a%2Fb",
     "urn:doxa:x", "concept:c", "category", "généralisé", "日本", "a,b;c|d", "\\n", "12", "{|", "<<", "—", "\u0301"]
)  # fmt: skip
name = awkward | plain
beliefs = st.lists(
    st.tuples(name, name, name, st.none() | name, st.none() | st.floats(0.001, 1)), min_size=1, max_size=6
)


def table_of(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def padded(table):
    missing = [pl.lit(None, SCHEMA[column]).alias(column) for column in COLUMNS if column not in table.columns]
    return table.with_columns(missing).select(COLUMNS)


@pytest.mark.parametrize("form", WHOLE)
@given(rows=beliefs)
@settings(max_examples=25, deadline=None)
def test_what_is_written_is_read_back(tmp_path_factory, form, rows):
    table = table_of(rows)
    path = tmp_path_factory.mktemp("round") / f"b.{ENDINGS.get(form, form)}"
    files.write(table, path)
    copy = padded(files.read_frame(path))
    assert copy.equals(table)
    again = path.with_name(f"again.{ENDINGS.get(form, form)}")
    files.write(copy, again)
    assert padded(files.read_frame(again)).equals(table)


@given(rows=st.lists(st.tuples(name, st.sampled_from(["located in", "rdf:type", "x"]), name), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_triples_survive_rdf_xml_and_openke(tmp_path_factory, rows):
    table = pl.DataFrame(rows, schema=COLUMNS[:3], orient="row")
    folder = tmp_path_factory.mktemp("round")
    files.write(table, folder / "b.rdf")
    assert sorted(files.read_frame(folder / "b.rdf").select(COLUMNS[:3]).rows()) == sorted(rows)
    files.write(table, folder / "numbers", format="openke")
    assert files.read_frame(folder / "numbers" / "train2id.txt").select(COLUMNS[:3]).rows() == rows


@given(st.lists(name, min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_names_and_iris_are_one_to_one(names):
    values = pl.Series(names)
    for place in ("head", "relation", "tail"):
        terms = iris.terms(values, iris.Prefixes(), place)
        assert iris.names(terms, iris.Prefixes(), place).to_list() == names


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet", "nt", "nq", "ttl", "rdf", "esv"])
@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_every_format_comes_plain_and_packed(tmp_path, form, packed):
    table = pl.DataFrame({"head": ["a", "b c"], "relation": ["r", "r"], "tail": ["ü", "d"]})
    path = tmp_path / f"b.{form}{packed}"
    files.write(table, path)
    assert files.read_frame(path).select(COLUMNS[:3]).equals(table)
    start = path.read_bytes()[:4]
    assert (start[:2] == b"\x1f\x8b", start == b"\x28\xb5\x2f\xfd") == (packed == ".gz", packed == ".zst")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet", "nt", "ttl", "rdf"])
def test_standard_input_and_output(tmp_path, monkeypatch, form):
    table = pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["b"]})
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    files.write(table, "-", format=form)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.buffer.getvalue())))
    assert files.read_frame("-", options=Options(format=form)).select(COLUMNS[:3]).equals(table)


def test_columns_that_a_format_cannot_hold_are_named(tmp_path, caplog):
    table = table_of([("a", "r", "b", "text", 0.5)])
    with caplog.at_level(logging.WARNING):
        files.write(table, tmp_path / "b.rdf")
    assert "b.rdf: the format rdf cannot hold confidence, mention; left out" in caplog.text
    with caplog.at_level(logging.WARNING):
        files.write(table.with_columns(label=pl.lit(1)), tmp_path / "b.nell")
    assert "the format nell cannot hold label" in caplog.text


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet", "nt", "ttl"])
def test_labels_are_kept(tmp_path, form):
    table = pl.DataFrame({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["c", "c"], "label": [1, -1]})
    files.write(table, tmp_path / f"b.{form}")
    assert files.read_frame(tmp_path / f"b.{form}")["label"].to_list() == [1, -1]


def test_the_ending_decides_the_format():
    names = {"a.tsv.gz": "tsv", "a.txt": "tsv", "a.CSV": "csv", "a.ndjson.zst": "jsonl", "train2id.txt": "openke",
             "NELL.08m.1115.esv.csv.gz": "nell", "a.nq.gz": "nq", "a.owl": "rdf", "numeric_triples.tsv.gz": "pykeen",
             "a.xyz": None}  # fmt: skip
    assert {path: format_by_ending(path) for path in names} == names


def test_an_unknown_format_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match=r"no format 'tvs'\. Did you mean 'tsv'"):
        files.read_frame(tmp_path / "x", options=Options(format="tvs"))


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("a,r,b\n", {}, [("a", "r", "b", None, None)]),
        ('"a, ""b""",r,"c\nd"\n', {}, [('a, "b"', "r", "c\nd", None, None)]),
        ("a;r;b;0.5\n", {}, [("a", "r", "b", None, 0.5)]),
        ("a,r,b,so it is\n", {}, [("a", "r", "b", "so it is", None)]),
        ("Subject,Predicate,Object\na,r,b\n", {}, [("a", "r", "b", None, None)]),
        ("x,y,z\na,r,b\n", {"header": "yes", "columns": "head=z,relation=y,tail=x"}, [("b", "r", "a", None, None)]),
        ("x,y,z\na,r,b\n", {"header": "yes", "columns": "head,relation,tail"}, [("a", "r", "b", None, None)]),
        ("1,a,r,b,0.5\n", {"columns": "-,head,relation,tail,confidence"}, [("a", "r", "b", None, 0.5)]),
        ("head,relation,tail\n", {"header": "no"}, [("head", "relation", "tail", None, None)]),
        ("\ufeffhead,tail,relation\r\na,b,r\r\n\r\n", {}, [("a", "r", "b", None, None)]),
    ],
)
def test_csv_of_any_kind(tmp_path, content, options, expected):
    path = tmp_path / "b.csv"
    path.write_bytes(content.encode())
    assert padded(files.read_frame(path, options=Options(**options))).rows() == expected


def test_delimiters_header_and_columns_of_unquoted_text(tmp_path):
    path = tmp_path / "b.txt"
    path.write_text("b|a|r\n")
    table = files.read_frame(path, options=Options(delimiter="|", columns="tail,head,relation"))
    assert table.select(COLUMNS[:3]).rows() == [("a", "r", "b")]
    with pytest.raises(DoxaError, match="3 fields where columns=head,relation,tail,- names 4"):
        files.read_frame(path, options=Options(delimiter="|", columns="head,relation,tail,-"))
    with pytest.raises(UsageError, match="expected one character"):
        files.read_frame(path, options=Options(delimiter="ab"))


FAULTS = [
    ("b.csv", b"a,r,b\na,r\n", "line 2: 2 fields where the first row has 3"),
    ("b.csv", b'a,r,b\na,"r,b\n', "line 2: not a row of a CSV file"),
    ("b.csv", b"a,r,b\na,r,\xff\n", "not UTF-8 text"),
    ("b.csv", b"", "the file is empty"),
    ("b.csv", b"a,b\n", "2 fields and no header"),
    ("b.csv", b"head,relation\n", "2 fields and no header"),
    ("b.jsonl", b'{"head": "a", "relation": "r", "tail": "b"}\n{"head"\n', "line 2: not JSON"),
    ("b.jsonl", b'{"head": "a", "relation": "r", "tail": "b"}\n[1]\n', "line 2: a JSON list, not an object"),
    ("b.jsonl", b'{"head": "a", "relation": "r", "tail": ["b"]}\n', 'line 1: the tail is ["b"]'),
    ("b.jsonl", b'{"head": "a", "relation": "r"}\n', "no column tail"),
    ("b.jsonl", b'{"head": "a", "relation": "r", "tail": "\\ud800"}\n', "line 1: the tail is"),
    ("b.jsonl", b'{"head": "a", "relation": "r", "tail": "b", "confidence": 2}\n', "line 1: the confidence is '2'"),
    ("b.jsonl", b"\xff\n", "line 1: not"),
    ("b.parquet", b"PAR1 no more", "not a whole Parquet file"),
    ("b.nt", b"<x:a> <x:r> <x:b> .\n<x:a> <x:r> oops .\n", "line 2: not a statement"),
    ("b.nt", b"<x:a> <x:r> <x:b> .\n<x:a> <x:r> <x:\xff> .\n", "line 2: not UTF-8 text"),
    ("b.nq", b"<x:a> <x:r> <x:b> <x:g> <x:h> .\n", "line 1: not a statement"),
    ("b.ttl", b"@prefix e: <http://e/> .\ne:a e:r e:b .\ne:a e:r .\n", "line 3: not a statement"),
    ("b.ttl", b"e:a e:r e:b .\n", "line 1: not a statement"),
    ("b.rdf", b"<rdf:RDF><oops></rdf:RDF>", "not a statement"),
    ("b.nell", b"Entity\tRelation\tValue\tProbability\na\tr\n", "line 2: 2 fields where the header names 4"),
    ("b.nell", b"a\tr\tb\n", "line 1: no header of a NELL dump"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "message"), FAULTS)
def test_faulty_files_are_refused_with_the_place(tmp_path, file, content, message):
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(BadFile) as fault:
        files.read_frame(path)
    assert message in str(fault.value)
    assert str(path) in str(fault.value)


@pytest.mark.parametrize(
    ("file", "content", "kept"),
    [
        ("b.csv", b"a,r,b\na,r\nc,r,d\n", ["a", "c"]),
        ("b.jsonl", b'{"head":"a","relation":"r","tail":"b"}\n0\n{"head":"c","relation":"r","tail":""}\n', ["a"]),
        ("b.nt", b"<http://e/a> <x:r> <x:b> .\nno\n<http://e/c> <x:r> <x:b> .\n", ["http://e/a", "http://e/c"]),
        ("b.ttl", b"@prefix e: <http://e/> .\ne:a e:r e:b .\ne:q e:r .\ne:x e:r e:b .\ne:c e:r e:b.", ["e:a", "e:c"]),
        ("b.nell", b"Entity\tRelation\tValue\nconcept:a\tconcept:r\tb\nx\nconcept:c\tconcept:r\tb\n", ["a", "c"]),
    ],
)  # fmt: skip
def test_skipping_goes_on_after_a_fault_and_counts(tmp_path, caplog, file, content, kept):
    path = tmp_path / file
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert files.read_frame(path, on_error="skip")["head"].to_list() == kept
    assert f"{file}: skipped {3 - len(kept)} of 3" in caplog.text


def test_packed_files_cut_short_are_refused(tmp_path):
    text = b"".join(b"<http://e/%d> <x:r> <x:b> .\n" % i for i in range(500))
    for name, packed in (("b.nt.gz", gzip.compress(text)), ("b.ttl.zst", zstandard.compress(text))):
        (tmp_path / name).write_bytes(packed[: len(packed) // 2])
        with pytest.raises(DoxaError, match="not a whole compressed file"):
            files.read_frame(tmp_path / name)


def test_a_parquet_file_must_have_the_columns(tmp_path):
    path = tmp_path / "b.parquet"
    pl.DataFrame({"head": ["a"], "tail": ["b"], "weight": [1]}).write_parquet(path)
    with pytest.raises(DoxaError, match=r"no column relation \(found: head, tail, weight\)"):
        files.read_frame(path)
    pl.DataFrame({"head": [["a"]], "relation": ["r"], "tail": ["b"]}).write_parquet(path)
    with pytest.raises(DoxaError, match="the column head holds List"):
        files.read_frame(path)
    pl.DataFrame({"head": ["a", None], "relation": ["r", "r"], "tail": ["b", "b"]}).write_parquet(path)
    with pytest.raises(DoxaError, match="row 2: the head is empty"):
        files.read_frame(path)
    pl.DataFrame({"h": [1, 2], "relation": ["r", "r"], "tail": [3, 4]}).write_parquet(path)
    assert files.read_frame(path, options=Options(columns="head=h")).select(COLUMNS[:3]).rows() == [
        ("1", "r", "3"),
        ("2", "r", "4"),
    ]


def test_nothing_half_written_is_left_when_the_input_fails(tmp_path):
    def failing():
        yield pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["b"]})
        raise DoxaError("in.tsv, line 2: no")

    for form in ("tsv", "csv", "jsonl", "parquet", "nt", "ttl", "rdf", "nell", "openke"):
        with pytest.raises(DoxaError, match="line 2: no"):
            files.write(failing(), tmp_path / f"out.{form}", format=form)
        assert list(tmp_path.iterdir()) == []
