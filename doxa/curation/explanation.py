"""The result of an explanation: its parts, and its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from doxa.data.results import Result

TERMS = ("Pr(h|r,t)", "Pr(r|h,t,m)", "Pr(t|h,r)")
"""The three factors of Eq. 1."""


class Word(NamedTuple):
    """A word of the mention: its addend of F(r, m), and of the contrast F(r, m) − F(r′, m) with the runner-up r′."""

    word: str
    addend: float
    contrast: float


class MentionTerms(NamedTuple):
    """F(r, m) is `total`, the sum of the addends of the words and β; unknown words are ignored."""

    words: tuple[Word, ...]
    beta: float
    total: float
    unknown: tuple[str, ...]


class SimilarFact(NamedTuple):
    """A known fact of the same relation, and the similarity of its head and tail to those of the belief."""

    head: str
    tail: str
    head_similarity: float
    tail_similarity: float


class RunnerUp(NamedTuple):
    """The best other answer in one slot: its three terms, and the term in which it differs most from the belief.

    `ahead` says that its probability in that slot is higher than the belief's own.
    """

    name: str
    known: bool
    terms: tuple[float, float, float]
    decided_by: str
    ahead: bool


class InfluentialBelief(NamedTuple):
    """A training belief and its influence: above 0 it supports the explained belief, below 0 it opposes it."""

    head: str
    relation: str
    tail: str
    influence: float


class Neighbor(NamedTuple):
    """An entity of the picture: its role (head, tail, runner-up, like head, like tail) and its place in it."""

    name: str
    role: str
    x: float
    y: float


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """Why a belief has its credence.

    `terms` are those of Eq. 1, `uncalibrated` is their geometric mean and `credence` the calibrated probability.
    `verdict` is the decision at the relation's threshold.
    """

    belief: tuple[str, str, str, str | None]
    known: bool
    credence: float
    verdict: bool
    uncalibrated: float
    terms: tuple[float, float, float]
    mention: MentionTerms | None
    relation_runner_up: RunnerUp | None
    tail_runner_up: RunnerUp | None
    similar_facts: tuple[SimilarFact, ...]
    influences: tuple[InfluentialBelief, ...]
    neighborhood: tuple[Neighbor, ...]

    def __repr__(self) -> str:
        terms = ", ".join(f"{name} {term:.3g}" for name, term in zip(TERMS, self.terms, strict=True))
        return f"Explanation({' · '.join(self.belief[:3])}: credence {self.credence:.2%}, {terms})"

    def to_frame(self) -> pl.DataFrame:
        """One row per part of the explanation: its kind, its name and its number."""
        rows: list[tuple[str, str, float]] = [("credence", "calibrated", self.credence)]
        rows.append(("credence", "uncalibrated", self.uncalibrated))
        rows += [("term", name, term) for name, term in zip(TERMS, self.terms, strict=True)]
        if self.mention:
            rows += [("word", word.word, word.addend) for word in self.mention.words]
        for slot, other in self._runners_up():
            rows.append((f"{slot} runner-up", other.name, other.terms[TERMS.index(_term_of(slot))]))
        for fact in self.similar_facts:
            rows.append(("similar fact", f"{fact.head} · {fact.tail}", fact.head_similarity + fact.tail_similarity))
        for one in self.influences:
            rows.append(("influence", f"{one.head} · {one.relation} · {one.tail}", one.influence))
        return pl.DataFrame(rows, schema={"part": pl.String, "name": pl.String, "value": pl.Float64}, orient="row")

    def as_dict(self) -> dict[str, Any]:
        """The explanation as plain data; `terms` by name."""
        parts = {name: _plain(value) for name, value in vars(self).items()}
        return parts | {"terms": dict(zip(TERMS, self.terms, strict=True))}

    def _runners_up(self) -> Iterator[tuple[str, RunnerUp]]:
        for slot, other in (("tail", self.tail_runner_up), ("relation", self.relation_runner_up)):
            if other:
                yield slot, other

    def __str__(self) -> str:
        head, relation, tail, mention = self.belief
        title = f"{head} · {relation} · {tail}" + (f'   "{mention}"' if mention else "")
        known = "known" if self.known else "not known"
        judged = f"  credence {self.credence:.2%}, judged {'true' if self.verdict else 'false'} ({known})"
        return "\n".join([title, judged, *self.reasons()])

    def reasons(self) -> list[str]:
        """The lines of the text below the credence: terms, words, other answers, similar facts and influences."""
        lines, relation = [], self.belief[1]
        product = " · ".join(f"{name} {term:.3g}" for name, term in zip(TERMS, self.terms, strict=True))
        lines.append(f"  ({product})^⅓ = {self.uncalibrated:.3g} before calibration")
        if self.mention:
            lines += _word_lines(self.mention, relation, self.relation_runner_up)
        lines += [f"  {_runner_up_line(slot, other, self.terms)}" for slot, other in self._runners_up()]
        if self.similar_facts:
            lines.append(f"  most similar known facts of {relation}")
            lines += [
                f"    {fact.head} · {fact.tail}   heads {fact.head_similarity:+.2f}, tails {fact.tail_similarity:+.2f}"
                for fact in self.similar_facts
            ]
        if self.influences:
            lines.append("  training beliefs with most influence")
            lines += [
                f"    {'supports' if one.influence > 0 else 'opposes '} {abs(one.influence):8.3g}   "
                f"{one.head} · {one.relation} · {one.tail}"
                for one in self.influences
            ]
        return lines


def _plain(value: Any) -> Any:
    """Named tuples as dictionaries, other tuples as lists."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _term_of(slot: str) -> str:
    return TERMS[2] if slot == "tail" else TERMS[1]


def _word_lines(mention: MentionTerms, relation: str, other: RunnerUp | None) -> list[str]:
    contrast = f", for {relation} rather than {other.name}" if other else ""
    lines = [f"  the words{contrast}"]
    for word in sorted(mention.words, key=lambda word: -word.contrast):
        lines.append(f"    {word.contrast:+7.2f}  {word.word}   ({word.addend:+.2f} of F)")
    if mention.unknown:
        lines.append(f"    never seen: {', '.join(mention.unknown)}")
    lines.append(f"    F(r, m) = {mention.total:.3f}, of which β = {mention.beta:.3f}")
    return lines


def _runner_up_line(slot: str, other: RunnerUp, terms: tuple[float, float, float]) -> str:
    place = TERMS.index(other.decided_by)
    known = " (known)" if other.known else ""
    numbers = f"{other.decided_by} {other.terms[place]:.3g} against {terms[place]:.3g}"
    if other.ahead:
        return f"a more probable {slot}: {other.name}{known}, mostly by {numbers}"
    return f"next {slot}: {other.name}{known}, less probable mostly by {numbers}"
