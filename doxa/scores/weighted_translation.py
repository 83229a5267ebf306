"""Weighted translation: a relation of many tails or many heads is held less strictly to its step.

D(h, r, t) = α − w_r ‖h + r − t‖,   w_r = 1 / log(heads per tail of r + tails per head of r)
                                                                  (TransM; Fan et al., 2014)
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from doxa.config import Settings
from doxa.data.triples import TripleIndex
from doxa.scores.base import rows
from doxa.scores.translation import Translation


class WeightedTranslation(Translation):
    """D(h, r, t) = α − w_r ‖h + r − t‖; the weights are counted, not model, and 1 until they are."""

    formula = "α − w_r ‖h + r − t‖"
    relation_tables = ("relation", "weight")

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator | None) -> None:
        super().__init__(entities, relations, settings, generator)
        self.weight = nn.Embedding(relations, 1).requires_grad_(False)
        nn.init.ones_(self.weight.weight)

    def prepare(self, facts: TripleIndex) -> None:
        crowd = np.maximum(facts.heads_per_tail, 1) + np.maximum(facts.tails_per_head, 1)
        self.weight.weight.copy_(torch.from_numpy(1 / np.log(crowd))[:, None])

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return self._weighted(super().forward(head, relation, tail), self.weight(relation)[:, 0])

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._weighted(super().tails(head, relation, candidates), self.weight(relation))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._weighted(super().heads(relation, tail, candidates), self.weight(relation))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._weighted(super().relations(head, tail, candidates), rows(self.weight, candidates).T)

    def _weighted(self, unweighted: Tensor, weight: Tensor) -> Tensor:
        """α − w d from α − d."""
        return self.alpha - weight * (self.alpha - unweighted)
