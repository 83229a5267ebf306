"""Explanation: why a belief has its credence.

    Pr(h,r,t,m) = (Pr(h|r,t) · Pr(r|h,t,m) · Pr(t|h,r))^(1/3)          (Eq. 1)
    F(r, m) = Σ over words of (word · r) + β                           (Eq. 11, one addend for each word)

Beside these: the most similar known facts, the best other tail and relation with the term that decides, and the
training beliefs with most influence. All numbers are computed in float64.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from doxa.calibration.rules import log_terms
from doxa.calibration.thresholds import Numbers
from doxa.curation.explanation import (
    TERMS,
    Explanation,
    InfluentialBelief,
    MentionTerms,
    Neighbor,
    RunnerUp,
    SimilarFact,
    Word,
)
from doxa.curation.float64 import float64_copy
from doxa.curation.influence import influence
from doxa.curation.similar import directions
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.mentions import words as words_of
from doxa.data.vocabulary import UNKNOWN
from doxa.inference import judge
from doxa.model import Model
from doxa.pbe import PBE, log_credence
from doxa.slots import ENTITY_SLOTS, Slot

MAX_INFLUENCES = 300
"""Training beliefs whose influence is computed, at most; each shares an entity with the explained belief."""

Triple = tuple[int, int, int]


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
    """Why this belief has its credence, with the `top` most similar known facts and the largest `influences`."""
    model.must_answer("classification")
    model.must_answer("entity")
    vocabularies, pbe = model.vocabularies, float64_copy(model.pbe)
    triple = (vocabularies.entities.id(head), vocabularies.relations.id(relation), vocabularies.entities.id(tail))
    frame = pl.DataFrame({"head": [head], "relation": [relation], "tail": [tail], "mention": [mention]},
                         schema_overrides={"mention": pl.String})  # fmt: skip
    belief = Beliefs.from_frame(frame, vocabularies)
    if pbe.mention is None:
        belief = belief.without_mentions()
    terms = log_terms(pbe, belief, model.calibration.mention_exponent)[0]
    judgment = judge(model, belief)
    other_relation = _relation_runner_up(model, pbe, belief, terms)
    other_tail = _tail_runner_up(model, pbe, belief, terms)
    similar_facts, similar_triples = _similar_facts(model, triple, top)
    return Explanation(
        belief=(head, relation, tail, mention),
        known=bool(model.known.contains(*(np.array([part]) for part in triple))[0]),
        credence=float(judgment.credence[0]),
        verdict=bool(judgment.accepted[0]),
        uncalibrated=float(np.exp(log_credence(terms))),
        terms=_three(np.exp(terms)),
        mention=_mention_terms(model, pbe, belief, mention, other_relation),
        relation_runner_up=other_relation,
        tail_runner_up=other_tail,
        similar_facts=similar_facts,
        influences=_influences(model, pbe, belief, triple, influences),
        neighborhood=_neighborhood(model, triple, other_tail, similar_triples),
    )


def _three(values: Numbers) -> tuple[float, float, float]:
    first, second, third = (float(value) for value in values)
    return first, second, third


@torch.no_grad()
def _mention_terms(
    model: Model, pbe: PBE, belief: Beliefs, mention: str | None, other: RunnerUp | None
) -> MentionTerms | None:
    """One addend of F(r, m) for each known word of the mention (Eq. 11)."""
    if pbe.mention is None or not mention:
        return None
    vocabulary, relation = model.vocabularies.words, int(belief.relation[0])
    table = pbe.word_addends(torch.from_numpy(belief.mention.values))
    addends = table[:, relation]
    others = table[:, model.vocabularies.relations.id(other.name)] if other else torch.zeros_like(addends)
    known = vocabulary.names_of(belief.mention.values).to_list()
    words = zip(known, addends.tolist(), (addends - others).tolist(), strict=True)
    batch = Batch.of(belief)
    total = pbe.mention_logits(batch)[0, relation]
    spelling = words_of(pl.Series([mention]))[0]
    unknown = tuple(spelling.filter(pl.Series(vocabulary.ids(spelling) == UNKNOWN)).to_list())
    beta = float(total) - float(addends.sum())  # of that relation; 0 without a known word
    return MentionTerms(tuple(Word(*word) for word in words), beta, float(total), unknown)


@torch.no_grad()
def _tail_runner_up(model: Model, pbe: PBE, belief: Beliefs, terms: Numbers) -> RunnerUp | None:
    batch = Batch.of(belief)
    others = pbe.distribution(Slot.TAIL, batch, without=(np.zeros(1, np.int64), belief.tail))
    if not torch.isfinite(others.logits).any():
        return None
    return _runner_up(model, pbe, belief, terms, Slot.TAIL, int(others.columns[int(others.logits.argmax())]))


@torch.no_grad()
def _relation_runner_up(model: Model, pbe: PBE, belief: Beliefs, terms: Numbers) -> RunnerUp | None:
    if pbe.relations < 2 or not pbe.score.tells_relations:
        return None
    batch = Batch.of(belief)
    others = pbe.relation_distribution(
        batch,
        mention_exponent=model.calibration.mention_exponent,
        without=(np.zeros(1, np.int64), belief.relation),
    )
    return _runner_up(model, pbe, belief, terms, Slot.RELATION, int(others.logits.argmax()))


def _runner_up(model: Model, pbe: PBE, belief: Beliefs, terms: Numbers, slot: Slot, other: int) -> RunnerUp:
    """The belief with another answer in one slot, and the term in which the two differ most."""
    triple = belief.triples
    triple[0, slot] = other
    changed = replace(Beliefs.from_triples(belief.vocabularies, triple), mention=belief.mention)
    other_terms = log_terms(pbe, changed, model.calibration.mention_exponent)[0]
    ahead = bool(other_terms[slot] > terms[slot])
    decided = int(np.argmax(other_terms - terms if ahead else terms - other_terms))
    names = model.vocabularies.relations if slot is Slot.RELATION else model.vocabularies.entities
    known = bool(model.known.contains(*triple.T)[0])
    return RunnerUp(names[other], known, _three(np.exp(other_terms)), TERMS[decided], ahead)


def _similar_facts(model: Model, triple: Triple, top: int) -> tuple[tuple[SimilarFact, ...], NDArray[np.int64]]:
    """The known facts of the relation with the largest sum of similarities of heads and of tails, and their triples."""
    facts = model.known.triples
    facts = facts[(facts[:, Slot.RELATION] == triple[Slot.RELATION]) & (facts != np.array(triple)).any(axis=1)]
    vectors = directions(model, np.array([triple[slot] for slot in ENTITY_SLOTS])).double()
    similarity = np.zeros((len(facts), 2))
    for column, slot in enumerate(ENTITY_SLOTS):
        entities, inverse = np.unique(facts[:, slot], return_inverse=True)
        similarity[:, column] = (directions(model, entities).double() @ vectors[column]).numpy()[inverse]
    best = np.argsort(-similarity.sum(axis=1).round(9), kind="stable")[:top]
    names = model.vocabularies.entities
    rows = zip(facts[best].tolist(), similarity[best].tolist(), strict=True)
    return tuple(SimilarFact(names[head], names[tail], *pair) for (head, _, tail), pair in rows), facts[best]


def nearby_facts(model: Model, triple: Triple, most: int = MAX_INFLUENCES) -> NDArray[np.int64]:
    """Training facts that share an entity with a triple, facts of its relation first, (n, 3), n ≤ `most`."""
    facts = model.trained_facts.triples
    ends = np.array([triple[slot] for slot in ENTITY_SLOTS])
    near = facts[np.isin(facts[:, Slot.HEAD], ends) | np.isin(facts[:, Slot.TAIL], ends)]
    near = near[(near != np.array(triple)).any(axis=1)]
    order = np.argsort(near[:, Slot.RELATION] != triple[Slot.RELATION], kind="stable")
    return np.asarray(near[order[:most]])


def _influences(model: Model, pbe: PBE, belief: Beliefs, triple: Triple, count: int) -> tuple[InfluentialBelief, ...]:
    """The training beliefs that share an entity with this one and have most influence, of either sign."""
    near = nearby_facts(model, triple)
    if not len(near) or not count:
        return ()
    training = Beliefs.from_triples(model.vocabularies, near)
    values = influence(pbe, belief, training, model.calibration.mention_exponent)
    entities, relations = model.vocabularies.entities, model.vocabularies.relations
    return tuple(
        InfluentialBelief(entities[head], relations[relation], entities[tail], float(values[row]))
        for row in np.argsort(-np.abs(values), kind="stable")[:count]
        for head, relation, tail in [near[row].tolist()]
    )


def _neighborhood(
    model: Model, triple: Triple, runner_up: RunnerUp | None, similar: NDArray[np.int64]
) -> tuple[Neighbor, ...]:
    """The entities of the picture, on the two main axes of their vectors, in the unit square."""
    roles = {triple[Slot.HEAD]: "head"}
    roles.setdefault(triple[Slot.TAIL], "tail")
    if runner_up is not None:
        roles.setdefault(model.vocabularies.entities.id(runner_up.name), "runner-up")
    for slot in ENTITY_SLOTS:
        for entity in similar[:, slot].tolist():
            roles.setdefault(entity, f"like {slot}")
    ids = np.array(list(roles), np.int64)
    places = flat(directions(model, ids).double().numpy())
    return tuple(
        Neighbor(model.vocabularies.entities[int(entity)], roles[int(entity)], float(x), float(y))
        for entity, (x, y) in zip(ids, places, strict=True)
    )


def flat(vectors: Numbers) -> Numbers:
    """Vectors on their two main axes (PCA), scaled to the unit square, (n, d) → (n, 2)."""
    centered = vectors - vectors.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    axes = left[:, :2] * sizes[:2]
    if axes.shape[1] < 2:
        axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    axes = axes * np.where(signs == 0, 1.0, signs)
    span = np.ptp(axes, axis=0)
    return np.asarray((axes - axes.min(axis=0)) / np.where(span > 0, span, 1.0))
