"""Mention: the words that state a belief predict its relation.

F(r, m) = (Wᵀ φ(m)) · r + β                                      (Eq. 11)

Jointly trained, words share the relation vectors r of the score (the paper). Separately trained, each r is a unit
vector: W holds a weight for every word and relation, β a number for every relation, and Pr(r|m) is a multinomial
logistic regression, which no other parameter of the model constrains.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.scores.base import embedding


def _bag(words: int, width: int) -> nn.EmbeddingBag:
    zeros = torch.zeros(words, width)
    return nn.EmbeddingBag(words, width, mode="sum", sparse=True, include_last_offset=True, _weight=zeros)


class Mention(nn.Module):
    """F(r, m) = (Wᵀ φ(m)) · r + β: one vector per word, in the space of the relations (Eq. 11).

    Words share the relation vectors r of the score. A score without relation vectors gets `relations` of them here.
    """

    separate = False

    def __init__(self, words: int, dimension: int, relations: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.word = _bag(words, dimension)
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
        return (mentions * relations).sum(-1) + self.beta

    def each_candidate(self, mentions: Tensor, relations: Tensor) -> Tensor:
        """F of every mention with the relations of its row, (B, d), (B, k, d) → (B, k) (Eq. 11)."""
        return self.each(mentions[:, None], relations)


class SeparateMention(nn.Module):
    """F(r, m) = Σ over words of W[word, r] + β_r: one weight for each word and relation (Eq. 11, r a unit vector).

    The gradient steps of the score leave these weights alone; `doxa.training.words` fits them. `l2` is the strength of
    their L2 regularization, chosen on validation beliefs.
    """

    separate = True
    l2: Tensor

    def __init__(self, words: int, relations: int) -> None:
        super().__init__()
        self.word = _bag(words, relations).requires_grad_(False)
        self.beta = nn.Parameter(torch.zeros(relations), requires_grad=False)
        self.register_buffer("l2", torch.ones(()))

    def embed(self, words: Tensor, offsets: Tensor) -> Tensor:
        """F(r, m) of all relations: words of B mentions and their B + 1 offsets → (B, R); 0 without words (Eq. 11)."""
        summed: Tensor = self.word(words, offsets)
        return summed.addcmul_(self.beta, (offsets.diff() > 0).to(summed.dtype)[:, None])
