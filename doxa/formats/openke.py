"""OpenKE's folders: entity2id.txt and relation2id.txt (names and numbers), train2id.txt and so on (head tail relation).

Every file begins with how many lines follow.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl

from doxa.data.vocabulary import VocabularyBuilder
from doxa.errors import DoxaError
from doxa.formats.columns import TRIPLE
from doxa.formats.faults import Faults
from doxa.formats.numbered import delimiter_of, listed, looked_up
from doxa.formats.options import Options
from doxa.formats.packing import Source
from doxa.formats.tsv import Fields

log = logging.getLogger(__name__)

UNIT = "line"
HOLDS = TRIPLE
ORDER = {"c0": "head", "c1": "tail", "c2": "relation"}


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Tables with a line number and names in place of numbers."""
    names = {}
    for what in ("entity", "relation"):
        path = source.path.with_name(f"{what}2id.txt")
        names[what] = listed(Source(path, str(path)), f"an {what}"[what == "relation" :], "c0", "c1", passed=1)
    announced, found, nameless = _announced(source), 0, 0
    for table in Fields(source, delimiter_of(source, 1), faults, lambda fields: False, passed=1):
        if table.width != 4:
            raise DoxaError(f"{source.name}, line 2: {table.width - 1} fields; expected: head tail relation, by number")
        found += len(table)
        before = faults.count
        known = looked_up(table.rename(ORDER).select("line", *TRIPLE), names, faults)
        nameless += faults.count - before
        yield known
    if announced != found + faults.count - nameless:
        faults.report([1], f"it says that {announced:,} lines follow, but there are {found:,}")


def _announced(source: Source) -> int:
    line = next(source.texts(), b"").partition(b"\n")[0].strip()
    if not line.isdigit():
        raise DoxaError(
            f"{source.name}, line 1: {line[:40].decode(errors='replace')!r}; expected how many lines follow"
        )
    return int(line)


def write_parts(parts: Mapping[str, Iterable[pl.DataFrame]], folder: Path) -> None:
    """Write every part and the names of all of them into a folder that is there."""
    entity, relation = VocabularyBuilder("entity"), VocabularyBuilder("relation")
    for part, tables in parts.items():
        lines = folder / f".{part}.lines"
        count = 0
        with lines.open("wb") as file:
            for table in tables:
                for name in TRIPLE:
                    if table[name].str.contains(r"[\t\n\r]").any():
                        raise DoxaError(f"{folder.name}: a {name} holds a TAB or line break, which OpenKE cannot carry")
                numbers = pl.DataFrame(
                    {
                        "head": entity.codes(table["head"]),
                        "tail": entity.codes(table["tail"]),
                        "relation": relation.codes(table["relation"]),
                    }
                )
                numbers.write_csv(file, separator=" ", include_header=False)
                count += len(table)
        _counted(count, lines, folder / f"{part}2id.txt")
    for what, coder in (("entity", entity), ("relation", relation)):
        names = coder.vocabulary().names
        lines = folder / f".{what}.lines"
        pl.DataFrame({"name": names, "id": range(len(names))}).write_csv(
            lines, separator="\t", include_header=False, quote_style="never"
        )
        _counted(len(names), lines, folder / f"{what}2id.txt")


def _counted(count: int, lines: Path, target: Path) -> None:
    """Put the count before the lines."""
    with lines.open("rb") as source, target.open("wb") as file:
        file.write(f"{count}\n".encode())
        while piece := source.read(2**20):
            file.write(piece)
    with contextlib.suppress(OSError):
        lines.unlink()
