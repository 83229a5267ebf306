"""Parts: the batch of a step is split by rows, so that several threads share its work.

The loss of each part has gradients by the vectors of its beliefs and by those of the candidates, which all parts share.
The contributions to a row of a table are added in the order of the parts. Parts and order depend on the size of the
batch alone, so a run has the same result with any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

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
from doxa.training.objective import TermWeights, batch_loss, loss_by_hand
from doxa.training.threads import Threads
from doxa.training.weights import TermWeighting

PART = 256
"""Most beliefs of a part: products of this size are as fast as larger ones, and its tables stay in the cache."""

BLOCK = 512
"""Rows of a table that are summed and moved at a time, so that they stay in the cache."""

ENTITY, RELATION = "score.entity.weight", "score.relation.weight"

PartResult = tuple[float, list[Tensor | None]]
"""The loss of a part, and its gradients of parameters other than the two tables."""


@dataclass(frozen=True, eq=False)
class RowGradient:
    """The gradient of a table: vectors that are added, in their order, to the distinct rows `ids` at these places."""

    ids: Ids
    places: Ids
    vectors: Floats

    @property
    def blocks(self) -> list[slice]:
        """The distinct rows in blocks, which threads may sum and move at the same time."""
        return [slice(first, min(first + BLOCK, len(self.ids))) for first in range(0, len(self.ids), BLOCK)]

    def block(self, rows: slice) -> tuple[Tensor, Tensor]:
        """The ids of a block, and the sum of the vectors of each."""
        summed = kernels.sum_rows(self.places, self.vectors, rows.start, rows.stop)
        return torch.from_numpy(self.ids[rows]), torch.from_numpy(summed)


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table that a batch uses.

    A gradient has vectors for the columns of the batch, then for each column of candidates those of every part. Each
    vector has a place among the distinct ids. `sections` are the rows of each part in it, by column.
    """

    ids: Ids
    places: Ids
    sections: Sequence[Sequence[slice]]

    @classmethod
    def of(cls, columns: Sequence[Tensor], candidates: Sequence[Tensor], bounds: Sequence[int]) -> TableRows:
        """`bounds` are where parts of the columns begin and end."""
        count, parts = len(columns[0]), len(bounds) - 1
        ids, places = kernels.deduplicate(np.concatenate([each.numpy() for each in (*columns, *candidates)]))
        pieces, first = [places[: count * len(columns)]], count * len(columns)
        sections = [[slice(n * count + a, n * count + b) for n in range(len(columns))] for a, b in pairwise(bounds)]
        start = first
        for column in candidates:
            pieces += [places[first : first + len(column)]] * parts
            first += len(column)
            for section in sections:
                section.append(slice(start, start := start + len(column)))
        return cls(ids, np.concatenate(pieces), sections)


@dataclass(frozen=True, eq=False)
class PartedBatch:
    """The parts of a batch, the candidates they share, and the rows of both tables that they use.

    Nothing here depends on the weights of the model, so a batch can be made while another one is trained on.
    """

    parts: Sequence[Batch]
    candidates: Candidates
    entities: TableRows
    relations: TableRows

    @classmethod
    def of(cls, beliefs: Beliefs, rows: Ids, candidates: Candidates) -> PartedBatch:
        batch, count = Batch.of(beliefs, rows), math.ceil(len(rows) / PART)
        bounds = [math.ceil(len(rows) * part / count) for part in range(count + 1)]
        entities = TableRows.of((batch.head, batch.tail), (candidates.heads, candidates.tails), bounds)
        relations = TableRows.of((batch.relation,), (candidates.relations,), bounds)
        return cls([_slice(batch, a, b) for a, b in pairwise(bounds)], candidates, entities, relations)

    def split(self, entities: Tensor, relations: Tensor) -> Iterator[Vectors]:
        """The vectors of each part in those of the whole batch, which have the rows that both tables use."""
        for of_entity, of_relation in zip(self.entities.sections, self.relations.sections, strict=True):
            head, tail, heads, tails = (entities[rows] for rows in of_entity)
            relation, candidates = (relations[rows] for rows in of_relation)
            yield Vectors(head, relation, tail, heads, candidates, tails)


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
        self._mentions = settings.changed(head_weight=0.0, relation_weight=0.0, tail_weight=0.0, n3=0.0, l2=0.0)
        others = (p for name, p in pbe.named_parameters() if p.requires_grad and name not in (ENTITY, RELATION))
        self._others = list(others)
        self._tables: dict[str, Tensor] = {}
        self._buffers: dict[str, Tensor] = {}

    def gradients(
        self, batch: PartedBatch, threads: Threads, ahead: Callable[[], None] | None = None
    ) -> tuple[float, dict[str, RowGradient]]:
        """The loss, and the gradients of the tables; those of other parameters are left in their `grad`.

        The next call overwrites the gradients. One thread runs the task `ahead` first, so that threads are not at the
        same place of equal parts at the same time, where they would wait for each other's Python.
        """
        drawn, tables = batch.candidates, {ENTITY: batch.entities, RELATION: batch.relations}
        pairs = ((ENTITY, drawn.heads), (RELATION, drawn.relations), (ENTITY, drawn.tails))
        self._tables = {name: self.pbe.get_parameter(name).detach() for name in tables}
        candidates = [self._tables[name].index_select(0, ids) for name, ids in pairs]

        buffers = {name: self._buffer(name, len(rows.places)) for name, rows in tables.items()}
        of_parts = batch.split(buffers[ENTITY], buffers[RELATION])
        parts = zip(batch.parts, of_parts, strict=True)
        tasks: list[Callable[[], Any]] = [partial(self._part, part, drawn, candidates, into) for part, into in parts]
        results = threads.run(tasks if ahead is None else [ahead, *tasks])[-len(tasks) :]
        for parameter, *several in zip(self._others, *(others for _, others in results), strict=True):
            parameter.grad = _sum(several)
        made = {name: RowGradient(rows.ids, rows.places, buffers[name].numpy()) for name, rows in tables.items()}
        return math.fsum(loss for loss, _ in results), made

    def _buffer(self, name: str, rows: int) -> Tensor:
        """Memory for the gradient of a table, kept from step to step."""
        if name not in self._buffers or len(self._buffers[name]) < rows:
            self._buffers[name] = self._tables[name].new_empty(rows, self._tables[name].shape[1])
        return self._buffers[name][:rows]

    def _part(self, batch: Batch, drawn: Candidates, candidates: list[Tensor], gradients: Vectors) -> PartResult:
        """The loss of one part, by hand where it can be, the rest by autograd; `gradients` are overwritten."""
        pairs = ((ENTITY, batch.head), (RELATION, batch.relation), (ENTITY, batch.tail))
        vectors = Vectors(*(self._tables[name].index_select(0, ids) for name, ids in pairs), *candidates)
        weights = self.weighting.of(batch) if self.weighting is not None else None
        if self.known is not None:
            drawn = drawn.without_known(batch, self.known)
        if not self.by_hand:
            for each in gradients:
                each.zero_()
            return self._autograd(self.settings, batch, drawn, weights, vectors, gradients)
        with torch.no_grad():
            loss = loss_by_hand(self.pbe, batch, drawn, self.settings, weights, vectors, gradients)
        if not self.needs_autograd or not len(batch.words):
            return loss, [None] * len(self._others)
        more, others = self._autograd(self._mentions, batch, drawn, weights, vectors, gradients)
        return loss + more, others

    def _autograd(
        self,
        settings: Settings,
        batch: Batch,
        candidates: Candidates,
        weights: TermWeights | None,
        vectors: Vectors,
        gradients: Vectors,
    ) -> PartResult:
        """The loss of one part by autograd; its gradients are added."""
        leaves = [each.detach().requires_grad_() for each in vectors]
        loss = batch_loss(self.pbe, batch, candidates, settings, weights, Vectors(*leaves))
        if not loss.requires_grad:  # where mentions alone count, and the part has none
            return float(loss), [None] * len(self._others)
        made = torch.autograd.grad(loss, [*leaves, *self._others], allow_unused=True)
        for total, gradient in zip(gradients, made[:6], strict=True):
            if gradient is not None:
                total.add_(gradient)
        return float(loss.detach()), [g if g is None or g.is_sparse else g.contiguous() for g in made[6:]]


def _slice(batch: Batch, first: int, last: int) -> Batch:
    """The beliefs of a batch from the first to before the last."""
    head, relation, tail, confidence = (
        column[first:last] for column in (batch.head, batch.relation, batch.tail, batch.confidence)
    )
    offsets, words = batch.offsets[first : last + 1], batch.words
    if len(words):
        words, offsets = words[offsets[0] : offsets[-1]], offsets - offsets[0]
    return Batch(head, relation, tail, words, offsets, confidence)


def _sum(gradients: Sequence[Tensor | None]) -> Tensor | None:
    """The sum of the gradients that are there, in their order."""
    total = None
    for gradient in gradients:
        if gradient is not None:
            total = gradient if total is None else total + gradient
    return total
