"""Mention: the words that stated a belief point to its relation.

F(r, m) = (Wᵀ φ(m)) · r + β                                                         (Eq. 11)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Mention(nn.Module):
    """F(r, m) = (Wᵀ φ(m)) · r + β: one vector per word, in the space of the relations (Eq. 11)."""

    def __init__(self, words: int, dimension: int) -> None:
        super().__init__()
        self.word = nn.EmbeddingBag(words, dimension, mode="sum", sparse=True, include_last_offset=True)
        self.beta = nn.Parameter(torch.zeros(()))
        nn.init.zeros_(self.word.weight)

    def forward(self, words: Tensor, offsets: Tensor, relations: Tensor) -> Tensor:
        """Words of B mentions end to end, their B + 1 offsets, C relation vectors (C, d) → (B, C)."""
        said: Tensor = self.word(words, offsets)
        return said @ relations.T + self.beta

    def truth(self, words: Tensor, offsets: Tensor, relations: Tensor) -> Tensor:
        """F of each mention with one relation vector of its own, (B, d) → (B,)."""
        said: Tensor = self.word(words, offsets)
        return (said * relations).sum(1) + self.beta
