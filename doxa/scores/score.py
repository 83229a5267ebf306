"""What every D(h, r, t) promises: one number for a triple, and the same numbers for many candidates at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Score(nn.Module):
    """Plausibility D(h, r, t) of triples given by ids; larger is more plausible.

    `tails`, `heads` and `relations` score B questions against C candidates that all of them share, (B, C),
    without a loop; `candidates=None` stands for all entities (relations). They equal `forward` one by one.
    `entity_tables` and `relation_tables` name the embeddings with a row per entity (relation); `default_scale` is the
    factor on the score inside probabilities that does well when none is set.
    """

    entity: nn.Embedding
    relation: nn.Embedding
    entity_tables: tuple[str, ...] = ("entity",)
    relation_tables: tuple[str, ...] = ("relation",)
    default_scale: float = 4.0

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        raise NotImplementedError

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def sizes(self, vectors: Tensor) -> Tensor:
        """The size of every coordinate, for the penalty below."""
        return vectors.abs()

    def cubes(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """N3: the sum of the cubed sizes of all coordinates of h, r and t, (B,) (Lacroix et al., 2018)."""
        vectors = (self.entity(head), self.relation(relation), self.entity(tail))
        return torch.stack([(self.sizes(vector) ** 3).sum(-1) for vector in vectors]).sum(0)


def rows(table: nn.Embedding, candidates: Tensor | None) -> Tensor:
    """The candidates' vectors; all of them, without a copy, when `candidates` is None."""
    if candidates is None:
        return table.weight
    vectors: Tensor = table(candidates)
    return vectors
