"""Bounds on files: small hostile files are refused before they fill the memory, and a setting raises each bound."""

import gzip
from itertools import pairwise

import pytest
import zstandard

import doxa
from doxa.errors import BadFile, UsageError
from doxa.formats import limits, packing

ROW = b"a\tr\tb\n"


def refused(path, variable):
    with pytest.raises(BadFile, match=variable) as fault:
        doxa.read(path)
    return str(fault.value)


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_a_line_of_many_fields_is_refused(tmp_path, ending, monkeypatch):
    path = tmp_path / f"wide.{ending}"
    separator = b"\t" if ending == "tsv" else b","
    path.write_bytes(separator.join([b"head", b"relation", b"tail", *(b"x%d" % n for n in range(1000))]) + b"\n")
    assert "1,003 fields" in refused(path, "DOXA_MAX_FIELDS")
    path.write_bytes(path.read_bytes() + separator.join([b"v"] * 1003) + b"\n")
    monkeypatch.setenv("DOXA_MAX_FIELDS", "1003")
    assert len(doxa.read(path)) == 1


def test_ten_million_tabs_are_refused(tmp_path):
    (tmp_path / "tabs.tsv").write_bytes(b"\t" * 10_000_000)
    assert "10,000,001 fields" in refused(tmp_path / "tabs.tsv", "DOXA_MAX_FIELDS")


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "nt"])
def test_a_long_line_is_refused(tmp_path, ending, monkeypatch):
    path = tmp_path / f"long.{ending}"
    path.write_bytes(b"a" * 17 * 2**20)
    refused(path, "DOXA_MAX_LINE")
    monkeypatch.setenv("DOXA_MAX_LINE", str(2**30))
    with pytest.raises(BadFile) as fault:
        doxa.read(path)
    assert "DOXA_MAX_LINE" not in str(fault.value)


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("content", [ROW, b"a", b"\n"])
def test_a_compressed_bomb_is_refused(tmp_path, ending, content, monkeypatch):
    monkeypatch.setattr(limits, "ALLOWANCE", 2**20)
    plain = content * (40 * 2**20 // len(content))
    path = tmp_path / f"bomb.tsv.{ending}"
    path.write_bytes(gzip.compress(plain) if ending == "gz" else zstandard.compress(plain))
    refused(path, "DOXA_MAX_RATIO")
    if content == ROW:
        monkeypatch.setenv("DOXA_MAX_RATIO", "1000000")
        path.write_bytes(gzip.compress(ROW * 400_000) if ending == "gz" else zstandard.compress(ROW * 400_000))
        assert len(doxa.read(path)) == 400_000


def test_few_compressed_bytes_are_unpacked_at_a_time(tmp_path):
    path = tmp_path / "bomb.tsv.zst"
    compressor = zstandard.ZstdCompressor().compressobj()
    path.write_bytes(b"".join([compressor.compress(b"\n" * 2**20) for _ in range(300)] + [compressor.flush()]))
    lengths = []
    with packing.source(path) as source, pytest.raises(BadFile, match="DOXA_MAX_RATIO"):
        lengths.extend(map(len, source.pieces()))
    assert max(lengths, default=0) < 150 * 2**20


def test_a_bound_that_is_no_number_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.tsv").write_bytes(ROW)
    monkeypatch.setenv("DOXA_MAX_FIELDS", "many")
    with pytest.raises(UsageError, match="DOXA_MAX_FIELDS is 'many'"):
        doxa.read(tmp_path / "a.tsv")


def xml(entities, text):
    declared = "".join(f'<!ENTITY {name} "{value}">' for name, value in entities)
    return (
        f'<?xml version="1.0"?><!DOCTYPE rdf:RDF [{declared}]>'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
        f'<rdf:Description rdf:about="http://e/a"><e:r>{text}</e:r></rdf:Description></rdf:RDF>'
    ).encode()


def test_an_entity_bomb_is_refused(tmp_path, monkeypatch):
    names = [f"e{number}" for number in range(10)]
    nested = [("e0", "lol"), *((name, f"&{before};" * 10) for before, name in pairwise(names))]
    path = tmp_path / "bomb.rdf"
    path.write_bytes(xml(nested, "&e9;"))
    assert len(path.read_bytes()) < 1000
    refused(path, "DOXA_MAX_ENTITY_RATIO")
    path.write_bytes(xml([("one", "x" * 1000)], "&one;" * 100_000))  # each is small, but there are many
    refused(path, "DOXA_MAX_ENTITY_RATIO")
    path.write_bytes(xml(nested[:5], "&e4;&lt;"))
    assert doxa.read(path).to_frame()["tail"][0] == '"' + "lol" * 10_000 + '<"'
    path.write_bytes(xml(nested[:7], "&e6;"))
    monkeypatch.setenv("DOXA_MAX_ENTITY_RATIO", "100000")
    assert len(doxa.read(path).to_frame()["tail"][0]) == 3_000_002


def test_an_error_while_a_plain_file_is_used_stays_what_it_is(tmp_path):
    (tmp_path / "b.tsv").write_bytes(ROW)
    with (
        pytest.raises(OSError, match="no process") as fault,
        packing.source(tmp_path / "b.tsv") as origin,
        packing.unpacked(origin),
    ):
        raise OSError(11, "no process can be started")
    assert fault.value.errno == 11
