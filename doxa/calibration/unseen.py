"""Triples with an unseen entity: classified by the degree of the known entity in that slot of the relation."""

from __future__ import annotations

import numpy as np

from doxa.calibration.thresholds import Numbers, Thresholds
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.slots import Slot


def degree_prior(facts: TripleIndex, beliefs: Beliefs) -> tuple[Numbers, Ids]:
    """log(1 + number of facts that the known entity has in its slot of the relation), (n,), and the kind of each.

    The kind is 2 · relation + (whether the tail is the unseen entity), -1 for an unknown relation: thresholds are
    kept per kind.
    """
    counts = np.zeros(len(beliefs))
    related = beliefs.relation >= 0
    rows = np.flatnonzero(related & (beliefs.tail >= 0))
    counts[rows] = facts.count_answers(Slot.HEAD, None, beliefs.relation[rows], beliefs.tail[rows])
    rows = np.flatnonzero(related & (beliefs.head >= 0))
    counts[rows] = facts.count_answers(Slot.TAIL, beliefs.head[rows], beliefs.relation[rows], None)
    kind = np.where(related, 2 * beliefs.relation + (beliefs.tail < 0), -1)
    return np.log1p(counts), kind


def fit_unseen_thresholds(facts: TripleIndex, beliefs: Beliefs | None) -> Thresholds | None:
    """Thresholds on the degree prior, from labeled validation beliefs with an unseen entity; None unless both labels
    occur."""
    if beliefs is None or beliefs.label is None:
        return None
    beliefs = beliefs.where(beliefs.relation >= 0)
    assert beliefs.label is not None
    if len(np.unique(beliefs.label)) < 2:
        return None
    prior, kind = degree_prior(facts, beliefs)
    return Thresholds.fit(prior, kind, beliefs.label, 2 * facts.relations)
