"""NELL's dump, OpenKE's and PyKEEN's folders, RDF with annotations: what each means."""

import gzip
import logging
from urllib.parse import quote_plus

import pytest

import doxa
from doxa import formats as files
from doxa.errors import DoxaError
from doxa.formats import Options
from doxa.formats.nell import patterns

HEADER = (
    "Entity\tRelation\tValue\tIteration of Promotion\tProbability\tSource\tEntity literalStrings\tCandidate Source\n"
)
SOURCE = (
    "[SEAL-Iter:215-2011/02/26-04:27:09-<token=lyon,france>-From:Category:city-using-KB http://example.org/a.htm, "
    "CPL-Iter:1103-2018/03/08-15:32:34-<token=x,y>-arg1 , a city in arg2\t2\targ2 cities like arg1\t5\targ1 _\t0]"
)


def dump(*rows):
    return HEADER + "".join(
        f"{entity}\t{relation}\t{value}\t1103\t{probability}\tMBL\t\"x\"\t{quote_plus(source)}\n"
        for entity, relation, value, probability, source in rows
    )  # fmt: skip


def test_a_dump_becomes_beliefs_with_mentions_and_categories(tmp_path):
    path = tmp_path / "nell.tsv"
    path.write_text(
        dump(
            ("concept:city:lyon", "concept:citylocatedincountry", "concept:country:france", "0.96", SOURCE),
            ("concept:city:lyon", "generalizations", "concept:city", "[0.5, 0.75]", "[]"),
        )
    )
    table = files.read_frame(path)
    assert table.drop("line").rows() == [
        ("city:lyon", "citylocatedincountry", "country:france", 0.96, "cities like"),
        ("city:lyon", "citylocatedincountry", "country:france", 0.96, ", a city in"),
        ("city:lyon", "citylocatedincountry", "country:france", 0.96, "_"),
        ("city:lyon", "category", "city", 0.75, None),
    ]
    assert len(files.read_frame(path, options=Options(patterns=1))) == 2


def test_patterns_of_a_source_in_the_clear_and_of_categories():
    assert patterns(SOURCE, 1) == ["cities like"]
    assert patterns("[CPL-Iter:1-x-<token=a,b>-grant from _\t2\tsupport by _\t4, OE-Iter:2-x]", 9) == [
        "support by", "grant from",
    ]  # fmt: skip
    assert patterns("[SEAL-Iter:215-x-<token=a,b>-From:y]", 9) is None


@pytest.fixture
def openke(tmp_path):
    (tmp_path / "entity2id.txt").write_text("3\nNew York\t0\nb\t2\na\t1\n")
    (tmp_path / "relation2id.txt").write_text("1\nr\t0\n")
    (tmp_path / "train2id.txt").write_text("2\n1 2 0\n0 1 0\n")
    return tmp_path


def test_openke_folders(openke):
    assert files.dataset(openke).train == openke / "train2id.txt"
    table = files.read_frame(openke / "train2id.txt")
    assert table.rows() == [(2, "a", "r", "b"), (3, "New York", "r", "a")]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train2id.txt", "2\n1 2 0\n0 3 0\n", "train2id.txt, line 3: the tail is '3'; expected a number from 0 to 2"),
        ("train2id.txt", "2\n1 2 0\n0 -1 0\n", "line 3: the tail is '-1'"),
        ("train2id.txt", "2\n1 2 0\n0 x 0\n", "line 3: the tail is 'x'"),
        ("train2id.txt", "3\n1 2 0\n0 1 0\n", "line 1: it says that 3 lines follow, but there are 2"),
        ("train2id.txt", "two\n1 2 0\n", "line 1: 'two'; expected the number of lines that follow"),
        ("train2id.txt", "1\n1 2 0 7\n", "line 2: 4 fields; expected: head tail relation"),
        ("entity2id.txt", "2\na\t0\nb\t5\n", "entity2id.txt, line 3: the number 5"),
        ("entity2id.txt", "2\na\t0\nb\tx\n", "entity2id.txt, line 3: expected the name and number of an entity"),
    ],
)
def test_faulty_openke_files(openke, file, content, message):
    (openke / file).write_text(content)
    with pytest.raises(DoxaError) as fault:
        files.read_frame(openke / "train2id.txt")
    assert message in str(fault.value)


def test_numbers_out_of_range_can_be_skipped(openke, caplog):
    (openke / "train2id.txt").write_text("2\n1 2 0\n0 3 0\n")
    with caplog.at_level(logging.WARNING):
        assert len(files.read_frame(openke / "train2id.txt", on_error="skip")) == 1
    assert "skipped 1 of 2 lines" in caplog.text


def test_a_triples_factory_of_pykeen(tmp_path):
    for name, text in {
        "entity_to_id": "id\tlabel\n0\ta\n1\tb\n2\tc é\n",
        "relation_to_id": "id\tlabel\n0\tr\n1\ts\n",
        "numeric_triples": "head\trelation\ttail\n0\t0\t1\n1\t1\t2\n",
    }.items():
        (tmp_path / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    train = files.dataset(tmp_path).train
    assert files.read_frame(train).select("head", "relation", "tail").rows() == [("a", "r", "b"), ("b", "s", "c é")]


TURTLE = """@prefix ex: <http://example.org/> .
ex:Lyon ex:in ex:France {| ex:confidence 0.9 ; ex:source ex:web |} .
<< ex:Paris ex:in ex:France >> ex:certainty "0.5" .
ex:Lyon ex:label "Lyon"@fr ; a ex:City .
"""


def test_annotations_of_turtle_become_confidence(tmp_path, caplog):
    path = tmp_path / "b.ttl"
    path.write_text(TURTLE)
    with caplog.at_level(logging.WARNING):
        table = files.read_frame(path).select("head", "relation", "tail", "confidence")
    assert sorted(table.rows()) == [
        ("ex:Lyon", "ex:in", "ex:France", 0.9),
        ("ex:Lyon", "ex:label", '"Lyon"@fr', None),
        ("ex:Lyon", "rdf:type", "ex:City", None),
        ("ex:Paris", "ex:in", "ex:France", 0.5),
    ]
    assert "1 tails are literals" in caplog.text
    assert "1 annotations are neither confidence nor mention" in caplog.text
    assert "1 annotated statements are missing or far away" in caplog.text
    assert len(files.read_frame(path, options=Options(literals="drop"))) == 3


def test_annotations_are_found_across_blocks_and_in_any_order(tmp_path, monkeypatch):
    monkeypatch.setattr("doxa.formats.packing.BLOCK", 200)
    monkeypatch.setattr("doxa.formats.statements.PENDING", 2)
    lines = [f"<http://e/{i}> <http://e/r> <http://e/x> ." for i in range(20)]
    reified = (
        "_:z <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( <http://e/7> <http://e/r> <http://e/x> )>> ."
    )
    value = '_:z <http://e/confidence> "0.25" .'
    for place in (0, 7, 8):
        path = tmp_path / f"{place}.nt"
        path.write_text("\n".join([*lines[:place], reified, value, *lines[place:]]))
        table = files.read_frame(path)
        assert len(table) == 20
        assert dict(table.select("head", "confidence").drop_nulls().rows()) == {"http://e/7": 0.25}


def test_names_are_restored_with_their_prefixes(tmp_path):
    (tmp_path / "a.ttl").write_text(
        "@prefix ex: <http://example.org/> .\nex:a ex:r <http://www.wikidata.org/entity/Q1> .\n"
    )
    options = Options()
    tables = list(files.blocks(tmp_path / "a.ttl", options=options))
    assert tables[0].select("head", "tail").rows() == [("ex:a", "wd:Q1")]
    files.write_frames(tables, tmp_path / "a.nt", options)
    text = (tmp_path / "a.nt").read_text()
    assert text == "<http://example.org/a> <http://example.org/r> <http://www.wikidata.org/entity/Q1> .\n"
    parsed = Options().parse(["prefix=x=http://example.org/"])
    assert files.read_frame(tmp_path / "a.nt", options=parsed)["head"][0] == "x:a"
    beliefs = doxa.read(tmp_path / "a.nt", prefixes={"y": "http://example.org/"})
    assert beliefs.vocabularies.entities.names.to_list() == ["y:a", "wd:Q1"]
