"""Fold-in: vectors for new entities from a few beliefs, while everything trained keeps its value.

For a score with one vector per entity and one per relation, the vector x = start + spread · z of a new entity maximizes

    Σ log Pr(x|r,t) + OTHER_WEIGHT · log Pr(t|x,r) − SHRINKAGE ‖z‖²      over its beliefs ⟨x, r, t⟩, likewise ⟨h, r, x⟩

The start lies midway between the mean of similar entities (`doxa.curation.grow`) and the mean of the entities e that
the model would answer, weighted by (Π Pr(e|r,t))^SHARPNESS. Other scores take steps of the model's training objective.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from doxa.curation.grow import make_room
from doxa.curation.refit import MovableRows, Refit
from doxa.data.beliefs import Beliefs
from doxa.errors import UnknownName, UsageError
from doxa.model import Model
from doxa.pbe import PBE, log_probability_of_newcomer, softmax
from doxa.scores.base import VectorScore
from doxa.scores.pairwise import PairScores, scaled
from doxa.slots import ENTITY_SLOTS, Slot

STEPS, RATE, CANDIDATES = 10, 4.0, 256
"""Adagrad steps, the size of the first (it falls linearly to zero), and candidates of a step."""

OTHER_WEIGHT = 0.1
"""Weight of log Pr(t|x,r) beside log Pr(x|r,t) for a new entity x."""

SHRINKAGE = 0.035
"""Penalty on the squared distance from the start, in units of the spread of all entities."""

SHARPNESS = 0.4
"""Exponent of the probabilities that weight the start: 0 is the mean of all entities."""


@torch.enable_grad()
def fold_in(model: Model, beliefs: Any, seed: int = 0) -> Model:
    """A model that also knows the new entities of these beliefs; `model` itself does not change.

    Only the vectors of the new entities are fitted. All relations must be known; unknown words are ignored.
    """
    grown, new = make_room(model, Beliefs.of(beliefs).positives(), words=False, seed=seed)
    first, relations = len(model.vocabularies.entities), len(model.vocabularies.relations)
    if (new.relation >= relations).any():
        name = grown.vocabularies.relations[int(new.relation[int(np.argmax(new.relation >= relations))])]
        raise UnknownName(f"no relation {name!r} in this model", "to add a relation, update the model")
    if not len(new) or len(grown.vocabularies.entities) == first:
        raise UsageError("these beliefs name no new entity; there is nothing to fold in")
    if model.pbe.score.by_vectors:
        spread = _spread(model.pbe)
        for entity in range(first, len(grown.vocabularies.entities)):
            _fit_vector(grown.pbe, first, spread, new, entity, np.random.default_rng([seed, 12, entity]))
        return grown
    about_new = new.where((new.head >= first) | (new.tail >= first))
    refit = Refit(grown.pbe, model.settings, MovableRows.of(grown.pbe, entities=first), grown.trained_facts)
    random = np.random.default_rng([seed, 12])
    for number in range(STEPS):
        rate = model.settings.learning_rate * (1 - number / STEPS)
        refit.step(about_new, np.arange(len(about_new)), rate, random)
    return grown


def _spread(pbe: PBE) -> float:
    """Root mean square distance of entity vectors from their mean, per coordinate."""
    return float(pbe.score.entity.weight.detach().var(0, correction=0).mean().sqrt())


class _Queries(NamedTuple):
    """The beliefs that have the new entity in one slot.

    `r` and `others` are the vectors of relation and other entity, (n, d); `log_total` is log Σ exp over all known
    entities in the slot of the new one, (n,).
    """

    slot: Slot
    r: Tensor
    others: Tensor
    log_total: Tensor


def _fit_vector(pbe: PBE, known: int, spread: float, new: Beliefs, entity: int, random: np.random.Generator) -> None:
    """Fit the vector of one new entity to its beliefs, all else fixed; see the formula above.

    Pr(x|r,t) is against the first `known` entities. Pr(t|x,r) is against candidates sampled from them in each step.
    A belief of the entity with itself is ignored.
    """
    table = pbe.score.entity.weight.detach()
    queries, start = _queries(pbe, known, new, entity)
    if not queries:
        return
    z, squares = torch.zeros_like(start), torch.zeros_like(start)
    for number in range(STEPS):
        sampled = table[:known]
        if known > CANDIDATES:
            sampled = table[torch.from_numpy(random.integers(0, known, CANDIDATES))]
        z.requires_grad_()
        x = start + spread * z
        loss = SHRINKAGE * (z * z).sum()
        for part in queries:
            loss = loss + _negative_log_likelihood(pbe, part, x, sampled)
        (gradient,) = torch.autograd.grad(loss, z)
        squares.addcmul_(gradient, gradient)
        z = z.detach().addcdiv(gradient, squares.sqrt().add_(1e-10), value=-RATE * (1 - number / STEPS))
    with torch.no_grad():
        pbe.score.entity.weight[entity] = start + spread * z


@torch.no_grad()
def _queries(pbe: PBE, known: int, new: Beliefs, entity: int) -> tuple[list[_Queries], Tensor]:
    """The beliefs of a new entity by its slot, and the start of its vector, (d,)."""
    table, relations = pbe.score.entity.weight, pbe.score.get_parameter("relation.weight")
    queries, suitability, every, entities = [], table.new_zeros(known), new.triples, torch.arange(known)
    for slot in ENTITY_SLOTS:
        triples = every[(every[:, slot] == entity) & (every[:, slot.other] != entity)]
        if not len(triples):
            continue
        r = relations[torch.from_numpy(triples[:, Slot.RELATION])]
        others = table[torch.from_numpy(triples[:, slot.other])]
        logits = _logits(pbe, slot, r, others, table[:known])
        suitability += logits.sum(0)
        queries.append(_Queries(slot, r, others, softmax(logits, entities).log_total))
    weights = softmax(SHARPNESS * suitability[None], entities).log_probabilities.exp()
    return queries, (table[entity] + weights[0] @ table[:known]) / 2


def _negative_log_likelihood(pbe: PBE, queries: _Queries, x: Tensor, sampled: Tensor) -> Tensor:
    """Σ − log Pr(x|r,t) − OTHER_WEIGHT · log Pr(t|x,r) of the beliefs with x in one slot."""
    slot, r, others, log_total = queries
    vectors = x.expand(len(r), -1)
    score = _vector_score(pbe)
    truth = pbe.scale * (score.each(vectors, r, others) if slot is Slot.HEAD else score.each(others, r, vectors))
    other_total = softmax(_logits(pbe, slot.other, r, vectors, sampled), torch.arange(len(sampled))).log_total
    by_entity = log_probability_of_newcomer(truth, log_total)
    return -(by_entity + OTHER_WEIGHT * log_probability_of_newcomer(truth, other_total)).sum()


def _logits(pbe: PBE, slot: Slot, r: Tensor, others: Tensor, candidates: Tensor) -> Tensor:
    """Scaled D of every candidate vector in the slot, (B, d), (B, d), (C, d) → (B, C)."""
    h, t = (candidates, others) if slot is Slot.HEAD else (others, candidates)
    scores = scaled(_vector_score(pbe).pairs(slot, h, r, t, candidates), pbe.scale)
    return scores.table() if isinstance(scores, PairScores) else scores


def _vector_score(pbe: PBE) -> VectorScore:
    assert isinstance(pbe.score, VectorScore)
    return pbe.score
