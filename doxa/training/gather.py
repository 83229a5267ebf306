"""The rows a step touches: looked up once, so that a step's cost is that of its batch alone.

A step needs the same entity in several places (head, tail, candidate). A score of vectors alone is given them all from
one look-up; others work on small tables of the distinct rows. Either way the large tables receive one gradient in which
each row stands at most once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import embedding

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.pbe import PBE
from doxa.scores import kernels
from doxa.training.candidates import Candidates
from doxa.training.objective import Rows, total
from doxa.training.weights import TermWeighting, TermWeights


class SparseStep(nn.Module):
    """The objective of a batch, computed on the touched rows of every table of entities and relations."""

    def __init__(self, pbe: PBE, settings: Settings, term_weighting: TermWeighting | None = None) -> None:
        super().__init__()
        self.pbe, self.settings, self.term_weighting = pbe, settings, term_weighting
        of_relations = [f"score.{name}.weight" for name in pbe.score.relation_tables]
        if pbe.mention is not None and pbe.mention.relation is not None:
            of_relations.append("mention.relation.weight")
        of_entities = [f"score.{name}.weight" for name in pbe.score.entity_tables]
        self._tables = {
            f"pbe.{name}": (name in of_entities, pbe.get_parameter(name)) for name in of_entities + of_relations
        }

    def forward(self, batch: Batch, candidates: Candidates, term_weights: TermWeights | None) -> Tensor:
        return total(self.pbe, batch, candidates, self.settings, term_weights)

    def loss(self, batch: Batch, candidates: Candidates) -> Tensor:
        """The sum of `objective` over the batch, with sparse gradients of distinct rows for the large tables."""
        entities = _Touched.of(batch.head, batch.tail, candidates.heads, candidates.tails)
        relations = _Touched.of(batch.relation, candidates.relations)
        term_weights = self.term_weighting.of(batch) if self.term_weighting is not None else None
        if self.pbe.score.by_vectors:
            head, tail, heads, tails = entities.rows(self.pbe.score.entity.weight)
            relation, relations_drawn = relations.rows(self.pbe.score.get_parameter("relation.weight"))
            rows = Rows(head, relation, tail, heads, relations_drawn, tails)
            return total(self.pbe, batch, candidates, self.settings, term_weights, rows)
        head, tail, heads, tails = entities.places
        relation, relations_drawn = relations.places
        small = {
            name: embedding(entities.ids if of_entities else relations.ids, table, sparse=True)
            for name, (of_entities, table) in self._tables.items()
        }
        local = replace(batch, head=head, relation=relation, tail=tail)
        own = candidates.own_places(batch)
        drawn = replace(candidates, heads=heads, relations=relations_drawn, tails=tails, own=own)
        loss: Tensor = functional_call(self, small, (local, drawn, term_weights))
        return loss


@dataclass(frozen=True)
class _Touched:
    """Columns of ids, end to end."""

    columns: Tensor
    lengths: list[int]

    @classmethod
    def of(cls, *columns: Tensor) -> _Touched:
        return cls(torch.cat(columns), [len(column) for column in columns])

    @cached_property
    def _distinct(self) -> tuple[Tensor, Tensor]:
        ids, places = kernels.numbered(self.columns.numpy())
        return torch.from_numpy(ids), torch.from_numpy(places)

    @property
    def ids(self) -> Tensor:
        """Each once."""
        return self._distinct[0]

    @property
    def places(self) -> tuple[Tensor, ...]:
        """For each column its places among the distinct ids, in the same order."""
        return torch.split(self._distinct[1], self.lengths)

    def rows(self, table: Tensor) -> tuple[Tensor, ...]:
        """The rows of each column, (len(column), d); their gradients come back to the table summed, each row once."""
        given: tuple[Tensor, ...] = _Rows.apply(table, self)  # type: ignore[no-untyped-call]
        return given


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, touched: _Touched) -> tuple[Tensor, ...]:
        ctx.shape, ctx.touched = table.shape, touched
        return torch.split(table.index_select(0, touched.columns), touched.lengths)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        touched = ctx.touched
        summed = gradients[0].new_empty(len(touched.ids), ctx.shape[1])
        filled = np.zeros(len(summed), bool)
        for places, gradient in zip(touched.places, gradients, strict=True):
            kernels.add_rows(summed.numpy(), filled, places.numpy(), gradient.contiguous().numpy())
        return torch.sparse_coo_tensor(touched.ids[None], summed, ctx.shape, check_invariants=False), None
