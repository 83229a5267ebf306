"""Bounds on what a file may hold or expand to, so that a small hostile file cannot fill the memory.

An environment variable raises each bound, for example `DOXA_MAX_FIELDS=5000`.
"""

from __future__ import annotations

import os

from doxa.errors import BadFile, UsageError

LIMITS = {
    "DOXA_MAX_FIELDS": 1_000,
    "DOXA_MAX_LINE": 16 * 2**20,
    "DOXA_MAX_RATIO": 200,
    "DOXA_MAX_ENTITY_RATIO": 20,
}
"""Fields per line; bytes per line; bytes unpacked per compressed byte; bytes of XML entities per byte of the file."""

ALLOWANCE = 32 * 2**20
"""Bytes that any compressed file may unpack to, whatever its ratio."""

ENTITY_ALLOWANCE = 2**20
"""Bytes that the XML entities of any file may expand to."""

SHORTEST = 6
"""Bytes of the shortest belief in a text file: what a row of Parquet counts as."""


def limit(name: str) -> int:
    """The value of a bound: that of the environment variable, or the default."""
    text = os.environ.get(name, "")
    if not text:
        return LIMITS[name]
    if not text.isdecimal() or not int(text):
        raise UsageError(f"the environment variable {name} is {text!r}; expected a whole number above 0")
    return int(text)


def refuse_above(amount: int, name: str, message: str) -> None:
    """Refuse a file in which an amount exceeds a bound; `message` names the file and says what is too much."""
    bound = limit(name)
    if amount > bound:
        hint = f"if the file is right, raise the bound: set the environment variable {name} above {bound:,}"
        raise BadFile(message, hint)


def refuse_expansion(unpacked: int, packed: int, name: str) -> None:
    """Refuse a compressed file, or a part of it, that unpacks to more than its size explains."""
    if unpacked > ALLOWANCE:
        ratio = (unpacked - ALLOWANCE) // max(packed, 1)
        refuse_above(ratio, "DOXA_MAX_RATIO", f"{name}: {packed:,} compressed bytes unpack to more than {unpacked:,}")
