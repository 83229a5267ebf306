"""Queries held out for validation: beliefs with one part removed, and the probability of the right answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.pbe import PBE
from doxa.slots import Slot

KINDS = ("head", "tail", "relation", "relation_with_mention")
"""Kinds of query: the missing slot, and for relations whether a mention is given."""


@dataclass(frozen=True, eq=False)
class Queries:
    """Beliefs as queries of one kind; each has its right answer among the candidates.

    Other answers in `known` are no candidates: the query asks for the missing one.
    """

    pbe: PBE
    kind: str
    beliefs: Beliefs
    known: TripleIndex
    mention_exponent: float

    def __len__(self) -> int:
        return len(self.beliefs)

    def log_probabilities(self, rows: Ids) -> tuple[Tensor, Tensor]:
        """Log probabilities of all candidates of these queries, (B, C), and the column of each right answer, (B,)."""
        slot, batch = missing_slot(self.kind), Batch.of(self.beliefs, rows)
        truth = batch.column(slot)
        query, answer = self.known.answers(slot, *self.beliefs.triples[rows].T)
        other = answer != truth.numpy()[query]
        without = query[other], answer[other]
        if self.kind == "relation_with_mention":
            exponent = self.mention_exponent
            distribution = self.pbe.relation_distribution(batch, mention_exponent=exponent, without=without)
        else:
            distribution = self.pbe.distribution(slot, batch, without=without)
        return distribution.log_probabilities, torch.searchsorted(distribution.columns, truth)


def held_out_queries(
    pbe: PBE, beliefs: Beliefs, known: TripleIndex, kind: str, mention_exponent: float = 1.0
) -> Queries:
    """The beliefs as queries of that kind, as far as their answer is a candidate."""
    slot = missing_slot(kind)
    if kind == "relation_with_mention":
        beliefs = beliefs.where(beliefs.mention.lengths > 0)
    candidates = np.isin(beliefs.triples[:, slot], pbe.seen[slot].numpy())
    return Queries(pbe, kind, beliefs.where(candidates), known, mention_exponent)


def missing_slot(kind: str) -> Slot:
    """The slot that a kind of query asks for."""
    return Slot.RELATION if kind.startswith("relation") else Slot[kind.upper()]
