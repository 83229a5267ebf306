"""Fuzz every reader: `make fuzz`. A reader reads a file or refuses it with a `DoxaError`, whatever the file holds.

Valid files of each format are damaged at random; a case that ends in anything but a `DoxaError` is
kept in tests/formats/corpus, which the tests run through every reader.
"""

import argparse
import gzip
import hashlib
import logging
import random
import tempfile
import time
from pathlib import Path

import polars as pl
import zstandard

from doxa import formats as files
from doxa.errors import DoxaError
from doxa.formats.registry import FORMATS

CORPUS = Path(__file__).with_name("corpus")

TOKENS = [
    b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\t", b"\t\t\t", b'"', b'""', b"'",
    b"\\", b"\\u", b"\\ud800", b"\\U00110000", b"<", b">", b"<<", b"<<(", b")>>", b"{|", b"|}", b"_:", b"@", b"^^",
    b"@prefix", b"%", b"%zz", b"%20", b"%ff", b"nan", b"inf", b"-1", b"1e999", b"0", b"[", b"]", b"{", b"}",
    b"null", b"true", b"head", b"label", b"confidence", b"mention", b",", b";", b"|", b" ", b".", b"urn:doxa:",
    b"\xc2\x85", b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80", b"9" * 30, b"CPL-Iter:", b"<token=", b"&#x0;", b"&bad;",
    b"<rdf:li>", b"-->", b"]]>",
]  # fmt: skip


def seeds():
    """A small valid file of every format, plain and compressed."""
    table = pl.DataFrame(
        {
            "head": ["a", "New York", "dbr:Lyon", "é"],
            "relation": ["r", "located in", "dbo:country", "r"],
            "tail": ["b", "USA", '"Lyon"@fr', "_:b1"],
            "mention": ["text", None, "is in", "x y"],
            "confidence": [0.5, 1.0, None, 0.25],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        for form, (_, endings) in FORMATS.items():
            if form in ("openke", "pykeen"):
                continue
            path = Path(folder) / f"seed{endings[0]}"
            files.write(table if form != "rdf" else table.select("head", "relation", "tail"), path)
            yield form, path.name, path.read_bytes()
            yield form, f"{path.name}.gz", gzip.compress(path.read_bytes())
            yield form, f"{path.name}.zst", zstandard.compress(path.read_bytes())
    yield "openke", "train2id.txt", b"2\n1 2 0\n0 1 0\n"
    yield "openke", "entity2id.txt", b"3\na\t0\nb\t1\nc d\t2\n"
    yield "openke", "relation2id.txt", b"1\nr\t0\n"
    yield "pykeen", "numeric_triples.tsv.gz", gzip.compress(b"head\trelation\ttail\n0\t0\t1\n")


def damaged(content, chance):
    """The content after one to four random changes."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            changed[place:place] = chance.choice(TOKENS)
        elif kind == 1:
            del changed[place : place + chance.randint(1, 12)]
        elif kind == 2 and place < len(changed):
            changed[place] = chance.randrange(256)
        elif kind == 3:
            del changed[place:]
        elif kind == 4:
            other = chance.randrange(len(changed) + 1)
            changed[place:place] = changed[other : other + chance.randint(1, 60)]
        else:
            changed[place : place + chance.randint(0, 6)] = chance.choice(TOKENS)
    return bytes(changed)


def attempt(form, name, content, folder):
    """Read a file with this content in this format, with both error rules; returns an unexpected exception or None."""
    beside = {"entity2id.txt": b"3\na\t0\nb\t1\nc\t2\n", "relation2id.txt": b"1\nr\t0\n", "train2id.txt": b"1\n0 1 0\n"}
    beside |= {"entity_to_id.tsv.gz": gzip.compress(b"id\tlabel\n0\ta\n1\tb\n"),
               "relation_to_id.tsv.gz": gzip.compress(b"id\tlabel\n0\tr\n")}  # fmt: skip
    for other, plain in beside.items():
        (folder / other).write_bytes(plain)
    (folder / name).write_bytes(content)
    path = folder / ("train2id.txt" if form == "openke" else name)
    for on_error in ("raise", "skip"):
        try:
            table = files.read_frame(path, on_error, options=files.Options(format=form))
            assert table.columns[:1] == ["line"]
            assert not table.select("head", "relation", "tail").null_count().sum_horizontal().item()
        except DoxaError:
            continue
        except Exception as fault:
            return fault
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else time.time_ns() % 2**32
    chance = random.Random(seed)
    logging.getLogger("doxa").setLevel(logging.ERROR)
    whole = list(seeds())
    end, runs, faults = time.monotonic() + 60 * arguments.minutes, dict.fromkeys(FORMATS, 0), {}
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            form, name, content = chance.choice(whole)
            content = damaged(content, chance)
            fault = attempt(form, name, content, Path(folder))
            runs[form] += 1
            if fault is not None:
                key = f"{form} {type(fault).__name__} {str(fault)[:60]}"
                if key not in faults:
                    faults[key] = fault
                    kept = CORPUS / f"{form}-{hashlib.sha256(content).hexdigest()[:12]}-{name}"
                    kept.write_bytes(content)
                    print(f"{kept}: {type(fault).__name__}: {str(fault)[:160]}", flush=True)
    counts = ", ".join(f"{form} {count:,}" for form, count in runs.items())
    print(f"seed {seed}: {sum(runs.values()):,} files ({counts}); {len(faults)} different faults")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
