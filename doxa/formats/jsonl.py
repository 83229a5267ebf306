"""JSON Lines: an object a line, with the keys head, relation, tail and, where given, mention, confidence, label."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from doxa.errors import DoxaError
from doxa.formats import packing
from doxa.formats.columns import COLUMNS, TRIPLE, chosen
from doxa.formats.faults import Faults
from doxa.formats.options import Options
from doxa.formats.packing import Source

UNIT = "line"
HOLDS = COLUMNS

EXPECTED = 'expected: {"head": "Lyon", "relation": "located in", "tail": "France", "mention": "…", "confidence": 0.9}'

LINES = 50_000
"""Lines decoded at a time."""


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Tables with a line number and named columns; numbers are still what they were."""
    names: dict[str, str] = {}
    before = 0
    for text in source.texts():
        lines = text.removesuffix(b"\n").split(b"\n")
        for start in range(0, len(lines), LINES):
            found = list(_objects(lines[start : start + LINES], before + start, faults))
            if not found:
                continue
            if not names:
                names = _names(source, found[0][1], options)
            yield _table(found, names, faults)
        before += len(lines)


def write(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    """What a belief lacks is left out of its object."""
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
            found = json.loads(line)
        except UnicodeDecodeError:
            faults.report([number], "not UTF-8 text", "convert the file, e.g. `iconv -f latin1 -t utf-8`")
        except (ValueError, RecursionError) as fault:
            faults.report([number], f"not JSON ({fault})", EXPECTED)
        else:
            if isinstance(found, dict):
                yield number, found
            else:
                faults.report([number], f"a JSON {type(found).__name__}, not an object", EXPECTED)


def _names(source: Source, first: dict[str, Any], options: Options) -> dict[str, str]:
    """Keys and the columns they are: those of the first object, and the optional ones found anywhere in the file."""
    optional = [name for name in COLUMNS if name not in TRIPLE]
    present = source.mentions(*(f'"{name}"'.encode() for name in optional))
    keys = dict.fromkeys([*first, *(name for name, found in zip(optional, present, strict=True) if found)])
    try:
        return chosen(list(keys), f"{source.name}, line 1", options.columns)
    except DoxaError as fault:
        raise DoxaError(str(fault), EXPECTED) from None


def _table(found: list[tuple[int, dict[str, Any]]], names: dict[str, str], faults: Faults) -> pl.DataFrame:
    """A table of these objects; what is of the wrong kind for its column is a fault."""
    strange = []
    for number, row in found:
        for key, ours in names.items():
            value = row.get(key)
            wrong = (bool, list, dict) if ours in ("confidence", "label") else (bool, float, list, dict)
            if isinstance(value, wrong) or _surrogate(value):
                faults.report([number], f"the {ours} is {json.dumps(value)[:40]}", EXPECTED)
                strange.append(number)
                break
    if strange:
        dropped = set(strange)
        found = [pair for pair in found if pair[0] not in dropped]
    columns = [pl.Series("line", [number for number, _ in found], dtype=pl.Int64)]
    for key, ours in names.items():
        values = [row.get(key) for _, row in found]
        text = [value if value is None or isinstance(value, str) else repr(value) for value in values]
        columns.append(pl.Series(ours, text, dtype=pl.String).replace("", None))
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
