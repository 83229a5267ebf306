"""The data commands as a user meets them."""

import itertools
import json

import numpy as np
import polars as pl
import pytest

from doxa import formats as files
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.data.splits import split
from doxa.data.triples import TripleIndex
from doxa.errors import DoxaError, UsageError
from tests.cli.test_cli import QUICK
from tests.worlds import board


@pytest.fixture
def table():
    return board(5).with_columns(pl.lit(0.75).alias("confidence"))


def test_convert_there_and_back(doxa, table, tmp_path):
    files.write(table, tmp_path / "a.tsv")
    steps = ["a.tsv", "b.parquet", "c.ttl.gz", "d.jsonl", "e.nt", "f.csv.zst", "g.esv", "h.tsv"]
    for one, other in itertools.pairwise(steps):
        code, _, err = doxa("data", "convert", tmp_path / one, tmp_path / other)
        assert (code, f"{len(table)} beliefs" in err) == (0, True), err
    assert files.read_frame(tmp_path / "h.tsv").select(table.columns).equals(table)


def test_convert_a_folder_to_openke_and_back(doxa, table, tmp_path):
    for name in ("train", "test"):
        files.write(table, tmp_path / "in" / f"{name}.tsv")
    code, _, err = doxa("data", "convert", tmp_path / "in", tmp_path / "numbers", "--to", "openke")
    assert code == 0
    assert "cannot hold confidence, mention" in err
    assert sorted(p.name for p in (tmp_path / "numbers").iterdir()) == [
        "entity2id.txt", "relation2id.txt", "test2id.txt", "train2id.txt",
    ]  # fmt: skip
    assert doxa("data", "convert", tmp_path / "numbers", tmp_path / "out", "--to", "parquet")[0] == 0
    assert (
        files.read_frame(tmp_path / "out" / "test.parquet")
        .select(table.columns[:3])
        .equals(table.select(table.columns[:3]))
    )


def test_convert_leaves_nothing_when_the_input_is_at_fault(doxa, tmp_path):
    (tmp_path / "a.tsv").write_text("a\tr\tb\na\tr\n")
    code, _, err = doxa("data", "convert", tmp_path / "a.tsv", tmp_path / "b.parquet")
    assert (code, "line 2: 2 fields" in err) == (1, True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.tsv"]
    assert doxa("data", "convert", tmp_path / "a.tsv", tmp_path / "b.parquet", "--on-error", "skip")[0] == 0
    assert doxa("data", "convert", tmp_path / "a.tsv", tmp_path / "a.tsv")[0] == 2


def test_options_of_reading_and_writing(doxa, tmp_path):
    (tmp_path / "a.csv").write_text("id;s;p;o\n1;a;r;b\n")
    read = ("--read", "columns=head=s,relation=p,tail=o", "--read", "delimiter=;")
    assert doxa("data", "convert", tmp_path / "a.csv", tmp_path / "b.tsv", *read, "--write", "header=yes")[0] == 0
    assert (tmp_path / "b.tsv").read_text() == "head\trelation\ttail\na\tr\tb\n"
    code, _, err = doxa("data", "convert", tmp_path / "a.csv", tmp_path / "b.tsv", "--read", "delimeter=;")
    assert (code, "Did you mean 'delimiter'" in err) == (2, True)
    prefix = ("--read", "prefix=ex=http://example.org/")
    (tmp_path / "c.tsv").write_text("ex:a\tex:r\tex:b\n")
    assert doxa("data", "convert", tmp_path / "c.tsv", tmp_path / "c.nt", *prefix)[0] == 0
    assert (tmp_path / "c.nt").read_text() == "<http://example.org/a> <http://example.org/r> <http://example.org/b> .\n"


def test_split_keeps_its_promises(doxa, table, tmp_path):
    files.write(table, tmp_path / "a.tsv")
    code, text, _ = doxa("data", "split", tmp_path / "a.tsv", tmp_path / "d", "--apart", "pair", "--to", "parquet")
    assert (code, "train" in text) == (0, True)
    parts = {name: files.read_frame(path) for name, path in files.dataset(tmp_path / "d").parts().items()}
    assert sum(map(len, parts.values())) == len(table)
    code, text, _ = doxa("data", "inspect", tmp_path / "d", "--json", "--plot", tmp_path / "page.png")
    report = json.loads(text)["parts"]["test"]
    assert report["with_unseen_entity"] == report["with_unseen_relation"] == report["reversed_pair_in_train"] == 0
    assert (tmp_path / "page.png").read_bytes()[:4] == b"\x89PNG"
    assert doxa("data", "split", tmp_path / "a.tsv", tmp_path / "d", "--apart", "sentence")[0] == 2


@pytest.mark.parametrize("key", ["pair", "mention", "head", "tail"])
def test_what_is_kept_apart_never_crosses(key):
    rows = [(f"e{i % 17}", f"r{i % 3}", f"e{(i * i + 1) % 23}", f"m{i % 40}") for i in range(300)]
    rows += [(tail, "back", head, None) for head, _, tail, _ in rows[:50]]
    beliefs = Beliefs.from_frame(pl.DataFrame(rows, schema=["head", "relation", "tail", "mention"], orient="row"))
    parts = split(beliefs, (0.2, 0.2), seed=1, apart=[key])
    assert sum(map(len, parts)) == len(beliefs)

    def keys(part):
        columns = part.to_frame().select("head", "tail", "mention").rows(named=True)
        if key == "pair":
            return {frozenset((row["head"], row["tail"])) for row in columns}
        return {row[key] for row in columns} - {None}

    assert not keys(parts[0]) & keys(parts[1])
    assert not keys(parts[0]) & keys(parts[2])
    assert not keys(parts[1]) & keys(parts[2])
    seen = set(parts[0].head) | set(parts[0].tail)
    assert all(set(part.head) | set(part.tail) <= seen for part in parts)


def test_split_refuses_what_it_cannot_keep_apart():
    beliefs = Beliefs.from_frame(board(3, words=False))
    with pytest.raises(UsageError, match="expected pair, mention, head or tail"):
        split(beliefs, (0.1,), apart=["word"])
    with pytest.raises(DoxaError, match="no mentions"):
        split(beliefs, (0.1,), apart=["mention"])


def test_inspect_finds_inverses_and_differing_confidence(doxa, tmp_path):
    pairs = [(f"a{i}", f"b{i}") for i in range(10)]
    (tmp_path / "train.tsv").write_text(
        "".join(f"{h}\tparent\t{t}\t0.5\n{t}\tchild\t{h}\t0.6\n" for h, t in pairs[:9]) + "a1\tparent\tb1\t0.7\n"
        "a9\tparent\tb9\t0.5\nx\tlike\ty\t1\ny\tlike\tx\t1\n"
    )
    (tmp_path / "test.tsv").write_text("b9\tchild\ta9\t0.5\nq\tlike\tx\t0.5\n")
    report = json.loads(doxa("data", "inspect", tmp_path, "--json")[1])
    assert report["parts"]["train"]["triples_of_differing_confidence"] == 1
    assert report["inverses"] == [
        {"relation": "parent", "inverse": "child", "share": 0.9, "leaked": 1},
        {"relation": "like", "inverse": "like", "share": 1.0, "leaked": 0},
    ]
    assert report["confidences"][10] == 10
    assert "Near-inverse relations, 2 of 2" in doxa("data", "inspect", tmp_path)[1]


NELL = "".join(
    ["Entity\tRelation\tValue\tIteration of Promotion\tProbability\tSource\tCandidate Source\n"]
    + [
        f"concept:square:{h}\tconcept:{r}\tconcept:square:{t}\t1103\t0.9\tMBL-Iter:1103-x\t"
        f"%5BCPL-Iter%3A1103-2018%2F03%2F08-15%3A32%3A34-%3Ctoken%3Da%2Cb%3E-arg1+{m.replace(' ', '+')}+arg2%097%5D\n"
        for h, r, t, m in board(5).rows()
    ]
    + [f"concept:square:{x},0\tgeneralizations\tconcept:square\t2\t0.95\tx\t[]\n" for x in range(5)]
)
TURTLE = "@prefix ex: <http://example.org/> .\n" + "".join(
    f"ex:s{h.replace(',', '_')} ex:{r} ex:s{t.replace(',', '_')} {{| ex:confidence 0.9 |}} .\n"
    for h, r, t, _ in board(5).rows()
)


@pytest.mark.parametrize(
    ("name", "text", "question"),
    [
        ("dump.esv.csv", NELL, ("square:1,1", "up", "?")),
        ("world.ttl", TURTLE, ("ex:s1_1", "ex:up", "?")),
    ],
)
def test_from_dump_to_answer_in_three_commands(doxa, tmp_path, name, text, question):
    (tmp_path / name).write_text(text)
    assert doxa("data", "split", tmp_path / name, tmp_path / "data", "--valid", ".1", "--test", "0")[0] == 0
    assert doxa("train", tmp_path / "data", "--out", tmp_path / "model", *QUICK)[0] == 0
    code, out, _ = doxa("ask", tmp_path / "model", *question, "--top", 3)
    assert (code, len(out.splitlines())) == (0, 4)
    assert doxa("train", tmp_path / name, "--out", tmp_path / "direct", *QUICK)[0] == 0
    answers = tmp_path / "answers.nt"
    assert doxa("ask", tmp_path / "model", *question, "--top", 3, "--out", answers)[0] == 0
    report = files.read_frame(answers)
    assert len(report) == 3
    assert report["head"][0] == question[0] or report["head"][0].startswith("http://example.org/")
    assert doxa("judge", tmp_path / "direct", tmp_path / name, "--out", tmp_path / "judged.jsonl")[0] == 0
    assert {"credence", "verdict"} <= set(json.loads((tmp_path / "judged.jsonl").read_text().splitlines()[0]))
    assert doxa("judge", tmp_path / "direct", tmp_path / name, "--out", tmp_path / "judged.ttl")[0] == 0
    assert "confidence" in files.read_frame(tmp_path / "judged.ttl").columns


def test_negatives_are_the_ones_evaluate_makes(doxa, tmp_path):
    rows = [row[:3] for row in board(5).rows()]
    parts = {"train": rows[::2], "valid": rows[1::4], "test": rows[3::4]}
    for name, part in parts.items():
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in part))
    known = ["--known", tmp_path / "train.tsv", "--known", tmp_path / "valid.tsv"]
    paths = (tmp_path / "test.tsv", tmp_path / "labeled.tsv")
    code, text, err = doxa("data", "negatives", *paths, *known, "--seed", "3")
    assert (code, "each with a negative" in text) == (0, True), err
    train, valid, test = (Beliefs.from_frame(files.read_frame(tmp_path / f"{name}.tsv")) for name in parts)
    valid, test = valid.encode(train.vocabularies), test.encode(train.vocabularies)
    facts = TripleIndex(np.concatenate([b.triples for b in (train, valid, test)]), len(train.vocabularies.entities), 2)
    made = labeled_beliefs(test, facts, 3)
    expected = made.where(made.seen)
    written = Beliefs.from_frame(files.read_frame(tmp_path / "labeled.tsv")).encode(train.vocabularies)
    assert written.triples.tolist() == expected.triples.tolist()
    assert written.label.tolist() == expected.label.tolist()
    assert (expected.label == -1).any()


def test_the_old_name_of_negatives_still_works(doxa, table, tmp_path):
    files.write(table.drop("confidence"), tmp_path / "a.tsv")
    made = {}
    for name in ("negatives", "falsehoods"):
        code, _, err = doxa("data", name, tmp_path / "a.tsv", tmp_path / f"{name}.tsv")
        assert (code, "deprecated" in err) == (0, name == "falsehoods")
        made[name] = (tmp_path / f"{name}.tsv").read_text()
    assert made["negatives"] == made["falsehoods"]
    assert "falsehoods" not in doxa("data", "--help")[1]
