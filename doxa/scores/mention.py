"""Mention: the words that state a belief predict its relation.

F(r, m) = (Wᵀ φ(m)) · r + β                                      (Eq. 11)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.scores.base import embedding


class Mention(nn.Module):
    """F(r, m) = (Wᵀ φ(m)) · r + β: one vector per word, in the space of the relations (Eq. 11).

    Words share the relation vectors r of the score. A score without relation vectors gets `relations` of them here.
    """

    def __init__(self, words: int, dimension: int, relations: int, generator: torch.Generator | None) -> None:
        super().__init__()
        zeros = torch.zeros(words, dimension)
        self.word = nn.EmbeddingBag(words, dimension, mode="sum", sparse=True, include_last_offset=True, _weight=zeros)
        self.beta = nn.Parameter(torch.zeros(()))
        self.relation = embedding(relations, dimension, generator) if relations else None

    def embed(self, words: Tensor, offsets: Tensor) -> Tensor:
        """Wᵀ φ(m): words of B mentions end to end and their B + 1 offsets → (B, d)."""
        summed: Tensor = self.word(words, offsets)
        return summed

    def forward(self, mentions: Tensor, relations: Tensor) -> Tensor:
        """F of every mention vector with every relation vector, (B, d), (C, d) → (B, C) (Eq. 11)."""
        return mentions @ relations.T + self.beta

    def each(self, mentions: Tensor, relations: Tensor) -> Tensor:
        """F row by row, (B, d), (B, d) → (B,) (Eq. 11)."""
        return (mentions * relations).sum(1) + self.beta
