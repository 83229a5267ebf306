"""Places: where a word stands around the names of the head and the tail in its sentence.

The words between two entities say most about their relation, and the same words mean another relation where the tail
comes first. φ(m) of Eq. 11 gains one more word for each of these, written as it stands in the sentence:

    head…tail                 both names are in the sentence, the head's first; otherwise tail…head
    head…put…tail             a word between them
    head…put into…tail        two words in a row between them; head put… and …into tail next to a name
    have head…tail in         a word at most two before the first name, or after the second
    head=deposits             a word of a name, wherever it stands

A sentence that does not name both entities has its plain words and the words of the names alone.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl

from doxa.data.forks import contains, spelled_words
from doxa.data.mentions import Ragged, encode_words
from doxa.data.vocabulary import Vocabulary

MARKED = "[…=]"
"""Found in every marked word and in no plain one."""

NAMED = "="
"""Found in the marked words of names alone."""

NEAR = 2
"""Words before the first name and after the second that are marked."""

SHORT = 3
"""Letters of a name that its sentence must hold at least, unless it holds the whole name."""

Span = tuple[int, int]


def with_places(texts: pl.Series, heads: pl.Series, tails: pl.Series) -> pl.Series:
    """φ(m) with marked words: series of texts and names → series of lists of distinct words, the plain ones first."""
    spelled = [spelled_words(column) for column in (texts, heads, tails)]
    rows = zip(*(column.to_list() for column in spelled), strict=True)
    return pl.Series(texts.name, [_bag(*row) for row in rows], dtype=pl.List(pl.String))


def encode_with_places(texts: pl.Series, heads: pl.Series, tails: pl.Series, vocabulary: Vocabulary) -> Ragged:
    """φ(m) with marked words as ids; a mention without a known plain word has no words at all."""
    encoded = encode_words(with_places(texts, heads, tails), vocabulary.ids)
    plain = ~contains(vocabulary.names, MARKED)
    row = np.repeat(np.arange(len(encoded)), encoded.lengths)
    known = np.bincount(row[plain[encoded.values]], minlength=len(encoded)) > 0
    return Ragged.from_lengths(encoded.values[known[row]], encoded.lengths * known)


def plain_words(vocabulary: Vocabulary) -> int:
    """The number of words without a mark."""
    return int((~contains(vocabulary.names, MARKED)).sum())


def _bag(words: list[str], head: list[str], tail: list[str]) -> list[str]:
    if not words:
        return []
    names = [f"head={word}" for word in head] + [f"tail={word}" for word in tail]
    pair = locate(words, head, tail)
    return list(dict.fromkeys(words + names + ([] if pair is None else marked(words, *pair))))


def marked(words: list[str], head: Span, tail: Span) -> list[str]:
    """The marked words of a sentence with these spans of the names."""
    first, second, left, right = (head, tail, "head", "tail") if head < tail else (tail, head, "tail", "head")
    between = words[first[1] : second[0]]
    marks = [f"{left}…{right}"]
    marks += [f"{left}…{word}…{right}" for word in between]
    marks += [f"{left}…{one} {two}…{right}" for one, two in pairwise(between)]
    if between:
        marks += [f"{left} {between[0]}…{right}", f"{left}…{between[-1]} {right}"]
    marks += [f"{word} {left}…{right}" for word in words[max(0, first[0] - NEAR) : first[0]]]
    return marks + [f"{left}…{right} {word}" for word in words[second[1] : second[1] + NEAR]]


def locate(words: list[str], head: list[str], tail: list[str]) -> tuple[Span, Span] | None:
    """The spans of both names in a sentence: runs of words of each name, apart from each other.

    Of several, the pair with the most letters, then the nearest to each other, then the first; None without any.
    """
    best: tuple[tuple[int, int], Span, Span] | None = None
    runs = _runs(words, tail)
    for of_head, letters in _runs(words, head):
        for of_tail, more_letters in runs:
            gap = max(of_tail[0] - of_head[1], of_head[0] - of_tail[1])
            if gap < 0:
                continue
            fit = (letters + more_letters, -gap)
            if best is None or fit > best[0]:
                best = fit, of_head, of_tail
    return None if best is None else best[1:]


def _runs(words: list[str], name: list[str]) -> list[tuple[Span, int]]:
    """The longest runs of words that all belong to the name, and the number of their distinct letters."""
    parts, runs, start = set(name), [], None
    for place, word in enumerate([*words, ""]):
        if word in parts:
            start = place if start is None else start
        elif start is not None:
            inside = set(words[start:place])
            letters = sum(map(len, inside))
            if letters >= SHORT or inside == parts:
                runs.append(((start, place), letters))
            start = None
    return runs
