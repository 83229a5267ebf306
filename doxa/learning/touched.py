"""The rows a step touches: gathered once into small tables, so that a step's cost is that of its batch alone.

A step looks the same entity up in several places (head, tail, candidate). Gathering the distinct rows first, and
letting the score work on the small tables, sums their gradients in dense memory; the large tables then receive
one sparse gradient with each row at most once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import embedding

from doxa.learning.negatives import Candidates
from doxa.learning.objectives import objective
from doxa.pbe import PBE, Batch
from doxa.settings import Settings


class Step(nn.Module):
    """The objective of a batch, computed on the touched rows of every table of entities and relations."""

    def __init__(self, pbe: PBE, settings: Settings) -> None:
        super().__init__()
        self.pbe, self.settings = pbe, settings
        self._tables = {
            f"pbe.score.{name}.weight": (name in pbe.score.entity_tables, pbe.score.get_parameter(f"{name}.weight"))
            for name in pbe.score.entity_tables + pbe.score.relation_tables
        }

    def forward(self, batch: Batch, candidates: Candidates) -> Tensor:
        return objective(self.pbe, batch, candidates, self.settings)

    def losses(self, batch: Batch, candidates: Candidates) -> Tensor:
        """What `objective` gives, (B,), with sparse gradients of distinct rows for the large tables."""
        entities = _Touched.of(batch.head, batch.tail, candidates.heads, candidates.tails)
        relations = _Touched.of(batch.relation, candidates.relations)
        head, tail, heads, tails = entities.places
        relation, relations_drawn = relations.places
        rows = {
            name: embedding(entities.ids if of_entities else relations.ids, table, sparse=True)
            for name, (of_entities, table) in self._tables.items()
        }
        local = replace(batch, head=head, relation=relation, tail=tail)
        losses: Tensor = functional_call(self, rows, (local, Candidates(heads, relations_drawn, tails)))
        return losses


@dataclass(frozen=True)
class _Touched:
    """Distinct ids, sorted, and for each column given its places among them (order and sortedness kept)."""

    ids: Tensor
    places: tuple[Tensor, ...]

    @classmethod
    def of(cls, *columns: Tensor) -> _Touched:
        ids, places = torch.unique(torch.cat(columns), return_inverse=True)
        return cls(ids, places.split([len(column) for column in columns]))
