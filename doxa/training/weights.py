"""TermWeights: how much the head and the tail term of each belief count beside the weights of Eq. 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids


class TermWeights(NamedTuple):
    """Factors of the head and the tail term of each belief of a batch, (B,)."""

    head: Tensor
    tail: Tensor


class TermWeighting:
    """Tells the term_weights of a batch from counted facts.

    `by_side`: which side of a belief is replaced more often in margin ranking, by the Bernoulli rule. `crowd`: a head
    or tail asked for with more answers than so many counts as if it had just so many, lest hubs outweigh all else.
    """

    def __init__(self, facts: TripleIndex, by_side: bool, crowd: int) -> None:
        self.facts, self.crowd = facts, crowd
        self.head_share = corrupted_head_share(facts) if by_side else torch.full((facts.relations,), 0.5)

    def of(self, batch: Batch) -> TermWeights:
        share = self.head_share[batch.relation]
        head, tail = 2 * share, 2 * (1 - share)
        if self.crowd:
            heads, relations, tails = batch.head.numpy(), batch.relation.numpy(), batch.tail.numpy()
            head *= self._heard(self.facts.head_counts(relations, tails))
            tail *= self._heard(self.facts.tail_counts(heads, relations))
        return TermWeights(head, tail)

    def _heard(self, answers: Ids) -> Tensor:
        return torch.from_numpy(self.crowd / np.maximum(answers, self.crowd)).float()


def term_weighting(settings: Settings, facts: Callable[[], TripleIndex]) -> TermWeighting | None:
    """What the settings ask for; None, and facts need not be counted, where all terms count alike."""
    by_side = settings.objective == "margin" and settings.corruption == "bernoulli"
    return TermWeighting(facts(), by_side, settings.crowd) if by_side or settings.crowd else None


def corrupted_head_share(facts: TripleIndex) -> Tensor:
    """Per relation, how often a corrupted belief has its head replaced, (R,), by the Bernoulli rule

        tails per head / (tails per head + heads per tail)            (Wang et al., 2014)

    so that a one-to-many relation has mostly its head replaced: a random tail might well be true.
    """
    tails, heads = np.maximum(facts.tails_per_head, 1), np.maximum(facts.heads_per_tail, 1)
    return torch.from_numpy(tails / (tails + heads)).float()
