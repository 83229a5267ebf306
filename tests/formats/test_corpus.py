"""Malformed files, from fuzzing or by hand: every reader reads them or raises a `DoxaError`."""

import pytest

from doxa.formats.registry import FORMATS
from tests.formats.fuzz import CORPUS, attempt

MALFORMED = [
    b"",
    b"\n",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r\r\r",
    b"\t\t\n",
    b"a\tr\tb\x00\n",
    b"a\rr\rb\r",
    b'"',
    b'"a,r,b\n',
    b"head\trelation\ttail\n",
    b"head,relation,tail\n,,\n",
    b"{}\n",
    b"[]\n",
    b"{" * 5000,
    b"[" * 50000,
    b'{"head": 1e999, "relation": null, "tail": NaN}\n',
    b'{"head": "a", "relation": "r", "tail": "b", "confidence": "1_0"}\n',
    b"PAR1PAR1",
    b"PAR1" + b"\xff" * 100 + b"PAR1",
    b"\x1f\x8b\x08\x00",
    b"\x28\xb5\x2f\xfd\x00",
    b"<a> <b> <c> .\n",
    b'<x:a> <x:b> "\\uD800" .\n',
    b"<x:a> <x:b> <<( <x:a> <x:b> <<( <x:a> <x:b> <x:c> )>> )>> .\n",
    b"_:r <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( <x:a> <x:b> <x:c> )>> .\n"
    b'_:r <x:confidence> "lots" .\n',
    b"@prefix : <http://e/> . :a :b ( 1 2 [ :c :d ] ) {| :confidence :x |} .",
    b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><rdf:RDF/>",
    b"Entity\tRelation\tValue\n",
    b"Entity\tRelation\tValue\tProbability\tCandidate Source\na\tb\tc\t[]\t%ff%5BCPL-Iter%3A1-%3Ctoken%3D%3E-\n",
    b"1\n0 0 0\n",
    b"99999999999999999999\n0 0 0\n",
    b"1\n9223372036854775808 0 0\n",
]


@pytest.mark.parametrize("form", FORMATS)
def test_malformed_files_are_read_or_refused(tmp_path, form):
    name = {"openke": "train2id.txt", "pykeen": "numeric_triples.tsv"}.get(form, f"malformed.{form}")
    for content in MALFORMED:
        fault = attempt(form, name, content, tmp_path)
        assert fault is None, (content[:80], fault)


def test_cases_from_fuzzing_stay_fixed(tmp_path):
    for case in sorted(path for path in CORPUS.iterdir() if not path.name.startswith(".")):
        form, _, name = case.name.split("-", 2)
        fault = attempt(form, name, case.read_bytes(), tmp_path)
        assert fault is None, (case, fault)
