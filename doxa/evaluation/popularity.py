"""The popularity baseline: answer with the most frequent entity or relation of training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from torch import Tensor

from doxa.calibration.thresholds import Numbers
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.blocks import row_blocks
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.slots import Slot


class Popularity:
    """Scores an entity by its frequency in that slot of the relation, and a relation by its frequency."""

    def __init__(self, facts: TripleIndex) -> None:
        self.facts = facts
        self.counts = cache(self._counts)

    @property
    def entities(self) -> int:
        return self.facts.entities

    @property
    def relations(self) -> int:
        return self.facts.relations

    def _counts(self, slot: Slot) -> Tensor:
        """How often training has each entity in that slot of each relation, (R, E)."""
        triples = self.facts.triples
        counts = np.bincount(triples[:, 1] * self.entities + triples[:, slot], minlength=self.relations * self.entities)
        return torch.from_numpy(counts.reshape(self.relations, self.entities)).float()

    def logits(self, slot: Slot, batch: Batch, candidates: Tensor | None = None) -> Tensor:
        """The frequency of every candidate, (B, C)."""
        if slot is Slot.RELATION:
            counts = torch.from_numpy(self.facts.counts).float().expand(len(batch), -1)
        else:
            counts = self.counts(slot)[batch.relation]
        return counts if candidates is None else counts[:, candidates]

    def mention_logits(self, batch: Batch) -> Tensor:
        """Zero: mentions are ignored."""
        return torch.zeros(len(batch), self.relations)

    def blocks(self, count: int, width: int | None = None, memory: int = 0) -> Iterator[Ids]:
        return row_blocks(count, width or self.entities, memory)

    def plausibility(self, beliefs: Beliefs) -> Numbers:
        """log((1 + frequency of the head) · (1 + frequency of the tail)), (n,), each in its slot of the relation."""
        heads = self.counts(Slot.HEAD)[beliefs.relation, beliefs.head]
        tails = self.counts(Slot.TAIL)[beliefs.relation, beliefs.tail]
        return ((heads + 1).log() + (tails + 1).log()).double().numpy()
