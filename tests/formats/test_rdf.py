"""RDF: names do not depend on blocks or on chance, annotations survive block ends, IRIs are recognized by a model."""

import polars as pl
import pytest

import doxa
from doxa import formats as files
from doxa.formats import rdf

PREFIX = "@prefix ex: <http://example.org/> .\n"
ANONYMOUS = PREFIX + 'ex:a ex:knows [ ex:name "B" ; ex:knows [ ex:in ex:c ] ] . ex:d ex:list ( ex:e _:x ) .\n'


def triples(path, **options):
    return files.read_frame(path, options=files.Options(**options)).select("head", "relation", "tail").rows()


def test_anonymous_nodes_have_the_same_names_each_time(tmp_path):
    for name in ("a.ttl", "b.ttl"):
        (tmp_path / name).write_text(ANONYMOUS)
    first = triples(tmp_path / "a.ttl")
    assert first == triples(tmp_path / "a.ttl") == triples(tmp_path / "b.ttl")
    nodes = {part for row in first for part in row if part.startswith("_:")}
    assert len(nodes) == 5
    assert "_:x" in nodes
    (tmp_path / "b.ttl").write_text(ANONYMOUS + "ex:z ex:r ex:y .\n")
    other = {part for row in triples(tmp_path / "b.ttl") for part in row if part.startswith("_:")}
    assert nodes & other == {"_:x"}


def test_anonymous_nodes_of_xml_have_the_same_names_each_time(tmp_path):
    (tmp_path / "a.rdf").write_text(
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/"><rdf:Description>'
        '<e:r rdf:nodeID="abcdef0123456789abcdef0123456789"/></rdf:Description></rdf:RDF>'
    )
    (row,) = triples(tmp_path / "a.rdf")
    assert [row] == triples(tmp_path / "a.rdf")
    assert row[0].startswith("_:anon")
    assert row[2] == "_:abcdef0123456789abcdef0123456789"


@pytest.mark.parametrize("block", [3, 100_000])
def test_an_iri_has_one_name_in_all_blocks(tmp_path, monkeypatch, block):
    monkeypatch.setattr(rdf, "STATEMENTS", block)
    statements = "".join(f"<http://late.org/a> ex:r ex:t{number} .\n" for number in range(8))
    late = "@prefix late: <http://late.org/> .\nlate:a ex:s ex:u .\n"
    (tmp_path / "a.ttl").write_text(PREFIX + statements + late)
    heads = {head for head, _, _ in triples(tmp_path / "a.ttl")}
    assert heads == {"http://late.org/a"}


@pytest.mark.parametrize("block", [2, 100_000])
def test_xml_round_trips_alike_above_and_below_the_size_of_a_block(tmp_path, monkeypatch, block):
    monkeypatch.setattr(rdf, "STATEMENTS", block)
    (tmp_path / "a.ttl").write_text(PREFIX + "".join(f"ex:a{number} ex:r ex:b .\n" for number in range(7)))
    options = files.Options()
    table = files.read_frame(tmp_path / "a.ttl", options=options)
    files.write(table, tmp_path / "a.rdf", prefixes=options.prefixes)
    assert triples(tmp_path / "a.rdf") == [(f"ex:a{number}", "ex:r", "ex:b") for number in range(7)]


@pytest.mark.parametrize(("ending", "block"), [*(("ttl", size) for size in range(100, 104)), ("nt", 150), ("nt", 151)])
def test_annotations_survive_the_ends_of_blocks(tmp_path, monkeypatch, ending, block):
    monkeypatch.setattr(rdf, "STATEMENTS", block)
    monkeypatch.setattr("doxa.formats.packing.BLOCK", block * 100)
    table = pl.DataFrame(
        {
            "head": [f"h{number}" for number in range(300)],
            "relation": "r",
            "tail": [f'"{number}"@en' for number in range(300)],
            "mention": [f"m{number}" for number in range(300)],
            "confidence": [(number + 1) / 300 for number in range(300)],
        }
    )
    files.write(table, tmp_path / f"a.{ending}")
    assert files.read_frame(tmp_path / f"a.{ending}").drop("line").rows() == table.rows()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("iris")
    rows = "".join(f"ex:e{number} ex:next ex:e{(number + 1) % 6} .\n" for number in range(6))
    (folder / "a.ttl").write_text(PREFIX + rows)
    doxa.fit(doxa.read(folder / "a.ttl"), epochs=1, dimension=4, score="translation").save(folder / "model")
    return doxa.load(folder / "model")


def test_a_model_recognizes_whole_iris_and_keeps_them(model, tmp_path):
    assert model.vocabularies.prefixes == {"ex": "http://example.org/"}
    short = model.tails("ex:e0", "ex:next", top=3)
    for spelling in ("{}", "<{}>"):
        names = [spelling.format(f"http://example.org/{name}") for name in ("e0", "next")]
        answer = model.tails(*names, top=3)
        assert answer.answers == short.answers
        assert answer.question[:2] == tuple(names)
    (tmp_path / "b.nt").write_text("<http://example.org/e1> <http://example.org/next> <http://example.org/e2> .\n")
    (tmp_path / "b.ttl").write_text("@prefix o: <http://example.org/> . o:e1 o:next o:e2 .\n")
    for name, head in (("b.nt", "http://example.org/e1"), ("b.ttl", "o:e1")):
        judgment = model.judge(doxa.read(tmp_path / name))
        assert judgment.known.all()
        assert judgment.to_frame()["head"].to_list() == [head]
    with pytest.raises(doxa.errors.UnknownName):
        model.tails("http://example.org/nowhere", "ex:next")
