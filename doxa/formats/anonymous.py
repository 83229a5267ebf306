"""Anonymous RDF nodes: the parser names them at random, so they are named here by the content of the file.

    [ ex:in ex:France ]   _:anon5c1f09a2n1      the file's checksum, and the order of first appearance

The same file always gets the same names, and two files never share one.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from doxa.formats.packing import Source

RANDOM = re.compile(r"_:[a-f][0-9a-f]{15,31}")
"""Labels that the parser draws; a file may also use such a label itself."""

WRITTEN = re.compile(rb"(?:_:|nodeID=[\"'])([a-f][0-9a-f]{15,31})(?![0-9A-Za-z])")
LONGEST = 64
"""Bytes of a label and what stands before it, at most."""


class Anonymous:
    """The terms of one file as text."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._names: dict[str, str] = {}
        self._checksum = ""
        self._written: set[str] = set()

    def __call__(self, term: Any) -> str:
        """A term as N-Triples writes it; an anonymous node gets its name."""
        text = str(term)
        if not text.startswith("_:") or not RANDOM.fullmatch(text):
            return text
        if not self._checksum:
            self._scan()
        if text in self._written:
            return text
        return self._names.setdefault(text, f"_:anon{self._checksum}n{len(self._names) + 1}")

    def _scan(self) -> None:
        """Take the checksum of the file, and the labels in it that look drawn."""
        digest, end = hashlib.sha256(), b""
        for piece in self._source.pieces():
            digest.update(piece)
            self._written |= {f"_:{label.decode()}" for label in WRITTEN.findall(end + piece)}
            end = piece[-LONGEST:]
        self._checksum = digest.hexdigest()[:8]
