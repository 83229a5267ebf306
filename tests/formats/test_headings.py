"""Column headings of other tools in every format that has headings, and the errors about columns."""

import json
import logging

import polars as pl
import pytest

import doxa
from doxa import formats as files
from doxa.errors import BadFile, UnknownName, UsageError
from doxa.formats import Options, read_frame
from tests.data.test_columns import TRIPLES

FORMATS = ("tsv", "csv", "jsonl", "parquet")


def put(folder, form, headings, *rows):
    """Write rows under these headings without doxa."""
    path = folder / f"b.{form}"
    frame = pl.DataFrame(rows, schema=list(headings), orient="row")
    if form == "parquet":
        frame.write_parquet(path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in frame.rows(named=True)))
    else:
        frame.write_csv(path, separator="\t" if form == "tsv" else ",")
    return path


def triples(path, **options):
    return files.read_frame(path, options=Options(**options)).select("head", "relation", "tail").rows()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("names", TRIPLES)
def test_headings_of_other_tools(tmp_path, form, names):
    head, relation, tail = names
    assert triples(put(tmp_path, form, names, ("a", "r", "b"))) == [("a", "r", "b")]
    assert triples(put(tmp_path, form, (tail.title(), head.upper(), relation), ("b", "a", "r"))) == [("a", "r", "b")]
    path = put(tmp_path, form, (*names, "confidence", "mention"), ("a", "r", "b", 0.5, "text"))
    table = files.read_frame(path).drop("line")
    assert table.select("head", "relation", "tail", "mention", "confidence").rows() == [("a", "r", "b", "text", 0.5)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_source_column_beside_the_triple_is_ignored_with_a_notice(tmp_path, form, caplog):
    path = put(tmp_path, form, ("source", "head", "relation", "tail", "target"), ("web", "a", "r", "b", "x"))
    with caplog.at_level(logging.WARNING):
        assert triples(path) == [("a", "r", "b")]
    assert "ignoring columns source, target" in caplog.text


@pytest.mark.parametrize(
    "row", [("from", "x", "y"), ("h", "r", "b"), ("source", "edge", "x"), ("s", "p", "t"), ("type", "to", "x")]
)
@pytest.mark.parametrize("form", ["tsv", "csv"])
def test_a_first_row_that_holds_single_headings_is_data(tmp_path, form, row):
    separator = {"tsv": "\t", "csv": ","}[form]
    path = tmp_path / f"b.{form}"
    path.write_text("".join(separator.join(fields) + "\n" for fields in (row, ("a", "r", "b"))))
    assert triples(path) == [row, ("a", "r", "b")]
    path.write_text("".join(separator.join((*fields, "0.5")) + "\n" for fields in (row, ("a", "r", "b"))))
    assert files.read_frame(path)["head"].to_list() == [row[0], "a"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("row", TRIPLES)
def test_a_first_belief_that_reads_like_a_header_survives_writing(tmp_path, form, row):
    table = pl.DataFrame([row, ("a", "r", "b")], schema=["head", "relation", "tail"], orient="row")
    files.write(table, tmp_path / f"b.{form}")
    assert triples(tmp_path / f"b.{form}") == table.rows()


@pytest.mark.parametrize("form", FORMATS)
def test_renaming_completes_a_vocabulary(tmp_path, form):
    path = put(tmp_path, form, ("id", "p", "o"), ("a", "r", "b"))
    assert triples(path, columns="head=id") == [("a", "r", "b")]
    path = put(tmp_path, form, ("head", "s", "p", "o"), ("x", "a", "r", "b"))
    assert triples(path, columns="head=s,relation=p,tail=o") == [("a", "r", "b")]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_missing_column_is_a_bad_file_and_a_wrong_name_is_unknown(tmp_path, form):
    path = put(tmp_path, form, ("from", "link", "to"), ("a", "r", "b"))
    with pytest.raises(BadFile, match=r"no column relation \(found: from, link, to\)") as fault:
        files.read_frame(path)
    assert fault.value.remedy == "columns"
    assert triples(path, columns="relation=link") == [("a", "r", "b")]
    with pytest.raises(UnknownName, match="no column 'x'"):
        triples(path, columns="head=x")
    with pytest.raises(UsageError, match="expected column=heading"):
        triples(path, columns="heads=x")


@pytest.mark.parametrize(
    ("file", "content", "remedy"),
    [
        ("b.tsv", "a\tr\tb\na\tr\n", "skip_errors"),
        ("b.tsv", "a\tr\tb\tx\ty\tz\n", "columns"),
        ("b.csv", "a,r\n", "columns"),
        ("b.nt", "oops\n", "skip_errors"),
        ("b.rdf", "<rdf:RDF><oops></rdf:RDF>", ""),
    ],
)
def test_errors_name_a_remedy_and_no_option_of_the_command_line(tmp_path, file, content, remedy):
    (tmp_path / file).write_text(content)
    with pytest.raises(BadFile) as fault:
        files.read_frame(tmp_path / file)
    assert fault.value.remedy == remedy
    assert "--" not in str(fault.value).replace(str(tmp_path), "")


def test_read_and_write_of_the_public_interface(tmp_path):
    path = tmp_path / "b.txt"
    path.write_text("b;a;r;0\nb;a;s;0.5\n")
    columns = "tail,head,relation,confidence"
    beliefs = doxa.read(path, delimiter=";", columns=columns, allow_zero_confidence=True)
    assert beliefs.to_frame().rows() == [("a", "r", "b", 0.0), ("a", "s", "b", 0.5)]
    assert len(doxa.read(path, delimiter=";", columns=columns, on_error="skip")) == 1
    with pytest.raises(UsageError, match="on_error"):
        doxa.read(path, on_error="ignore")
    files.write(beliefs, tmp_path / "c.csv", delimiter="|")
    assert (tmp_path / "c.csv").read_text().splitlines()[:2] == ["head|relation|tail|confidence", "a|r|b|0.0"]
    files.write(beliefs, tmp_path / "d", format="jsonl")
    assert json.loads((tmp_path / "d").read_text().splitlines()[1])["confidence"] == 0.5
    prefixes = files.Prefixes()
    (tmp_path / "e.ttl").write_text("@prefix ex: <http://example.org/> .\nex:a ex:r ex:b .\n")
    files.write(doxa.read(tmp_path / "e.ttl", prefixes=prefixes), tmp_path / "e.nt", prefixes=prefixes)
    assert (tmp_path / "e.nt").read_text() == "<http://example.org/a> <http://example.org/r> <http://example.org/b> .\n"


@pytest.mark.parametrize("header", ["head\trelation\tobject", "subject\trelation\ttail", "head\tpredicate\tobject"])
def test_the_words_of_triples_and_of_rdf_may_be_mixed(tmp_path, header):
    path = tmp_path / "beliefs.tsv"
    path.write_text(f"{header}\nLyon\tlocated in\tFrance\n")
    assert read_frame(path).select("head", "relation", "tail").rows() == [("Lyon", "located in", "France")]
