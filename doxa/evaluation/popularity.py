"""The popularity baseline: answer with the most frequent entity or relation of training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from torch import Tensor

from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.slots import Slot

BLOCK = 1024


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

    def tail_logits(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        counts = self.counts(Slot.TAIL)[relation]
        return counts if candidates is None else counts[:, candidates]

    def head_logits(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        counts = self.counts(Slot.HEAD)[relation]
        return counts if candidates is None else counts[:, candidates]

    def relation_logits(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        counts = torch.from_numpy(self.facts.counts).float()
        return (counts if candidates is None else counts[candidates]).expand(len(head), -1)

    def mention_logits(self, words: Tensor, offsets: Tensor, candidates: Tensor | None = None) -> Tensor:
        return torch.zeros(len(offsets) - 1, self.relations if candidates is None else len(candidates))

    def blocks(self, count: int, width: int | None = None) -> Iterator[Ids]:
        return (np.arange(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK))

    def plausibility(self, beliefs: Beliefs) -> Numbers:
        """log((1 + frequency of the head) · (1 + frequency of the tail)), (n,), each in its slot of the relation."""
        heads = self.counts(Slot.HEAD)[beliefs.relation, beliefs.head]
        tails = self.counts(Slot.TAIL)[beliefs.relation, beliefs.tail]
        return ((heads + 1).log() + (tails + 1).log()).double().numpy()
