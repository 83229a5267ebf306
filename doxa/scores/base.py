"""What every score D(h, r, t) promises: one number per triple, and the same numbers for many candidates at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from doxa.config import check
from doxa.data.triples import TripleIndex
from doxa.scores.pairwise import Scores
from doxa.slots import Slot


class Triple(NamedTuple):
    """Vectors, or their gradients, of the heads, relations and tails of a batch, (B, d) each."""

    head: Tensor
    relation: Tensor
    tail: Tensor


class Sizes(NamedTuple):
    """The sizes of a score: entities, relations, and the dimension of their vectors."""

    entities: int
    relations: int
    dimension: int


@dataclass(frozen=True)
class ScoreOptions:
    """Options of a score; its own file declares them as fields."""

    def __post_init__(self) -> None:
        check(self)


class Score(nn.Module):
    """Plausibility D(h, r, t) of triples of ids; larger is more plausible.

    `forward` scores triples one by one, `against` scores B queries against C candidates that all of them share. The two
    agree. Parameters of entities and relations lie in embeddings with a row for each; `entity_tables` and
    `relation_tables` name them. `formula` is for `doxa systems`, `default_scale` is the factor on the score inside the
    softmax, and `tells_relations` is False for a score that does not depend on r.
    """

    formula: str
    Options: type[ScoreOptions] = ScoreOptions
    entity_tables: tuple[str, ...] = ("entity",)
    relation_tables: tuple[str, ...] = ("relation",)
    default_scale: float = 4.0
    tells_relations: bool = True

    @property
    def entity_metric(self) -> str:
        """How entity vectors compare with the vector `VectorScore.target` of a query: product, L1 or L2.

        The better they compare, the larger is D. Empty where D is no such comparison.
        """
        return ""

    def __init__(self, sizes: Sizes, options: ScoreOptions, generator: torch.Generator | None) -> None:
        super().__init__()
        self.entity_count, self.relation_count, self.dimension = sizes
        self.entity = embedding(sizes.entities, sizes.dimension, generator)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """D of each triple, (B,), (B,), (B,) → (B,)."""
        raise NotImplementedError

    def against(
        self, slot: Slot, head: Tensor, relation: Tensor, tail: Tensor, candidates: Tensor | None = None
    ) -> Scores:
        """D of B queries with every candidate in the missing slot, (B, C); all entities (relations) without candidates.

        The column of the missing slot is not read.
        """
        match slot:
            case Slot.HEAD:
                return self.heads(relation, tail, candidates)
            case Slot.RELATION:
                return self.relations(head, tail, candidates)
            case Slot.TAIL:
                return self.tails(head, relation, candidates)

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        """The queries (?, r, t)."""
        raise NotImplementedError

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        """The queries (h, ?, t)."""
        raise NotImplementedError

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        """The queries (h, r, ?)."""
        raise NotImplementedError

    def prepare(self, facts: TripleIndex) -> None:
        """Take from the training facts what the score counts and does not learn; most count nothing."""

    def make_neutral(self) -> None:
        """Let every relation map entities to themselves, so that D is highest where h = t, if the score can."""

    def freeze_bias(self) -> None:
        """Train no bias α, where the score has one."""

    def cubes(self, rows: Sequence[Tensor]) -> Tensor:
        """N3: sum of the cubed absolute coordinates of h, r and t, (B,) (Lacroix et al., 2018)."""
        return torch.stack([(row.abs() ** 3).sum(-1) for row in rows]).sum(0)

    def squares(self, rows: Sequence[Tensor]) -> Tensor:
        """L2: sum of the squares of every parameter that the score of a triple uses, (B,)."""
        return torch.stack([(row * row).sum(-1) for row in rows]).sum(0)

    def penalty(self, relation: Tensor) -> Tensor | None:
        """The score's own regularization of each relation, (B,), if it has one."""
        return None

    @property
    def by_vectors(self) -> bool:
        """Whether D depends on one vector of each of h, r and t alone (a `VectorScore` without further tables)."""
        return isinstance(self, VectorScore) and len(self.entity_tables) == len(self.relation_tables) == 1

    def rows(self, head: Tensor, relation: Tensor, tail: Tensor) -> list[Tensor]:
        """Every row of every table that the triples use."""
        of_entities = [self.get_submodule(name)(ids) for name in self.entity_tables for ids in (head, tail)]
        return of_entities + [self.get_submodule(name)(relation) for name in self.relation_tables]


class VectorScore(Score):
    """A score that is a function of the three vectors h, r and t alone.

    Its file says how the vectors of queries and candidates compare; this class looks the vectors up by id.
    """

    def __init__(self, sizes: Sizes, options: ScoreOptions, generator: torch.Generator | None) -> None:
        super().__init__(sizes, options, generator)
        self.relation = embedding(sizes.relations, sizes.dimension, generator)

    def each(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """D of vectors row by row, (B, d) each → (B,)."""
        raise NotImplementedError

    def pairs(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Scores:
        """D of every query with every candidate vector, (B, d), (C, d) → (B, C); the missing slot is not read."""
        raise NotImplementedError

    def target(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """The vector that `pairs` compares with candidates, (B, d), where the score has an `entity_metric`."""
        raise NotImplementedError

    def end_to_end(self, tables: Sequence[Tensor]) -> Tensor:
        """Vectors of several models whose score is the sum of theirs, where the score is a product."""
        return torch.cat(list(tables), dim=1)

    def each_candidate(self, slot: Slot, h: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        """D of every query with the candidates of its row, (B, d), (B, k, d) → (B, k); the missing slot is not read."""
        vectors = [vector[:, None] for vector in (h, r, t)]
        vectors[slot] = candidates
        return self.each(*vectors)

    @property
    def by_hand(self) -> bool:
        """Whether the score has `pull`, so that training needs no autograd for a softmax over candidates."""
        return False

    def pull(self, slot: Slot, vectors: Triple, of_points: Tensor, sums: Triple) -> None:
        """Add to `sums` the gradients of the two known vectors, from that of the points that `pairs` compares."""
        raise NotImplementedError

    def pull_squares(self, slot: Slot, vectors: Triple, of_half_squares: Tensor, sums: Triple) -> None:
        """Add the gradients from that of ½ `squares`, where `pairs` compares by `Turns`."""
        raise NotImplementedError

    def pull_relations(self, relations: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of relation vectors from that of the form in which the score uses them; may overwrite it."""
        return gradient

    def add_cubes(self, vectors: Tensor, factor: float, gradient: Tensor) -> float:
        """The sum of cubes as in `cubes`; its gradient times a factor is added."""
        from doxa.scores import gradient_kernels  # slow to load, and for training alone

        kind = vectors.numpy().dtype.type
        return float(gradient_kernels.add_cubes(vectors.numpy(), kind(factor), gradient.numpy()))

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return self.each(self.entity(head), self.relation(relation), self.entity(tail))

    def against(
        self, slot: Slot, head: Tensor, relation: Tensor, tail: Tensor, candidates: Tensor | None = None
    ) -> Scores:
        vectors = rows(self.relation if slot is Slot.RELATION else self.entity, candidates)
        h = vectors if slot is Slot.HEAD else self.entity(head)
        r = vectors if slot is Slot.RELATION else self.relation(relation)
        t = vectors if slot is Slot.TAIL else self.entity(tail)
        return self.pairs(slot, h, r, t, vectors)


def allocate(count: int, width: int) -> Tensor:
    """Memory for a table; partitioned training puts a mapped file in place of it."""
    return torch.empty(count, width)


def embedding(count: int, width: int, generator: torch.Generator | None, spread: float | None = None) -> nn.Embedding:
    """A row for each of `count` names: normal numbers of standard deviation `spread`, else rows of length about 1.

    Without a generator the numbers stay undefined, for a model whose weights are about to be loaded.
    """
    table = nn.Embedding(count, width, _weight=allocate(count, width))
    if generator is not None:
        nn.init.normal_(table.weight, std=width**-0.5 if spread is None else spread, generator=generator)
    return table


def rows(table: nn.Embedding, candidates: Tensor | None) -> Tensor:
    """The candidates' vectors; all of them, without a copy, when `candidates` is None."""
    if candidates is None:
        return table.weight
    vectors: Tensor = table(candidates)
    return vectors
