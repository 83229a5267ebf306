"""Mention: the words that stated a belief point to its relation.

F(r, m) = (Wᵀ φ(m)) · r + β                                                         (Eq. 11)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.scores.base import table


class Mention(nn.Module):
    """F(r, m) = (Wᵀ φ(m)) · r + β: one vector per word, in the space of the relations (Eq. 11).

    Words share the relation vectors r of the score. A score without such vectors has `relations` of them made here.
    """

    def __init__(self, words: int, dimension: int, relations: int, generator: torch.Generator | None) -> None:
        super().__init__()
        zeros = torch.zeros(words, dimension)
        self.word = nn.EmbeddingBag(words, dimension, mode="sum", sparse=True, include_last_offset=True, _weight=zeros)
        self.beta = nn.Parameter(torch.zeros(()))
        self.relation = table(relations, dimension, generator) if relations else None

    def said(self, words: Tensor, offsets: Tensor) -> Tensor:
        """Wᵀ φ(m): words of B mentions end to end and their B + 1 offsets → (B, d)."""
        summed: Tensor = self.word(words, offsets)
        return summed

    def forward(self, said: Tensor, relations: Tensor) -> Tensor:
        """F of every mention with every one of C relation vectors, (B, d), (C, d) → (B, C)."""
        return said @ relations.T + self.beta

    def each(self, said: Tensor, relations: Tensor) -> Tensor:
        """F of each mention with the relation vector beside it, (B, d), (B, d) → (B,)."""
        return (said * relations).sum(1) + self.beta
