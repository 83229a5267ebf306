"""The popularity baseline: answer with the most frequent entity or relation of training.

It learns frequencies alone. What a model reaches beyond it, the model has learned from structure and words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.calibration.thresholds import Numbers, Thresholds
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.blocks import row_blocks
from doxa.data.negatives import labeled_beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.model import Model
from doxa.slots import Slot

MAX_FITTED = 20_000
"""Validation facts that the baseline's thresholds are fitted to, at most."""


class Popularity:
    """Scores an entity by its frequency in that slot of the relation, and a relation by its frequency."""

    def __init__(self, facts: TripleIndex) -> None:
        self.facts = facts
        self._frequencies = cache(self._count)

    @property
    def entities(self) -> int:
        return self.facts.entities

    @property
    def relations(self) -> int:
        return self.facts.relations

    def _count(self, slot: Slot) -> tuple[Ids, Ids, NDArray[np.float32]]:
        """Where each relation starts in the list of its entities in that slot, (R + 1,), the list, and frequencies."""
        pair = self.facts.triples[:, Slot.RELATION] * self.entities + self.facts.triples[:, slot]
        pairs, frequency = np.unique(pair, return_counts=True)
        starts = np.searchsorted(pairs, np.arange(self.relations + 1) * self.entities)
        return starts, pairs % self.entities, frequency.astype(np.float32)

    def logits(self, slot: Slot, batch: Batch, candidates: Tensor | None = None) -> Tensor:
        """The frequency of every candidate, (B, C)."""
        if slot is Slot.RELATION:
            counts = torch.from_numpy(self.facts.counts).float().expand(len(batch), -1)
            return counts if candidates is None else counts[:, candidates]
        starts, entity, frequency = self._frequencies(slot)
        relations, row = np.unique(batch.relation.numpy(), return_inverse=True)
        table = np.zeros((len(relations), self.entities), np.float32)
        for place, relation in enumerate(relations):
            part = slice(starts[relation], starts[relation + 1])
            table[place, entity[part]] = frequency[part]
        counts = torch.from_numpy(table)
        return (counts if candidates is None else counts[:, candidates])[torch.from_numpy(row)]

    def mention_logits(self, batch: Batch) -> Tensor:
        """Zero: mentions are ignored."""
        return torch.zeros(len(batch), self.relations)

    def blocks(self, count: int, width: int | None = None, memory: int = 0) -> Iterator[Ids]:
        return row_blocks(count, width or self.entities, memory)

    def plausibility(self, beliefs: Beliefs) -> Numbers:
        """log((1 + frequency of the head) · (1 + frequency of the tail)), (n,), each in its slot of the relation.

        The frequency of an unknown name is 0.
        """
        head, relation, tail = beliefs.head, beliefs.relation, beliefs.tail
        heads = np.where((head < 0) | (relation < 0), 0, self.facts.count_answers(Slot.TAIL, head, relation, None))
        tails = np.where((tail < 0) | (relation < 0), 0, self.facts.count_answers(Slot.HEAD, None, relation, tail))
        return np.asarray(np.log1p(heads) + np.log1p(tails))


def popularity_verdicts(model: Model, beliefs: Beliefs) -> NDArray[np.bool_]:
    """Which beliefs, in the ids of the model, are frequent enough to be classified as true, (n,).

    The thresholds per relation maximize accuracy on the validation facts of the model and on negatives made of them, as
    its own thresholds do; without validation facts, on its training facts.
    """
    popularity, settings = Popularity(model.trained_facts), model.settings
    facts = model.valid if len(model.valid) else model.train
    facts = facts[(facts >= 0).all(axis=1)]
    if len(facts) > MAX_FITTED:
        facts = facts[np.random.default_rng([settings.seed, 10]).permutation(len(facts))[:MAX_FITTED]]
    sample = Beliefs.from_triples(model.vocabularies, facts)
    labeled = labeled_beliefs(sample, model.known, settings.seed, settings.negatives_from)
    thresholds = Thresholds.unfitted(popularity.relations)
    if labeled.label is not None and len(labeled):
        scores = popularity.plausibility(labeled)
        thresholds = Thresholds.fit(scores, labeled.relation, labeled.label, popularity.relations)
    accepted: NDArray[np.bool_] = popularity.plausibility(beliefs) >= thresholds.of(beliefs.relation)
    return accepted
