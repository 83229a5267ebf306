"""JSON Lines: one object per line, with the keys head, relation, tail and optionally mention, confidence, label."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from doxa.data.columns import COLUMNS, TRIPLE
from doxa.errors import BadFile
from doxa.formats import packing
from doxa.formats.columns import match_columns
from doxa.formats.faults import NOT_UTF8, Faults
from doxa.formats.options import Options
from doxa.formats.packing import Source

UNIT = "line"
HOLDS = COLUMNS

EXPECTED = 'expected: {"head": "Lyon", "relation": "located in", "tail": "France", "mention": "…", "confidence": 0.9}'

LINES = 50_000
"""Lines per block."""


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Frames with a line number and named columns, all text."""
    names: dict[str, str] = {}
    before = 0
    for text in source.texts():
        lines = text.removesuffix(b"\n").split(b"\n")
        for start in range(0, len(lines), LINES):
            objects = list(_objects(lines[start : start + LINES], before + start, faults))
            if not objects:
                continue
            if not names:
                names = _names(source, objects[0][1], options)
            yield _table(objects, names, faults)
        before += len(lines)


def write(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    """An object has no key for a value that its belief lacks."""
    with packing.sink(place, name) as file:
        for table in tables:
            for row in table.iter_rows(named=True):
                kept = {key: value for key, value in row.items() if value is not None}
                file.write(json.dumps(kept, ensure_ascii=False).encode() + b"\n")


def _objects(lines: list[bytes], before: int, faults: Faults) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=before + 1):
        if not line or line.isspace():
            continue
        try:
            value = json.loads(line)
        except UnicodeDecodeError:
            faults.report([number], "not UTF-8 text", NOT_UTF8)
        except (ValueError, RecursionError) as fault:
            faults.report([number], f"not JSON ({fault})", EXPECTED)
        else:
            if isinstance(value, dict):
                yield number, value
            else:
                faults.report([number], f"a JSON {type(value).__name__}, not an object", EXPECTED)


def _names(source: Source, first: dict[str, Any], options: Options) -> dict[str, str]:
    """The column of each key: keys of the first object, and optional ones from anywhere in the file."""
    optional = [name for name in COLUMNS if name not in TRIPLE]
    present = source.contains(*(f'"{name}"'.encode() for name in optional))
    keys = dict.fromkeys([*first, *(name for name, occurs in zip(optional, present, strict=True) if occurs)])
    try:
        return match_columns(list(keys), f"{source.name}, line 1", options.columns)
    except BadFile as fault:
        raise BadFile(fault.message, EXPECTED, *fault.hints, remedy=fault.remedy) from None


def _table(objects: list[tuple[int, dict[str, Any]]], names: dict[str, str], faults: Faults) -> pl.DataFrame:
    """A frame of these objects; a value of the wrong type for its column is a fault."""
    faulty: set[int] = set()
    for number, row in objects:
        for key, column in names.items():
            value = row.get(key)
            wrong = (bool, list, dict) if column in ("confidence", "label") else (bool, float, list, dict)
            if isinstance(value, wrong) or _surrogate(value):
                faults.report([number], f"the {column} is {json.dumps(value)[:40]}", EXPECTED)
                faulty.add(number)
                break
    if faulty:
        objects = [pair for pair in objects if pair[0] not in faulty]
    columns = [pl.Series("line", [number for number, _ in objects], dtype=pl.Int64)]
    for key, column in names.items():
        values = [row.get(key) for _, row in objects]
        text = [value if value is None or isinstance(value, str) else repr(value) for value in values]
        columns.append(pl.Series(column, text, dtype=pl.String).replace("", None))
    return pl.DataFrame(columns)


def _surrogate(value: Any) -> bool:
    """Whether a text holds half a character, which JSON can write but UTF-8 cannot."""
    if not isinstance(value, str) or value.isascii():
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False
