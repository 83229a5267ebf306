"""Reviews: what a curator fills in, in whatever dialect a spreadsheet saves it, becomes the same decisions."""

import csv
import io
import logging

import polars as pl
import pytest

from doxa import formats
from doxa.curation import sheet
from doxa.curation.audit import audit
from doxa.curation.complete import complete
from doxa.curation.review import decide, to_review
from doxa.data import atomic
from doxa.errors import BadFile
from tests.worlds import random_model

HEADINGS = ["head", "relation", "tail", "suggestion", "reason", "finding", "model", "review"]
NAMES = [
    "Lyon, France",
    '"Heroes"',
    'Dwayne "The Rock" Johnson',
    '"Weird Al" Yankovic',
    "x;y",
    "a|b",
    "京",
    "1,5",
    "'tis",
]
REVIEWS = ["Replace ", "wrong", " RIGHT", "unsure", "", "replace", "wrong", "right", ""]
ROWS = [
    [name, "near", f"{name} 2", f"{name} 3", "low; very low", "suspect", "abc", review]
    for name, review in zip(NAMES, REVIEWS, strict=True)
]


def decisions_of(rows, path):
    """The decisions that rows of suspects must become, by name alone."""
    labels = []
    for line, row in enumerate(rows, start=2):
        review, source = row[-1].strip().lower(), f"{path.name}:{line} suspect {row[-1].strip().lower()} by model abc"
        if review in ("wrong", "replace", "right"):
            labels.append((*row[:3], source, 1 if review == "right" else -1))
        if review == "replace":
            labels.append((*row[:2], row[3], source, 1))
    return labels


def review_file(path, *rows):
    headings = ["head", "relation", "tail", "suggestion", "finding", "review"]
    path.write_text("".join(",".join(row) + "\n" for row in (headings, *rows)))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_dialect_of_a_spreadsheet_is_read_alike(tmp_path, encoding, delimiter, quoting, end):
    """With the blank columns and rows that spreadsheets append, and without the empty cells that they leave out."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerow([*HEADINGS, "", ""])
    writer.writerows([*row, "", ""] if row[-1] else row[:-1] for row in ROWS)
    writer.writerows([[""] * len(HEADINGS), [" "]])
    path = tmp_path / "suspects.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    decisions = decide(path)
    assert decisions.labels.rows() == decisions_of(ROWS, path)
    assert (decisions.unsure, decisions.open) == (1, 2)


@pytest.mark.parametrize("name", ["s.tsv", "s.csv", "s.tsv.gz", "s.csv.zst", "s.txt"])
def test_what_doxa_writes_is_read_with_commas_and_quotes_in_names(tmp_path, name):
    formats.write(pl.DataFrame(ROWS, schema=HEADINGS, orient="row"), tmp_path / name)
    assert decide(tmp_path / name).labels.rows() == decisions_of(ROWS, tmp_path / name)


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_proposals_and_suspects_of_a_model_come_back(tmp_path, ending):
    model, _ = random_model(0, entities=6, relations=2, facts=20)
    missing = to_review(complete(model, min_credence=0, top=4).to_frame(), "missing", model)
    suspects = to_review(audit(model, top=4).to_frame(), "suspect", model)
    for table, review in ((missing, "accept"), (suspects, "wrong")):
        path = tmp_path / f"file.{ending}"
        formats.write(table.with_columns(review=pl.lit(review)), path)
        decisions = decide(path)
        decided = decisions.added if review == "accept" else decisions.retracted
        assert decided.select("head", "relation", "tail").equals(table.select("head", "relation", "tail"))


def test_a_comma_in_a_tsv_of_excel_is_in_quotes_and_one_of_doxa_is_not(tmp_path):
    path = tmp_path / "s.tsv"
    lines = ["head\trelation\ttail", '"a, b"\tr\tc', ""]
    path.write_bytes("\r\n".join(lines).encode())
    assert sheet.read(path)["head"].to_list() == ["a, b"]
    path.write_bytes("\n".join(lines).encode())
    assert sheet.read(path)["head"].to_list() == ['"a, b"']


def test_lines_are_counted_through_cells_of_several_lines(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(
        "head,relation,tail,note,finding,review\n"
        'a,r,b,"first\nsecond",missing,accept\n\nc,r,d,"one\n\nmore",missing,reject\ne,r,f,,missing,perhaps\n'
    )
    with pytest.raises(BadFile, match="line 8: the review is 'perhaps'"):
        decide(path)
    path.write_text(path.read_text().replace("perhaps", "accept"))
    assert [source.split()[0] for source in decide(path).labels["source"]] == ["s.csv:2", "s.csv:5", "s.csv:8"]


def test_wrong_and_replace_and_right(tmp_path):
    path = review_file(
        tmp_path / "s.csv",
        ["a", "r", "b", "c", "suspect", "wrong"],
        ["d", "r", "b", "c", "suspect", "replace"],
        ["e", "r", "b", "c", "suspect", "right"],
        ["f", "r", "b", "c", "missing", "accept"],
        ["g", "r", "b", "c", "missing", "reject"],
    )
    decisions = decide(path)
    assert [row[0] + row[2] for row in decisions.retracted.rows()] == ["ab", "db"]
    assert [row[0] + row[2] for row in decisions.added.rows()] == ["dc", "fb"]
    assert {row[0] + row[2]: row[4] for row in decisions.labels.rows()} == {
        "ab": -1, "db": -1, "dc": 1, "eb": 1, "fb": 1, "gb": -1,
    }  # fmt: skip


def test_former_reviews_of_suspects_never_add_the_suggestion(tmp_path, caplog):
    rows = [["a", "r", "b", "c", "suspect", "accept"], ["d", "r", "e", "c", "suspect", "reject"]]
    with caplog.at_level(logging.WARNING):
        decisions = decide(review_file(tmp_path / "s.csv", *rows))
    assert "accept (line 2) means wrong" in caplog.text
    assert (len(decisions.added), decisions.retracted.row(0)[:3]) == (0, ("a", "r", "b"))
    assert decisions.labels["label"].to_list() == [-1, 1]
    assert decisions.labels["source"][0] == "s.csv:2 suspect wrong"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["a", "r", "b", "", "suspect", "replace"], "line 3: the review is 'replace', but there is no suggestion"),
        (["a", "r", "b", "b", "suspect", "replace"], "line 3: the review is 'replace', but there is no suggestion"),
        (["a", "r", "b", "", "missing", "wrong"], "line 3: the review is 'wrong'"),
        (["a", "r", "b", "", "suspect", "rihgt"], "line 3: the review is 'rihgt'. Did you mean 'right'"),
        (["a", "r", "b", "", "", "accept"], "line 3: the finding is ''"),
        (["a", " ", "b", "", "missing", "accept"], "line 3: no relation"),
        (["a", "r", "b", "", "missing", "accept", "", "x"], "line 3: 8 cells where the first line has 6"),
        (["a", "r", '"b', "", "missing", "accept"], "line 3: not a row of a CSV file"),
    ],
)
def test_a_row_that_makes_no_sense_is_named(tmp_path, row, message):
    with pytest.raises(BadFile) as fault:
        decide(review_file(tmp_path / "s.csv", ["z", "r", "b", "", "missing", "accept"], row))
    assert message in str(fault.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04...", "a spreadsheet or an archive, not a text file\n  save it as CSV"),
        (
            "head,relation,tail,finding,review\na,r,é,missing,\n".encode("latin1"),
            "line 2: not UTF-8 text\n  save it as",
        ),
        (b"head,relation,tail,finding,review,Review \n", "names the column 'review' twice"),
        (b",".join(b"x%d" % number for number in range(200_000)), "line 1: 200,000 fields\n  if the file is right"),
        (b"a,r,b,missing,accept\n", "has no column 'head'"),
        (b"", "has no column 'head'"),
    ],
)
def test_a_file_that_is_no_review_is_refused(tmp_path, content, message):
    (tmp_path / "s.csv").write_bytes(content)
    with pytest.raises(BadFile) as fault:
        decide(tmp_path / "s.csv")
    assert message in str(fault.value)
    with pytest.raises(BadFile, match="no file"):
        decide(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["a", "r", "b", "c", "suspect", "replace"], ["a", "r", "c", "", "suspect", "wrong"]),
        (["a", "r", "b", "c", "suspect", "replace"], ["a", "r", "c", "", "missing", "reject"]),
        (["a", "r", "b", "", "suspect", "right"], ["a", "r", "b", "", "suspect", "wrong"]),
        (["a", "r", "b", "", "missing", "accept"], ["a", "r", "b", "", "missing", "reject"]),
    ],
)
def test_a_belief_decided_as_true_and_as_false_is_an_error_with_both_lines(tmp_path, first, second):
    between = ["z", "r", "b", "", "missing", "accept"]
    tail = "c" if "replace" in first else "b"
    with pytest.raises(BadFile, match=f"line 2 decides that a · r · {tail} is true, line 4 that it is false"):
        decide(review_file(tmp_path / "s.csv", first, between, second))
    with pytest.raises(BadFile, match=f"line 4 decides that a · r · {tail} is true, line 2 that it is false"):
        decide(review_file(tmp_path / "s.csv", second, between, first))
    with pytest.raises(BadFile, match=f"line 2 decides that a · r · {tail} is true, line 5 that it is false"):
        decide(review_file(tmp_path / "s.csv", first, first, between, second))


def test_the_same_decision_twice_counts_once(tmp_path):
    rows = [
        ["a", "r", "b", "c", "suspect", "wrong"],
        ["a", "r", "b", "c", "suspect", "replace"],
        ["a", "r", "c", "", "missing", "accept"],
        ["a", "r", "c", "", "suspect", "right"],
    ]
    decisions = decide(review_file(tmp_path / "s.csv", *rows))
    assert [row[:4] for row in decisions.retracted.rows()] == [("a", "r", "b", "s.csv:2 suspect wrong")]
    assert [row[:4] for row in decisions.added.rows()] == [("a", "r", "c", "s.csv:3 suspect replace")]
    assert [(row[2], row[4]) for row in decisions.labels.rows()] == [("b", -1), ("c", 1)]


def test_the_files_of_an_earlier_review_are_replaced_at_once(tmp_path, monkeypatch):
    """Up to one exchange of folders the earlier files are whole; then none of them is left, also without decisions."""
    first = [["a", "r", "b", "c", "suspect", "replace"]]
    second = [["a", "r", "d", "", "missing", "reject"]]
    decide(review_file(tmp_path / "s.csv", *first)).write(tmp_path / "decided")
    earlier = {path.name: path.read_bytes() for path in (tmp_path / "decided").iterdir()}
    assert set(earlier) == {"added.tsv", "retracted.tsv", "labels.tsv"}
    real, seen = atomic._exchanged, []

    def exchanged(new, old):
        seen.append({path.name: path.read_bytes() for path in old.iterdir()})
        return real(new, old)

    monkeypatch.setattr(atomic, "_exchanged", exchanged)
    decide(review_file(tmp_path / "s.csv", *second)).write(tmp_path / "decided")
    assert seen == [earlier]
    assert [path.name for path in (tmp_path / "decided").iterdir()] == ["labels.tsv"]
    decide(review_file(tmp_path / "s.csv", ["a", "r", "d", "", "missing", "unsure"])).write(tmp_path / "decided")
    assert list((tmp_path / "decided").iterdir()) == []
