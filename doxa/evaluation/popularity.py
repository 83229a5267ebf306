"""The popularity baseline: answer with what is most frequent for that relation in training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids


class Popularity:
    """Scores an entity by how often training has it in that position of that relation, a relation by its frequency."""

    def __init__(self, facts: TripleIndex) -> None:
        self.facts = facts

    @property
    def entities(self) -> int:
        return self.facts.entities

    @property
    def relations(self) -> int:
        return self.facts.relations

    @cached_property
    def _heads(self) -> Tensor:
        return self._counts(0)

    @cached_property
    def _tails(self) -> Tensor:
        return self._counts(2)

    def _counts(self, column: int) -> Tensor:
        triples = self.facts.triples
        counts = np.bincount(
            triples[:, 1] * self.entities + triples[:, column], minlength=self.relations * self.entities
        )
        return torch.from_numpy(counts.reshape(self.relations, self.entities)).float()

    def tail_logits(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        counts = self._tails[relation]
        return counts if candidates is None else counts[:, candidates]

    def head_logits(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        counts = self._heads[relation]
        return counts if candidates is None else counts[:, candidates]

    def relation_logits(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        counts = torch.from_numpy(np.bincount(self.facts.triples[:, 1], minlength=self.relations)).float()
        return (counts if candidates is None else counts[candidates]).expand(len(head), -1)

    @property
    def mention_exponent(self) -> float:
        return 1.0

    def mention_logits(self, words: Tensor, offsets: Tensor, candidates: Tensor | None = None) -> Tensor:
        return torch.zeros(len(offsets) - 1, self.relations if candidates is None else len(candidates))

    def blocks(self, count: int, width: int | None = None) -> Iterator[Ids]:
        return (np.arange(start, min(start + 1024, count)) for start in range(0, count, 1024))

    def plausibility(self, beliefs: Beliefs) -> Numbers:
        """log of how often the head and the tail were seen in their positions, one added to each."""
        heads = self._heads[beliefs.relation, beliefs.head]
        tails = self._tails[beliefs.relation, beliefs.tail]
        return ((heads + 1).log() + (tails + 1).log()).double().numpy()
