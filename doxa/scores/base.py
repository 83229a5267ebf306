"""What every D(h, r, t) promises: one number for a triple, and the same numbers for many candidates at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from doxa.config import Settings
from doxa.data.triples import TripleIndex
from doxa.scores.pairwise import Scores, table_of


class Score(nn.Module):
    """Plausibility D(h, r, t) of triples given by ids; larger is more plausible.

    `tails`, `heads` and `relations` score B questions against C candidates that all of them share, (B, C), without a
    loop over candidates; `candidates=None` stands for all entities (relations). They equal `forward` one by one.

    What is learnt about entities and relations lies in embeddings with a row for each, which `entity_tables` and
    `relation_tables` name. `formula` is what `doxa systems` prints, `default_scale` the factor on the score inside
    probabilities that does well when none is set, and `tells_relations` is False for a score that does not depend on r.
    """

    formula: str
    entity_tables: tuple[str, ...] = ("entity",)
    relation_tables: tuple[str, ...] = ("relation",)
    default_scale: float = 4.0
    tells_relations: bool = True

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator | None) -> None:
        super().__init__()
        self.entity_count, self.relation_count, self.dimension = entities, relations, settings.dimension
        self.entity = table(entities, settings.dimension, generator)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        raise NotImplementedError

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def prepare(self, facts: TripleIndex) -> None:
        """Note what the score takes from the facts themselves, before learning; most take nothing."""

    def make_neutral(self) -> None:
        """Start from relations that leave entities as they are, so that D is highest where h = t; if there are such."""

    def cubes(self, rows: Sequence[Tensor]) -> Tensor:
        """N3: the sum of the cubed sizes of all coordinates of h, r and t, (B,) (Lacroix et al., 2018)."""
        return torch.stack([(row.abs() ** 3).sum(-1) for row in rows]).sum(0)

    def squares(self, rows: Sequence[Tensor]) -> Tensor:
        """L2: the sum of the squares of all that the score of a triple is made of, (B,)."""
        return torch.stack([(row * row).sum(-1) for row in rows]).sum(0)

    def slant(self, relation: Tensor) -> Tensor:
        """How far a relation breaks the soft constraint of its score, (B,); 0 where there is none."""
        return self.entity.weight.new_zeros(len(relation))

    @property
    def by_vectors(self) -> bool:
        """Whether D needs no more than one vector of each of h, r and t (a `VectorScore` without further tables)."""
        return isinstance(self, VectorScore) and len(self.entity_tables) == len(self.relation_tables) == 1

    def rows(self, head: Tensor, relation: Tensor, tail: Tensor) -> list[Tensor]:
        """Every row of every table that the triples use."""
        of_entities = [self.get_submodule(name)(ids) for name in self.entity_tables for ids in (head, tail)]
        return of_entities + [self.get_submodule(name)(relation) for name in self.relation_tables]


class VectorScore(Score):
    """A score that is a function of the three vectors h, r and t alone.

    Such a score says how each vector given and every candidate's compare; looking vectors up by their ids is done here.
    """

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator | None) -> None:
        super().__init__(entities, relations, settings, generator)
        self.relation = table(relations, settings.dimension, generator)

    def each(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """D of the vectors beside each other, (B, d) each → (B,)."""
        raise NotImplementedError

    def with_tails(self, h: Tensor, r: Tensor, tails: Tensor) -> Scores:
        """D of every h, r with every candidate's vector, (B, d), (B, d), (C, d) → (B, C)."""
        raise NotImplementedError

    def with_heads(self, r: Tensor, t: Tensor, heads: Tensor) -> Scores:
        raise NotImplementedError

    def with_relations(self, h: Tensor, t: Tensor, relations: Tensor) -> Scores:
        raise NotImplementedError

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return self.each(self.entity(head), self.relation(relation), self.entity(tail))

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        return table_of(self.with_tails(self.entity(head), self.relation(relation), rows(self.entity, candidates)))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return table_of(self.with_heads(self.relation(relation), self.entity(tail), rows(self.entity, candidates)))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return table_of(self.with_relations(self.entity(head), self.entity(tail), rows(self.relation, candidates)))


def table(count: int, width: int, generator: torch.Generator | None, spread: float | None = None) -> nn.Embedding:
    """A row for each of `count` things: normal numbers of standard deviation `spread`, else rows of length about 1.

    Without a generator the numbers are left as they lie in memory, for a model about to be given its weights.
    """
    made = nn.Embedding(count, width, _weight=torch.empty(count, width))
    if generator is not None:
        nn.init.normal_(made.weight, std=width**-0.5 if spread is None else spread, generator=generator)
    return made


def rows(table: nn.Embedding, candidates: Tensor | None) -> Tensor:
    """The candidates' vectors; all of them, without a copy, when `candidates` is None."""
    if candidates is None:
        return table.weight
    vectors: Tensor = table(candidates)
    return vectors
