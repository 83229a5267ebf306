"""The formats, and which of them a file has: by its ending, its name or its first line."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, cast

import polars as pl

from doxa.errors import BadFile, UsageError, did_you_mean
from doxa.formats.faults import Faults
from doxa.formats.options import Options
from doxa.formats.packing import PACKINGS, STANDARD, Source


class Format(Protocol):
    """The interface of every format's module. A module that only reads has no `write`."""

    UNIT: str
    HOLDS: tuple[str, ...]

    def blocks(self, source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
        """Frames with the columns line, head, relation, tail and, where present, mention, confidence, label."""

    def write(self, tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
        """Write frames of beliefs to the file `place`; `name` is the file's final name."""


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
"""Name, module and endings of every format; files are written with the first ending."""

FOLDERS = ("openke",)
"""Formats that write a folder."""

ENDINGS = tuple(
    ending for name, (_, endings) in FORMATS.items() if name not in ("openke", "pykeen") for ending in endings
)

TABULAR = ("tsv", "csv", "jsonl", "parquet")
"""Formats that hold any column of a frame."""


def module_of(name: str) -> Format:
    """The module of a format."""
    return cast(Format, importlib.import_module(f"doxa.formats.{FORMATS[name][0]}"))


def is_tabular(path: str | Path) -> bool:
    """Whether a file to write can hold columns beyond those of beliefs."""
    return format_to_write(path) in TABULAR


def is_rdf(path: str | Path, form: str = "") -> bool:
    """Whether a file is to be written as RDF."""
    return FORMATS[format_to_write(path, form)][0] == "rdf"


def format_by_ending(path: str | Path) -> str | None:
    """The format of a file by its longest known ending, `.gz` and `.zst` aside."""
    name = Path(path).name
    name = name.removesuffix(next(filter(name.endswith, PACKINGS), "")).lower()
    endings = [(len(ending), form) for form, (_, known) in FORMATS.items() for ending in known if name.endswith(ending)]
    return max(endings)[1] if endings else None


def format_to_read(source: Source, form: str = "") -> str:
    """The format to read a file in: `form` if set, else by its ending or the first line of a NELL dump, else TSV."""
    if form:
        return _known(form)
    form = format_by_ending(source.name) or "tsv"
    if form in ("tsv", "csv") and source.path.is_file():
        start = next(source.pieces(), b"")[:40].lower()
        if start.startswith((b"entity\trelation\tvalue", b"\xef\xbb\xbfentity\trelation\tvalue")):
            return "nell"
    return form


def format_to_write(path: str | Path, form: str = "") -> str:
    """The format to write a file in: `form` if set, else by its ending; standard output is TSV."""
    if form:
        form = _known(form)
    elif str(path) == STANDARD:
        form = "tsv"
    else:
        form = format_by_ending(path) or "tsv"
        if form == "tsv" and Path(path).suffix == "" and Path(path).is_dir():
            raise BadFile(f"cannot write {path}: it is a folder")
    if form == "pykeen":
        raise UsageError("PyKEEN's binary files are read, not written", "write .tsv, which PyKEEN reads")
    return form


def _known(name: str) -> str:
    if name not in FORMATS:
        raise UsageError(f"no format {name!r}.{did_you_mean(name, FORMATS)}", f"formats: {', '.join(FORMATS)}")
    return name
