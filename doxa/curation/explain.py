"""Explanation: why a belief has the credence it has.

    Pr(h,r,t,m) = (Pr(h|r,t) · Pr(r|h,t,m) · Pr(t|h,r))^(1/3)          (Eq. 1)
    F(r, m) = Σ over words of (word · r) + β                           (Eq. 11, one addend for each word)

Beside these: the known beliefs most alike, the runner-up and the term that parts it from the belief, and the training
beliefs that hold the answer up or drag it down. Everything is worked out in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from doxa.calibration.rules import log_terms
from doxa.calibration.thresholds import Numbers
from doxa.curation.bare import bare, precise
from doxa.curation.influence import pushes
from doxa.curation.similar import directions
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.mentions import words as words_of
from doxa.inference import judge
from doxa.model import Model
from doxa.pbe import PBE

MOST = 300
"""Training beliefs of which the influence is worked out at most: those that share an entity with the one explained."""

TERMS = ("Pr(h|r,t)", "Pr(r|h,t,m)", "Pr(t|h,r)")


class Word(NamedTuple):
    """A word of the mention: its addend of F(r, m), and of F(r, m) − F(r′, m) for the runner-up relation r′."""

    word: str
    addend: float
    for_it: float


class Said(NamedTuple):
    """What the words say: F(r, m) is the sum of their addends and β; words never seen drop out."""

    words: tuple[Word, ...]
    beta: float
    total: float
    unknown: tuple[str, ...]


class Kin(NamedTuple):
    """A known belief of the same relation, and how alike its head and its tail are to those explained."""

    head: str
    tail: str
    head_likeness: float
    tail_likeness: float


class RunnerUp(NamedTuple):
    """The best other answer in one place: its three terms, whether it is known, and which term parts the two most."""

    name: str
    known: bool
    terms: tuple[float, float, float]
    decided_by: str
    ahead: bool


class Influence(NamedTuple):
    """A training belief and its push: above 0 it holds the answer up, below it drags it down."""

    head: str
    relation: str
    tail: str
    push: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a belief has its credence. `terms` are those of Eq. 1, `before` is their geometric mean, `credence` what
    calibration makes of it; `verdict` compares with the relation's threshold."""

    belief: tuple[str, str, str, str | None]
    known: bool
    credence: float
    verdict: bool
    before: float
    terms: tuple[float, float, float]
    said: Said | None
    relation_runner_up: RunnerUp | None
    tail_runner_up: RunnerUp | None
    kin: tuple[Kin, ...]
    influences: tuple[Influence, ...]
    neighborhood: tuple[tuple[str, str, float, float], ...]
    """Name, role (head, tail, runner-up, like head, like tail) and place in the picture of each entity in it."""

    def as_dict(self) -> dict[str, Any]:
        def plain(value: Any) -> Any:
            if isinstance(value, tuple) and hasattr(value, "_asdict"):
                return {name: plain(part) for name, part in value._asdict().items()}
            return [plain(part) for part in value] if isinstance(value, tuple) else value

        found = {name: plain(value) for name, value in vars(self).items()}
        found["terms"] = dict(zip(TERMS, self.terms, strict=True))
        return found

    def __str__(self) -> str:
        head, relation, tail, mention = self.belief
        lines = [f"{head} · {relation} · {tail}" + (f'   "{mention}"' if mention else "")]
        known = "known" if self.known else "not known"
        lines.append(f"  credence {self.credence:.2%}, held {'true' if self.verdict else 'false'} ({known})")
        product = " · ".join(f"{name} {term:.3g}" for name, term in zip(TERMS, self.terms, strict=True))
        lines.append(f"  ({product})^⅓ = {self.before:.3g} before calibration")
        if self.said:
            lines += _said_lines(self.said, relation, self.relation_runner_up)
        for what, one in (("tail", self.tail_runner_up), ("relation", self.relation_runner_up)):
            if one:
                lines.append(f"  {_runner_up_line(what, one, self.terms)}")
        if self.kin:
            lines.append(f"  most alike of what is known about {relation}")
            lines += [
                f"    {kin.head} · {kin.tail}   heads {kin.head_likeness:+.2f}, tails {kin.tail_likeness:+.2f}"
                for kin in self.kin
            ]
        if self.influences:
            lines.append("  training beliefs without which the answer would change most")
            lines += [
                f"    {'holds it up' if one.push > 0 else 'drags it down'} {abs(one.push):8.3g}   "
                f"{one.head} · {one.relation} · {one.tail}"
                for one in self.influences
            ]
        return "\n".join(lines)


def _said_lines(said: Said, relation: str, rival: RunnerUp | None) -> list[str]:
    beside = f", for {relation} rather than {rival.name}" if rival else ""
    lines = [f"  the words{beside}"]
    for word in sorted(said.words, key=lambda word: -word.for_it):
        lines.append(f"    {word.for_it:+7.2f}  {word.word}   ({word.addend:+.2f} of F)")
    if said.unknown:
        lines.append(f"    never seen: {', '.join(said.unknown)}")
    lines.append(f"    F(r, m) = {said.total:.3f}, of which β = {said.beta:.3f}")
    return lines


def _runner_up_line(what: str, one: RunnerUp, terms: tuple[float, float, float]) -> str:
    place = TERMS.index(one.decided_by)
    known = " (known)" if one.known else ""
    beside = f"{one.decided_by} {one.terms[place]:.3g} against {terms[place]:.3g}"
    if one.ahead:
        return f"a likelier {what}: {one.name}{known}, most by {beside}"
    return f"next {what}: {one.name}{known}, which loses most by {beside}"


def explain(
    model: Model,
    head: str,
    relation: str,
    tail: str,
    mention: str | None = None,
    *,
    top: int = 5,
    influences: int = 6,
) -> Explanation:
    """Why this belief has its credence, with the `top` most alike known beliefs and so many influences."""
    model.must_answer("classification")
    model.must_answer("entity")
    vocabularies, pbe = model.vocabularies, precise(model.pbe)
    triple = (vocabularies.entities.id(head), vocabularies.relations.id(relation), vocabularies.entities.id(tail))
    table = pl.DataFrame({"head": [head], "relation": [relation], "tail": [tail], "mention": [mention]},
                         schema_overrides={"mention": pl.String})  # fmt: skip
    belief = Beliefs.from_frame(table, vocabularies)
    if pbe.mention is None:
        belief = belief.without_mentions()
    logs = log_terms(pbe, belief)[0]
    judged = judge(model, belief)
    of_relation, of_tail = _relation_runner_up(model, pbe, belief, logs), _tail_runner_up(model, pbe, belief, logs)
    kin, kin_ids = _kin(model, triple, top)
    return Explanation(
        belief=(head, relation, tail, mention),
        known=bool(model.known.contains(*(np.array([part]) for part in triple))[0]),
        credence=float(judged.credence[0]),
        verdict=bool(judged.accepted[0]),
        before=float(np.exp(logs.mean())),
        terms=_three(np.exp(logs)),
        said=_said(model, pbe, belief, mention, of_relation),
        relation_runner_up=of_relation,
        tail_runner_up=of_tail,
        kin=kin,
        influences=_influences(model, pbe, belief, influences),
        neighborhood=_neighborhood(model, triple, of_tail, kin_ids),
    )


def _three(values: Numbers) -> tuple[float, float, float]:
    first, second, third = (float(value) for value in values)
    return first, second, third


@torch.no_grad()
def _said(model: Model, pbe: PBE, belief: Beliefs, mention: str | None, rival: RunnerUp | None) -> Said | None:
    """One addend of F(r, m) for each known word of the mention (Eq. 11)."""
    if pbe.mention is None or not mention:
        return None
    spelt = words_of(pl.Series([mention]))[0].to_list()
    ids = model.vocabularies.words.ids(pl.Series(spelt, dtype=pl.String))
    vectors = pbe.mention.word.weight[torch.from_numpy(ids[ids >= 0])]
    relations = pbe.relation_vectors.weight
    own = vectors @ relations[int(belief.relation[0])]
    others = vectors @ relations[model.vocabularies.relations.id(rival.name)] if rival else torch.zeros_like(own)
    known = [word for word, number in zip(spelt, ids, strict=True) if number >= 0]
    numbers = zip(known, own.tolist(), (own - others).tolist(), strict=True)
    batch = Batch.of(belief)
    total = pbe.mention_logits(batch.words, batch.offsets)[0, int(belief.relation[0])]
    unknown = tuple(word for word, number in zip(spelt, ids, strict=True) if number < 0)
    return Said(tuple(Word(*one) for one in numbers), float(pbe.mention.beta), float(total), unknown)


@torch.no_grad()
def _tail_runner_up(model: Model, pbe: PBE, belief: Beliefs, logs: Numbers) -> RunnerUp | None:
    batch = Batch.of(belief)
    found = pbe.log_tails(batch.head, batch.relation)[0]
    found[pbe.seen_tails == batch.tail] = -torch.inf
    if not torch.isfinite(found).any():
        return None
    other = int(pbe.seen_tails[int(found.argmax())])
    return _runner_up(model, pbe, belief, logs, 2, other)


@torch.no_grad()
def _relation_runner_up(model: Model, pbe: PBE, belief: Beliefs, logs: Numbers) -> RunnerUp | None:
    if pbe.relations < 2 or not pbe.score.tells_relations:
        return None
    batch = Batch.of(belief)
    found = pbe.log_relations_with_mention(batch.head, batch.tail, batch.words, batch.offsets)[0]
    found[int(belief.relation[0])] = -torch.inf
    return _runner_up(model, pbe, belief, logs, 1, int(found.argmax()))


def _runner_up(model: Model, pbe: PBE, belief: Beliefs, logs: Numbers, place: int, other: int) -> RunnerUp:
    """The belief with another tail (place 2) or relation (1), and the term in which the two differ most."""
    triple = belief.triples.copy()
    triple[0, place] = other
    changed = replace(bare(belief.vocabularies, triple), mention=belief.mention)
    terms = log_terms(pbe, changed)[0]
    ahead = bool(terms[place] > logs[place])
    decided = int(np.argmax(terms - logs if ahead else logs - terms))
    names = model.vocabularies.entities if place == 2 else model.vocabularies.relations
    known = bool(model.known.contains(*triple.T)[0])
    return RunnerUp(names[other], known, _three(np.exp(terms)), TERMS[decided], ahead)


def _kin(model: Model, triple: tuple[int, int, int], top: int) -> tuple[tuple[Kin, ...], NDArray[np.int64]]:
    """Known beliefs of the relation whose head and tail are most alike to the ones given, both counting alike."""
    head, relation, tail = triple
    facts = model.known.triples
    facts = facts[(facts[:, 1] == relation) & ~((facts[:, 0] == head) & (facts[:, 2] == tail))]
    own = directions(model, np.array([head, tail])).double()
    likeness = []
    for column, vector in ((0, own[0]), (2, own[1])):
        distinct, inverse = np.unique(facts[:, column], return_inverse=True)
        likeness.append((directions(model, distinct).double() @ vector).numpy()[inverse])
    best = np.argsort(-(likeness[0] + likeness[1]).round(9), kind="stable")[:top]
    entities = model.vocabularies.entities
    found = tuple(
        Kin(entities[int(facts[row, 0])], entities[int(facts[row, 2])],
            float(likeness[0][row]), float(likeness[1][row]))
        for row in best
    )  # fmt: skip
    return found, facts[best]


def touching(model: Model, triple: tuple[int, int, int], most: int = MOST) -> NDArray[np.int64]:
    """Training facts that share an entity with a triple, those of its relation first, so many at most, (n, 3)."""
    facts = model.trained_facts.triples
    ends = np.array([triple[0], triple[2]])
    near = facts[np.isin(facts[:, 0], ends) | np.isin(facts[:, 2], ends)]
    near = near[(near != np.array(triple)).any(axis=1)]
    order = np.argsort(near[:, 1] != triple[1], kind="stable")
    return np.asarray(near[order[:most]])


def _influences(model: Model, pbe: PBE, belief: Beliefs, count: int) -> tuple[Influence, ...]:
    """The training beliefs sharing an entity with the one explained that push it most, either way."""
    first, second, third = belief.triples[0].tolist()
    near = touching(model, (first, second, third))
    if not len(near) or not count:
        return ()
    push = pushes(pbe, belief, bare(model.vocabularies, near))
    entities, relations = model.vocabularies.entities, model.vocabularies.relations
    return tuple(
        Influence(entities[int(near[row, 0])], relations[int(near[row, 1])], entities[int(near[row, 2])],
                  float(push[row]))
        for row in np.argsort(-np.abs(push), kind="stable")[:count]
    )  # fmt: skip


def _neighborhood(
    model: Model, triple: tuple[int, int, int], rival: RunnerUp | None, kin: NDArray[np.int64]
) -> tuple[tuple[str, str, float, float], ...]:
    """Entities of the picture on the two axes along which they differ most, in the unit square."""
    roles = {triple[0]: "head"}
    roles.setdefault(triple[2], "tail")
    if rival is not None:
        roles.setdefault(model.vocabularies.entities.id(rival.name), "runner-up")
    for column, role in ((0, "like head"), (2, "like tail")):
        for entity in kin[:, column].tolist():
            roles.setdefault(entity, role)
    ids = np.array(list(roles), np.int64)
    places = flat(directions(model, ids).double().numpy())
    return tuple(
        (model.vocabularies.entities[int(entity)], roles[int(entity)], float(x), float(y))
        for entity, (x, y) in zip(ids, places, strict=True)
    )


def flat(vectors: Numbers) -> Numbers:
    """Points on the two axes along which they differ most, in the unit square, (n, d) → (n, 2)."""
    centred = vectors - vectors.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    axes = left[:, :2] * sizes[:2]
    if axes.shape[1] < 2:
        axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    axes = axes * np.where(signs == 0, 1.0, signs)
    span = np.ptp(axes, axis=0)
    return np.asarray((axes - axes.min(axis=0)) / np.where(span > 0, span, 1.0))
