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

    def __init__(self, pbe: PBE, settings: Settings, head_share: Tensor | None = None) -> None:
        """`head_share`, (R,), is how often a belief of each relation has its head corrupted rather than its tail."""
        super().__init__()
        self.pbe, self.settings, self.head_share = pbe, settings, head_share
        self.entities = torch.zeros(0, dtype=torch.int64)
        """Ids of the entities the last batch touched."""
        of_relations = [f"score.{name}.weight" for name in pbe.score.relation_tables]
        if pbe.mention is not None and pbe.mention.relation is not None:
            of_relations.append("mention.relation.weight")
        of_entities = [f"score.{name}.weight" for name in pbe.score.entity_tables]
        self._tables = {
            f"pbe.{name}": (name in of_entities, pbe.get_parameter(name)) for name in of_entities + of_relations
        }

    def forward(self, batch: Batch, candidates: Candidates, head_share: Tensor | None) -> Tensor:
        return objective(self.pbe, batch, candidates, self.settings, head_share)

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
        self.entities = entities.ids
        local = replace(batch, head=head, relation=relation, tail=tail)
        drawn = replace(candidates, heads=heads, relations=relations_drawn, tails=tails)
        share = None if self.head_share is None else self.head_share[batch.relation]
        losses: Tensor = functional_call(self, rows, (local, drawn, share))
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
