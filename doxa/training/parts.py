"""Parts: the batch of a step is split by rows, so that several threads share its work.

The loss of each part has gradients by the vectors of its beliefs and by those of the candidates, which all parts share.
The contributions to a row of a table are added in the order of the parts. Parts and order depend on the size of the
batch alone, so a run has the same result with any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.estimators import Candidates, Vectors
from doxa.pbe import PBE
from doxa.scores import kernels
from doxa.scores.base import VectorScore
from doxa.scores.kernels import Floats
from doxa.training.gather import Gathered
from doxa.training.objective import TermWeights, batch_loss, loss_by_hand
from doxa.training.threads import Threads
from doxa.training.weights import TermWeighting

PART = 256
"""Most beliefs of a part: products of this size are as fast as larger ones, and its tables stay in the cache."""

BLOCK = 512
"""Rows of a table that are summed and moved at a time, so that they stay in the cache."""

ENTITY, RELATION = "score.entity.weight", "score.relation.weight"

Gradients = list[Tensor | None]
"""Gradients of heads, relations, tails and their candidates, as in `Vectors`, then of other parameters."""


@dataclass(frozen=True, eq=False)
class RowGradient:
    """The gradient of a table: contributions to its distinct rows, in the order in which they are added.

    A contribution has places among the distinct ids, and a vector for each.
    """

    ids: Tensor
    contributions: Sequence[tuple[Ids, Floats]]

    @property
    def blocks(self) -> list[slice]:
        """The distinct rows in blocks, which threads may sum and move at the same time."""
        return [slice(first, min(first + BLOCK, len(self.ids))) for first in range(0, len(self.ids), BLOCK)]

    def block(self, rows: slice) -> tuple[Tensor, Tensor]:
        """The ids of a block, and the sum of the contributions to each."""
        ids = self.ids[rows]
        like = self.contributions[0][1]
        summed, filled = np.zeros((len(ids), like.shape[1]), like.dtype), np.zeros(len(ids), bool)
        for places, vectors in self.contributions:
            kernels.add_rows(summed, filled, places, vectors, rows.start)
        return ids, torch.from_numpy(summed)


@dataclass(frozen=True, eq=False)
class PartedBatch:
    """The parts of a batch, the candidates they share, and the distinct entities and relations of all of them.

    Nothing here depends on the weights of the model, so a batch can be made while another one is trained on.
    """

    parts: Sequence[Batch]
    candidates: Candidates
    entities: Gathered
    relations: Gathered

    @classmethod
    def of(cls, beliefs: Beliefs, rows: Ids, candidates: Candidates) -> PartedBatch:
        parts = [Batch.of(beliefs, part) for part in np.array_split(rows, math.ceil(len(rows) / PART))]
        sides = [ids for part in parts for ids in (part.head, part.tail)]
        entities = Gathered.of(*sides, candidates.heads, candidates.tails).prepared()
        relations = Gathered.of(*(part.relation for part in parts), candidates.relations).prepared()
        return cls(parts, candidates, entities, relations)

    def row_gradients(self, gradients: Sequence[Gradients]) -> dict[str, RowGradient]:
        """The gradients of both tables from those of the parts."""
        heads, relations, tails, all_heads, all_relations, all_tails = zip(
            *(part[:6] for part in gradients), strict=True
        )
        *sides, of_heads, of_tails = self.entities.places
        of_entities = [
            *zip(sides[0::2], heads, strict=True), *zip(sides[1::2], tails, strict=True),
            *((of_heads, each) for each in all_heads), *((of_tails, each) for each in all_tails),
        ]  # fmt: skip
        *triples, candidates = self.relations.places
        of_relations = [*zip(triples, relations, strict=True), *((candidates, each) for each in all_relations)]
        tables = {ENTITY: (self.entities.ids, of_entities), RELATION: (self.relations.ids, of_relations)}
        made = {}
        for name, (ids, pairs) in tables.items():
            used = [(places.numpy(), gradient.numpy()) for places, gradient in pairs if gradient is not None]
            if used:
                made[name] = RowGradient(ids, used)
        return made


class PartedStep:
    """The loss of a batch and its gradients by parts, for a score that depends on vectors alone.

    `known` are the facts that do not count as false.
    """

    def __init__(
        self, pbe: PBE, settings: Settings, weighting: TermWeighting | None = None, known: TripleIndex | None = None
    ) -> None:
        self.pbe, self.settings, self.weighting, self.known = pbe, settings, weighting, known
        softmax = settings.objective == "likelihood" and settings.training_estimator in ("sampled", "exact")
        self.by_hand = softmax and isinstance(pbe.score, VectorScore) and pbe.score.by_hand
        self.needs_autograd = not self.by_hand or (pbe.mention is not None and settings.mention_weight > 0)
        self._triples = settings.changed(mention_weight=0.0)
        self._mentions = settings.changed(head_weight=0.0, relation_weight=0.0, tail_weight=0.0, n3=0.0, l2=0.0)
        others = (p for name, p in pbe.named_parameters() if p.requires_grad and name not in (ENTITY, RELATION))
        self._others = list(others)

    def gradients(self, batch: PartedBatch, threads: Threads) -> tuple[float, dict[str, RowGradient]]:
        """The loss, and the gradients of the tables; those of other parameters are left in their `grad`."""
        score, drawn = self.pbe.score, batch.candidates
        entity, relation = score.entity.weight.detach(), score.get_parameter("relation.weight").detach()
        pairs = ((entity, drawn.heads), (relation, drawn.relations), (entity, drawn.tails))
        candidates = threads.run([partial(table.index_select, 0, ids) for table, ids in pairs])

        results = threads.run([partial(self._part, part, drawn, candidates) for part in batch.parts])
        gradients = [gradients for _, gradients in results]
        for parameter, *several in zip(self._others, *(each[6:] for each in gradients), strict=True):
            parameter.grad = _sum(several)
        return math.fsum(loss for loss, _ in results), batch.row_gradients(gradients)

    def _part(self, batch: Batch, drawn: Candidates, candidates: list[Tensor]) -> tuple[float, Gradients]:
        """The loss of one part and its gradients; by hand where it can be, the rest by autograd."""
        score = self.pbe.score
        entity, relation = score.entity.weight.detach(), score.get_parameter("relation.weight").detach()
        pairs = ((entity, batch.head), (relation, batch.relation), (entity, batch.tail))
        vectors = [*(table.index_select(0, ids) for table, ids in pairs), *candidates]
        weights = self.weighting.of(batch) if self.weighting is not None else None
        if self.known is not None:
            drawn = drawn.without_known(batch, self.known)
        if not self.by_hand:
            return self._autograd(self.settings, batch, drawn, weights, vectors)
        with torch.no_grad():
            loss, gradients = loss_by_hand(self.pbe, batch, drawn, self._triples, weights, Vectors(*vectors))
        if not self.needs_autograd or not len(batch.words):
            return loss, gradients + [None] * len(self._others)
        more, of_mentions = self._autograd(self._mentions, batch, drawn, weights, vectors)
        summed = [_sum(pair) for pair in zip(gradients, of_mentions[:6], strict=True)]
        return loss + more, summed + of_mentions[6:]

    def _autograd(
        self,
        settings: Settings,
        batch: Batch,
        candidates: Candidates,
        weights: TermWeights | None,
        vectors: list[Tensor],
    ) -> tuple[float, Gradients]:
        leaves = [each.detach().requires_grad_() for each in vectors]
        loss = batch_loss(self.pbe, batch, candidates, settings, weights, Vectors(*leaves))
        inputs = [*leaves, *self._others]
        gradients: Sequence[Tensor | None] = [None] * len(inputs)
        if loss.requires_grad:  # not where mentions alone count, and the part has none
            gradients = torch.autograd.grad(loss, inputs, allow_unused=True)
        return float(loss.detach()), [g if g is None or g.is_sparse else g.contiguous() for g in gradients]


def _sum(gradients: Sequence[Tensor | None]) -> Tensor | None:
    """The sum of the gradients that are there, in their order."""
    total = None
    for gradient in gradients:
        if gradient is not None:
            total = gradient if total is None else total + gradient
    return total
