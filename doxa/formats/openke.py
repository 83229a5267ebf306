"""OpenKE's folders: entity2id.txt and relation2id.txt (names and ids), train2id.txt and so on (head tail relation).

The first line of every file is the number of lines that follow.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl

from doxa.data.columns import TRIPLE
from doxa.data.vocabulary import VocabularyBuilder
from doxa.errors import BadFile
from doxa.formats.faults import Faults
from doxa.formats.numbered import detect_delimiter, look_up, read_names
from doxa.formats.options import Options
from doxa.formats.packing import Source
from doxa.formats.tsv import Fields

log = logging.getLogger(__name__)

UNIT = "line"
HOLDS = TRIPLE
ORDER = {"c0": "head", "c1": "tail", "c2": "relation"}


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Frames with a line number and names in place of ids."""
    names = {}
    for what in ("entity", "relation"):
        path = source.path.with_name(f"{what}2id.txt")
        names[what] = read_names(Source(path, str(path)), what, "c0", "c1")
    announced, count, nameless = _announced(source), 0, 0
    for table in Fields(source, detect_delimiter(source), faults, lambda fields: False, skip=1):
        if table.width != 4:
            raise BadFile(f"{source.name}, line 2: {table.width - 1} fields; expected: head tail relation, by number")
        count += len(table)
        before = faults.count
        known = look_up(table.rename(ORDER).select("line", *TRIPLE), names, faults)
        nameless += faults.count - before
        yield known
    if announced != count + faults.count - nameless:
        faults.report([1], f"it says that {announced:,} lines follow, but there are {count:,}")


def _announced(source: Source) -> int:
    line = next(source.texts(), b"").partition(b"\n")[0].strip()
    if not line.isdigit():
        raise BadFile(
            f"{source.name}, line 1: {line[:40].decode(errors='replace')!r}; expected the number of lines that follow"
        )
    return int(line)


def write_parts(parts: Mapping[str, Iterable[pl.DataFrame]], folder: Path) -> None:
    """Write every part, and the names of all parts, into an existing folder."""
    entity, relation = VocabularyBuilder("entity"), VocabularyBuilder("relation")
    for part, tables in parts.items():
        lines = folder / f".{part}.lines"
        count = 0
        with lines.open("wb") as file:
            for table in tables:
                for name in TRIPLE:
                    if table[name].str.contains(r"[\t\n\r]").any():
                        raise BadFile(f"{folder.name}: a {name} holds a TAB or line break, which OpenKE cannot carry")
                numbers = pl.DataFrame(
                    {
                        "head": entity.codes(table["head"]),
                        "tail": entity.codes(table["tail"]),
                        "relation": relation.codes(table["relation"]),
                    }
                )
                numbers.write_csv(file, separator=" ", include_header=False)
                count += len(table)
        _prepend_count(count, lines, folder / f"{part}2id.txt")
    for what, builder in (("entity", entity), ("relation", relation)):
        names = builder.vocabulary().names
        lines = folder / f".{what}.lines"
        pl.DataFrame({"name": names, "id": range(len(names))}).write_csv(
            lines, separator="\t", include_header=False, quote_style="never"
        )
        _prepend_count(len(names), lines, folder / f"{what}2id.txt")


def _prepend_count(count: int, lines: Path, target: Path) -> None:
    """Write the count and then the lines of another file, which is removed."""
    with lines.open("rb") as source, target.open("wb") as file:
        file.write(f"{count}\n".encode())
        while piece := source.read(2**20):
            file.write(piece)
    with contextlib.suppress(OSError):
        lines.unlink()
