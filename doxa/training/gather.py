"""Gather: the rows that a step uses are looked up once, so that a step costs only what its batch costs.

A step needs the same entity in several places (head, tail, candidate). A score of vectors alone receives them all from
one look-up; other scores work on small tables of the distinct rows. Either way the large tables receive one sparse
gradient that holds each row at most once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import embedding

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.estimators import Candidates, Vectors
from doxa.pbe import PBE
from doxa.scores import Mention, kernels
from doxa.slots import Slot
from doxa.training.objective import TermWeights, batch_loss
from doxa.training.weights import TermWeighting


class SparseStep(nn.Module):
    """The loss of a batch, computed on the gathered rows of every table of entities and relations."""

    def __init__(self, pbe: PBE, settings: Settings, weighting: TermWeighting | None = None) -> None:
        super().__init__()
        self.pbe, self.settings, self.weighting = pbe, settings, weighting
        of_relations = [f"score.{name}.weight" for name in pbe.score.relation_tables]
        if isinstance(pbe.mention, Mention) and pbe.mention.relation is not None:
            of_relations.append("mention.relation.weight")
        of_entities = [f"score.{name}.weight" for name in pbe.score.entity_tables]
        self._tables = {
            f"pbe.{name}": (name in of_entities, pbe.get_parameter(name)) for name in of_entities + of_relations
        }

    def forward(self, batch: Batch, candidates: Candidates, term_weights: TermWeights | None) -> Tensor:
        return batch_loss(self.pbe, batch, candidates, self.settings, term_weights)

    def loss(self, batch: Batch, candidates: Candidates) -> Tensor:
        """The loss summed over the batch, with sparse gradients of distinct rows for the large tables."""
        entities = Gathered.of(batch.head, batch.tail, candidates.heads.reshape(-1), candidates.tails.reshape(-1))
        relations = Gathered.of(batch.relation, candidates.relations.reshape(-1))
        term_weights = self.weighting.of(batch) if self.weighting is not None else None
        if self.pbe.score.by_vectors:
            head, tail, heads, tails = entities.rows(self.pbe.score.entity.weight)
            relation, candidate_relations = relations.rows(self.pbe.score.get_parameter("relation.weight"))
            pairs = zip((heads, candidate_relations, tails), map(candidates.of, Slot), strict=True)
            vectors = Vectors(head, relation, tail, *(rows.view(*ids.shape, rows.shape[-1]) for rows, ids in pairs))
            return batch_loss(self.pbe, batch, candidates, self.settings, term_weights, vectors)
        return self._loss_on_small_tables(batch, candidates, entities, relations, term_weights)

    def _loss_on_small_tables(
        self,
        batch: Batch,
        candidates: Candidates,
        entities: Gathered,
        relations: Gathered,
        term_weights: TermWeights | None,
    ) -> Tensor:
        head, tail, heads, tails = entities.places
        relation, candidate_relations = relations.places
        small = {
            name: embedding(entities.ids if of_entities else relations.ids, table, sparse=True)
            for name, (of_entities, table) in self._tables.items()
        }
        local = replace(batch, head=head, relation=relation, tail=tail)
        true = candidates.true_places(batch)
        drawn = Candidates(heads, candidate_relations, tails, true, candidates.log_share)
        loss: Tensor = functional_call(self, small, (local, drawn, term_weights))
        return loss


@dataclass(frozen=True)
class Gathered:
    """Columns of ids, end to end."""

    columns: Tensor
    lengths: list[int]

    @classmethod
    def of(cls, *columns: Tensor) -> Gathered:
        return cls(torch.cat(columns), [len(column) for column in columns])

    @cached_property
    def _distinct(self) -> tuple[Tensor, Tensor]:
        ids, places = kernels.deduplicate(self.columns.numpy())
        return torch.from_numpy(ids), torch.from_numpy(places)

    @property
    def ids(self) -> Tensor:
        """The distinct ids."""
        return self._distinct[0]

    @property
    def places(self) -> tuple[Tensor, ...]:
        """For each column its places among the distinct ids."""
        return torch.split(self._distinct[1], self.lengths)

    def rows(self, table: Tensor) -> tuple[Tensor, ...]:
        """The rows of each column, (len(column), d); their gradients return to the table summed, each row once."""
        columns: tuple[Tensor, ...] = _Rows.apply(table, self)  # type: ignore[no-untyped-call]
        return columns


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, gathered: Gathered) -> tuple[Tensor, ...]:
        ctx.shape, ctx.gathered = table.shape, gathered
        return torch.split(table.index_select(0, gathered.columns), gathered.lengths)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gathered = ctx.gathered
        places, rows = torch.cat(gathered.places), torch.cat(gradients)
        summed = torch.from_numpy(kernels.sum_rows(places.numpy(), rows.numpy(), 0, len(gathered.ids)))
        return torch.sparse_coo_tensor(gathered.ids[None], summed, ctx.shape, check_invariants=False), None
