"""Term weights: how much the head and the tail term of each belief count beside the weights of the settings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.triples import TripleIndex
from doxa.slots import ENTITY_SLOTS, Slot


class TermWeighting:
    """Computes the term weights of a batch from counts of known facts.

    `bernoulli` weights the slot of a belief that margin ranking corrupts more often. `max_answers` caps a query's
    weight: a query with more known answers contributes as if it had that many, so that hubs do not outweigh the rest.
    """

    def __init__(self, facts: TripleIndex, bernoulli: bool, max_answers: int) -> None:
        self.facts, self.max_answers = facts, max_answers
        self.head_share = head_corruption_share(facts) if bernoulli else torch.full((facts.relations,), 0.5)

    def of(self, batch: Batch) -> dict[str, Tensor]:
        """A factor per belief for the head term and for the tail term, (B,) each."""
        share = self.head_share[batch.relation]
        weights = {"head": 2 * share, "tail": 2 * (1 - share)}
        if self.max_answers:
            columns = [batch.column(slot).numpy() for slot in Slot]
            for slot in ENTITY_SLOTS:
                answers = self.facts.count_answers(slot, *columns)
                cap = self.max_answers / np.maximum(answers, self.max_answers)
                weights[str(slot)] *= torch.from_numpy(cap).float()
        return weights


def term_weighting(settings: Settings, facts: Callable[[], TripleIndex]) -> TermWeighting | None:
    """The weighting that the settings ask for; None, without counting facts, where all terms count alike."""
    bernoulli = settings.objective == "margin" and settings.corruption == "bernoulli"
    return TermWeighting(facts(), bernoulli, settings.max_answers) if bernoulli or settings.max_answers else None


def head_corruption_share(facts: TripleIndex) -> Tensor:
    """The share of corrupted triples of each relation whose head is replaced, (R,), by the Bernoulli rule

        tails per head / (tails per head + heads per tail)            (Wang et al., 2014)

    so that a one-to-many relation has mostly its head replaced: a random tail might be true.
    """
    tails, heads = np.maximum(facts.tails_per_head, 1), np.maximum(facts.heads_per_tail, 1)
    return torch.from_numpy(tails / (tails + heads)).float()
