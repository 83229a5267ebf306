"""Where a knowledge base is, and which part and moment of it: `kb.db`, `kb.db#test`, `kb.db@41`, `postgresql://…`.

    PLACE[@MOMENT][#PART]     MOMENT: a snapshot number or a time; PART: train, valid or test

This module is light, so that commands on files can ask whether a path is a store without loading a database driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from doxa.errors import UsageError, one_of

PARTS = ("train", "valid", "test")
ENDINGS = (".db", ".sqlite", ".sqlite3")
SIGNATURE = b"SQLite format 3\0"
MOMENT = re.compile(r"@(\d+|\d{4}-\d{2}-\d{2}[0-9T:.+Z -]*)$")
URL = re.compile(r"^(postgres(?:ql)?)(?:\+\w+)?:/{1,2}(?=\S)")


@dataclass(frozen=True)
class Place:
    """A store, and optionally a part and a moment of it."""

    location: str
    moment: str = ""
    part: str = ""

    @property
    def is_postgres(self) -> bool:
        return self.location.startswith("postgresql://")

    @property
    def path(self) -> Path:
        """The file of a SQLite store."""
        return Path(self.location)

    def __str__(self) -> str:
        moment, part = self.moment and f"@{self.moment}", self.part and f"#{self.part}"
        return f"{without_password(self.location)}{moment}{part}"

    def at(self, moment: str | int) -> Place:
        return replace(self, moment=str(moment))

    def only(self, part: str) -> Place:
        return replace(self, part=part)


def without_password(location: str) -> str:
    """A URL to show: the password is left out."""
    return re.sub(r"(?<=//)([^/@:]*):[^/@]*@", r"\1@", location)


def store_place(path: str | Path | Place) -> Place | None:
    """The place of a store, or None if the path is a file of another kind."""
    if isinstance(path, Place):
        return path
    text = str(path)
    match = URL.match(text)
    if match:  # a path keeps only one of the two slashes of a URL
        return _split(f"postgresql://{text[match.end() :]}")
    place = Place(text) if Path(text).exists() else _split(text)
    file = Path(place.location)
    if file.is_dir():
        return None
    if file.is_file() and file.stat().st_size:
        with file.open("rb") as content:
            return place if content.read(len(SIGNATURE)) == SIGNATURE or file.suffix in ENDINGS else None
    return place if file.suffix in ENDINGS else None


def require_place(path: str | Path | Place) -> Place:
    """The place of a store; any other path is an error."""
    place = store_place(path)
    if place is None:
        raise UsageError(
            f"{path} is not the place of a knowledge base",
            f"expected a file that ends in {' or '.join(ENDINGS)}, or postgresql://user@host/database",
        )
    return place


def require_whole(place: Place) -> None:
    """Refuse a moment or a part of a store, which nothing can be written to."""
    if place.moment or place.part:
        what = f"snapshot {place.moment}" if place.moment else f"the part {place.part}"
        raise UsageError(
            f"{place} is {what} of a knowledge base; this needs the whole of it",
            f"use {without_password(place.location)}",
        )


def _split(text: str) -> Place:
    location, _, part = text.partition("#")
    if part:
        one_of("part", part, PARTS)
    moment = MOMENT.search(location, location.find("/", len("postgresql://")) if URL.match(location) else 0)
    if moment is None:
        return Place(location, "", part)
    return Place(location[: moment.start()], moment[1], part)
