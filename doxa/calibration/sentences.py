"""Beliefs with an unseen entity and a mention: their relation is answered from the sentence.

    Pr(r|h,m) ∝ Pr(r|m)^β · (Pr(r|h) / Pr(r))^α            where the tail is unseen; the same with t for an unseen head

Pr(r|h) is the share of the relation among the facts with that head, smoothed by Pr(r), the share among all facts.
Where both entities are unseen, Pr(r|m) is all there is. α and β maximize the likelihood of validation beliefs with one
entity hidden, so that no unseen names are needed to fit them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.calibration.curves import MIN_LABELS
from doxa.calibration.temperatures import best_weights
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import UNKNOWN
from doxa.pbe import PBE, renormalized
from doxa.slots import ENTITY_SLOTS, Slot

SMOOTHING = 1.0
"""Facts, spread as those of the whole knowledge base, that are added to those of an entity."""

MAX_FITTED = 5000
"""Validation beliefs that the weights are fitted on at most."""


@dataclass(frozen=True)
class SentenceWeights:
    """α and β: what the known entity and the mention weigh in the relation of a belief with an unseen entity."""

    entity: float = 0.5
    mention: float = 1.0


def answerable(pbe: PBE, beliefs: Beliefs) -> NDArray[np.bool_]:
    """Which beliefs have an unseen entity and a mention of known words, (n,)."""
    unseen = (beliefs.head == UNKNOWN) | (beliefs.tail == UNKNOWN)
    return np.asarray(unseen & (beliefs.mention.lengths > 0) & (pbe.mention is not None))


@torch.no_grad()
def relation_log_probabilities(
    pbe: PBE, facts: TripleIndex, beliefs: Beliefs, weights: SentenceWeights | None = None
) -> Tensor:
    """log Pr(r|m) with what the facts say of the one known entity, (n, R); at most one entity of each may be known."""
    weights = weights or SentenceWeights()
    by_mention = pbe.mention_distribution(Batch.of(beliefs)).log_probabilities.double()
    surprise, known = entity_evidence(facts, beliefs)
    exponent = torch.where(known, weights.mention, 1.0)[:, None]
    return renormalized(exponent * by_mention + weights.entity * surprise)


def entity_evidence(facts: TripleIndex, beliefs: Beliefs) -> tuple[Tensor, Tensor]:
    """log Pr(r|entity in its slot) − log Pr(r) of the known entity, (n, R), 0 without one; and whether there is one."""
    from scipy.sparse import csr_matrix  # slow to load, and few questions need it

    prior = (facts.counts + 1) / (facts.counts + 1).sum()
    evidence = np.zeros((len(beliefs), facts.relations))
    triples, known = facts.triples, np.zeros(len(beliefs), bool)
    for slot in ENTITY_SLOTS:
        rows = np.flatnonzero(beliefs.triples[:, slot] != UNKNOWN)
        if not len(rows):
            continue
        pairs = (triples[:, slot], triples[:, Slot.RELATION])
        counts = csr_matrix((np.ones(len(triples)), pairs), shape=(facts.entities, facts.relations))
        of_entity = counts[beliefs.triples[rows, slot]].toarray()
        share = (of_entity + SMOOTHING * prior) / (of_entity.sum(axis=1, keepdims=True) + SMOOTHING)
        evidence[rows] += np.log(share / prior)
        known[rows] = True
    return torch.from_numpy(evidence), torch.from_numpy(known)


@torch.no_grad()
def fit_sentence_weights(pbe: PBE, facts: TripleIndex, valid: Beliefs) -> SentenceWeights:
    """The weights that suit positive validation beliefs with a mention, whose head or tail is hidden in turn."""
    stated = valid.where((valid.mention.lengths > 0) & valid.seen)
    if pbe.mention is None or len(stated) < MIN_LABELS:
        return SentenceWeights()
    stated = stated.take(np.random.default_rng(0).permutation(len(stated))[:MAX_FITTED])
    hidden = np.arange(len(stated)) % 2 == 0
    hidden_head, hidden_tail = np.where(hidden, UNKNOWN, stated.head), np.where(hidden, stated.tail, UNKNOWN)
    stated = replace(stated, head=hidden_head, tail=hidden_tail)
    by_mention = pbe.mention_distribution(Batch.of(stated)).log_probabilities.double()
    evidence, _ = entity_evidence(facts, stated)
    return SentenceWeights(*best_weights(evidence, by_mention, torch.from_numpy(stated.relation)))
