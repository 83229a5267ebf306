"""Which format a file has, by its ending, its name or its first line."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, cast

import polars as pl

from doxa.errors import DoxaError, UsageError, did_you_mean
from doxa.formats.faults import Faults
from doxa.formats.options import Options
from doxa.formats.packing import PACKINGS, STANDARD, Source


class Format(Protocol):
    """What every format's module offers. One that only reads has no `write`."""

    UNIT: str
    HOLDS: tuple[str, ...]

    def blocks(self, source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
        """Tables with the columns line, head, relation, tail and, where given, mention, confidence, label."""

    def write(self, tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
        """Write tables of beliefs at a place; `name` is what the file will be called."""


FORMATS = {
    "tsv": ("tsv", (".tsv", ".txt")),
    "csv": ("csv", (".csv",)),
    "jsonl": ("jsonl", (".jsonl", ".ndjson")),
    "parquet": ("parquet", (".parquet", ".pq")),
    "nt": ("rdf", (".nt",)),
    "nq": ("rdf", (".nq",)),
    "ttl": ("rdf", (".ttl",)),
    "rdf": ("rdf", (".rdf", ".owl", ".xml")),
    "nell": ("nell", (".esv", ".esv.csv", ".nell")),
    "openke": ("openke", ("2id.txt",)),
    "pykeen": ("pykeen", ("numeric_triples.tsv",)),
}
"""Name, module and endings of every format; the first ending is the one to write."""

FOLDERS = ("openke",)
"""Formats that write a folder."""

ENDINGS = tuple(
    ending for name, (_, endings) in FORMATS.items() if name not in ("openke", "pykeen") for ending in endings
)


def module_of(name: str) -> Format:
    """The module of a format."""
    return cast(Format, importlib.import_module(f"doxa.formats.{FORMATS[name][0]}"))


TABULAR = ("tsv", "csv", "jsonl", "parquet")
"""Formats that hold whatever columns a table has."""


def tabular(path: str | Path) -> bool:
    """Whether a file to write can hold columns of its own."""
    return to_write(path) in TABULAR


def bare(path: str | Path) -> str:
    """The name of a file without .gz or .zst."""
    name = Path(path).name
    return name.removesuffix(next(filter(name.endswith, PACKINGS), ""))


def by_ending(path: str | Path) -> str | None:
    """The format a name tells, by its longest known ending."""
    name = bare(path).lower()
    endings = [(len(ending), form) for form, (_, known) in FORMATS.items() for ending in known if name.endswith(ending)]
    return max(endings)[1] if endings else None


def named(name: str) -> str:
    """A format by the name given for it."""
    if name not in FORMATS:
        raise UsageError(f"no format {name!r}.{did_you_mean(name, FORMATS)}", f"formats: {', '.join(FORMATS)}")
    return name


def format_of(source: Source, told: str = "") -> str:
    """The format to read a file in: as told, by its ending, as a NELL dump by its first line, else TSV."""
    if told:
        return named(told)
    found = by_ending(source.name) or "tsv"
    if found in ("tsv", "csv") and source.path.is_file():
        start = next(source.pieces(), b"")[:40].lower()
        if start.startswith((b"entity\trelation\tvalue", b"\xef\xbb\xbfentity\trelation\tvalue")):
            return "nell"
    return found


def to_write(path: str | Path, told: str = "") -> str:
    """The format to write a file in: as told or by its ending; standard output is TSV."""
    if told:
        found = named(told)
    elif str(path) == STANDARD:
        found = "tsv"
    else:
        found = by_ending(path) or "tsv"
        if found == "tsv" and Path(path).suffix == "" and Path(path).is_dir():
            raise DoxaError(f"cannot write {path}: it is a folder")
    if found == "pykeen":
        raise UsageError("PyKEEN's own files are read, not written", "write .tsv, which PyKEEN reads")
    return found
