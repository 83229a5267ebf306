"""Weighted translation: the step of a relation with many answers is enforced less strictly.

D(h, r, t) = α − w_r ‖h + r − t‖,   w_r = 1 / log(heads per tail of r + tails per head of r)
                                                              (TransM; Fan et al., 2014)
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from doxa.data.triples import TripleIndex
from doxa.scores.base import Sizes, rows
from doxa.scores.pairwise import Scores, table_of
from doxa.scores.translation import Translation, TranslationOptions
from doxa.slots import Slot


class WeightedTranslation(Translation):
    """D(h, r, t) = α − w_r ‖h + r − t‖; the weights are counted, not trained, and 1 until they are counted."""

    formula = "α − w_r ‖h + r − t‖"
    relation_tables = ("relation", "weight")

    def __init__(self, sizes: Sizes, options: TranslationOptions, generator: torch.Generator | None) -> None:
        super().__init__(sizes, options, generator)
        self.weight = nn.Embedding(sizes.relations, 1).requires_grad_(False)
        nn.init.ones_(self.weight.weight)

    def prepare(self, facts: TripleIndex) -> None:
        answers = np.maximum(facts.heads_per_tail, 1) + np.maximum(facts.tails_per_head, 1)
        self.weight.weight.copy_(torch.from_numpy(1 / np.log(answers))[:, None])

    @property
    def entity_metric(self) -> str:
        return ""

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return self._weighted(super().forward(head, relation, tail), self.weight(relation)[:, 0])

    def against(
        self, slot: Slot, head: Tensor, relation: Tensor, tail: Tensor, candidates: Tensor | None = None
    ) -> Scores:
        unweighted = table_of(super().against(slot, head, relation, tail, candidates))
        weight = rows(self.weight, candidates).T if slot is Slot.RELATION else self.weight(relation)
        return self._weighted(unweighted, weight)

    def _weighted(self, unweighted: Tensor, weight: Tensor) -> Tensor:
        """α − w d from α − d."""
        return self.alpha - weight * (self.alpha - unweighted)
