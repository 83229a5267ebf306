"""XML entities: what they expand to is counted before the parser expands them.

An entity may stand for others, so that a few lines expand to gigabytes. The parser writes out every declared entity and
every reference; here only their lengths are added up.
"""

from __future__ import annotations

import re
from collections import Counter

from doxa.formats.limits import ENTITY_ALLOWANCE, refuse_above
from doxa.formats.packing import Source

DECLARATION = re.compile(rb'<!ENTITY\s*%?\s*([^\s"]+)\s+"([^"]*)"')
REFERENCE = re.compile(rb"&([^;&<>\s]+);")


def refuse_entity_bomb(source: Source) -> None:
    """Refuse a file whose entities expand to far more than its size explains."""
    if not source.contains(b"<!ENTITY")[0]:
        return
    lengths: dict[bytes, int] = {}
    total, size, rest = 0, 0, b""
    for piece in source.pieces():
        text, end, after = (rest + piece).rpartition(b">")
        size, rest = size + len(piece), after
        total += _expanded(text + end, lengths)
        refuse_above(
            max(0, total - ENTITY_ALLOWANCE) // size,
            "DOXA_MAX_ENTITY_RATIO",
            f"{source.name}: the XML entities in {size:,} bytes expand to {total:,} bytes or more",
        )


def _expanded(text: bytes, lengths: dict[bytes, int]) -> int:
    """Bytes that the declarations and references of a text expand to; `lengths` are those of the entities so far."""
    total = 0
    for name, value in DECLARATION.findall(text):
        inside = sum(lengths.get(other, 0) for other in REFERENCE.findall(value))
        lengths[name] = max(lengths.get(name, 0), len(value) + inside)
        total += lengths[name]
    return total + sum(count * lengths.get(name, 0) for name, count in Counter(REFERENCE.findall(text)).items())
