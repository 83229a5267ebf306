"""Names by what somebody types: by prefix, by the prefix of a word, and with typing errors.

Names and queries are compared in a simple form: lower case, without accents, with a space for each separator. A name
matches by its beginning, by the beginning of one of its words, or by its trigrams:

    Dice(q, n) = 2 · common trigrams / (trigrams of q + trigrams of n)

of which the best are compared letter by letter.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

LONGEST = 120
"""Characters of a name that are compared."""

WORDS = 8
"""Words of a name that a query may begin with."""

CLOSE = 0.6
"""Least letter-by-letter similarity of a name with typing errors."""

COMPARED = 40
"""Names with most common trigrams that are compared letter by letter."""

BUCKETS = 2**18
"""Trigrams are hashed into this many lists."""

SEPARATORS = re.compile(r"[\s_/.,:;()\-]+")

WAYS = ("exact", "prefix", "word", "similar")
"""How a name matches, best first."""


class Match(NamedTuple):
    """A name that matches a query: how, how well (1 is exact), and in how many facts it occurs."""

    name: str
    match: str
    score: float
    facts: int


def simple(name: str) -> str:
    """The form in which names are compared."""
    plain = name[:LONGEST].casefold()
    if not plain.isascii():
        decomposed = unicodedata.normalize("NFKD", plain)
        plain = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return SEPARATORS.sub(" ", plain).strip()


class NameIndex:
    """Finds names of a vocabulary by what somebody types; `facts` orders names that match equally well."""

    def __init__(self, names: pl.Series, facts: NDArray[np.int64]) -> None:
        self.names, self.facts = names, facts
        self.forms = [simple(name) for name in names.to_list()]
        entries = []
        for number, form in enumerate(self.forms):
            entries.append((form, number, 0))
            starts = [match.end() for match in re.finditer(" ", form)][: WORDS - 1]
            entries += [(form[start:], number, start) for start in starts]
        entries.sort()
        self._texts = [text for text, _, _ in entries]
        self._numbers = np.array([number for _, number, _ in entries], np.int64)
        self._starts = np.array([start for _, _, start in entries], np.int64)

    def __len__(self) -> int:
        return len(self.forms)

    def search(self, query: str, limit: int = 10) -> list[Match]:
        """The best matches: exact ones, prefixes, prefixes of words, then similar names, each by number of facts."""
        form = simple(query)
        if not form:
            return [self._match(int(number), 1, 0.0) for number in np.argsort(-self.facts, kind="stable")[:limit]]
        matches = self._by_prefix(form, limit)
        if len(matches) < limit:
            present = {match.name for match in matches}
            matches += [match for match in self._similar(form, limit) if match.name not in present]
        return matches[:limit]

    def _match(self, number: int, way: int, score: float) -> Match:
        return Match(str(self.names[number]), WAYS[way], score, int(self.facts[number]))

    def _by_prefix(self, form: str, limit: int) -> list[Match]:
        first, last = bisect_left(self._texts, form), bisect_left(self._texts, form + "\U0010ffff")
        numbers, starts = self._numbers[first:last], self._starts[first:last]
        exact = (np.arange(first, last) < bisect_right(self._texts, form)) & (starts == 0)
        way = np.where(exact, 0, np.where(starts == 0, 1, 2))
        order = np.lexsort((numbers, -self.facts[numbers], way))
        matches: dict[int, Match] = {}
        for place in order.tolist():
            number = int(numbers[place])
            if number not in matches:
                score = 1.0 if way[place] == 0 else 0.6 + 0.35 * len(form) / max(len(self.forms[number]), 1)
                matches[number] = self._match(number, int(way[place]), round(score, 4))
            if len(matches) == limit:
                break
        return list(matches.values())

    @cached_property
    def _trigrams(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Offsets of each bucket, the names in the buckets, and the number of trigrams of each name."""
        buckets = [_buckets(form) for form in self.forms]
        counts = np.array([len(one) for one in buckets], np.int64)
        every = np.concatenate(buckets) if buckets else np.zeros(0, np.int64)
        owners = np.repeat(np.arange(len(buckets)), counts)
        order = np.argsort(every, kind="stable")
        offsets = np.searchsorted(every[order], np.arange(BUCKETS + 1))
        return offsets, owners[order], counts

    def _similar(self, form: str, limit: int) -> list[Match]:
        """Names that differ from the query, or from its beginning, by few letters."""
        offsets, owners, counts = self._trigrams
        wanted = _buckets(form)
        common = np.bincount(
            np.concatenate([owners[offsets[one] : offsets[one + 1]] for one in wanted]), minlength=len(self)
        )
        dice = 2 * common / (np.minimum(counts, 2 * len(wanted)) + len(wanted))
        count = min(COMPARED, len(dice))
        best = np.argpartition(-dice, count - 1)[:count]
        scored = []
        for number in best[dice[best] > 0].tolist():
            other = self.forms[number]
            whole = difflib.SequenceMatcher(None, form, other, autojunk=False).ratio()
            start = 0.95 * difflib.SequenceMatcher(None, form, other[: len(form) + 1], autojunk=False).ratio()
            if max(whole, start) >= CLOSE:
                scored.append((round(max(whole, start), 2), int(self.facts[number]), number))
        scored.sort(key=lambda one: (-one[0], -one[1], one[2]))
        return [self._match(number, 3, score) for score, _, number in scored[:limit]]


def _buckets(form: str) -> NDArray[np.int64]:
    """The distinct buckets of a form's trigrams, with two blanks before it and one after."""
    letters = np.frombuffer(f"  {form} ".encode("utf-32-le"), np.uint32).astype(np.int64)
    hashed = (letters[:-2] * 1_000_003 + letters[1:-1]) * 1_000_003 + letters[2:]
    return np.unique((hashed ^ (hashed >> 17)) % BUCKETS)
