"""Steps over queries: the exact likelihood (Eqs 4, 8–10), one softmax for all answers of a query.

A step has queries of each slot. First their tables of probabilities are computed, in parts; then the gradient of each
block of rows is summed, and the rows are moved at once. The gradient of a table with a row for every candidate is never
in memory. Parts and blocks depend on sizes alone, so a run has the same result with any number of threads.

Products may be in bfloat16, which processors with instructions for it multiply several times faster. Vectors, sums of
exponentials, gradients and steps stay in float32.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError
from doxa.pbe import PBE
from doxa.scores import kernels
from doxa.scores.base import Triple, VectorScore
from doxa.scores.pairwise import Floats
from doxa.slots import Slot
from doxa.training.objective import belief_weights
from doxa.training.optimizers import OPTIMIZERS, constrain, constraints
from doxa.training.parts import ENTITY, PART, RELATION
from doxa.training.queries import KEPT, Additions, Queries, QueryBatch, known_slots
from doxa.training.snapshots import MemorySnapshots, Snapshots
from doxa.training.steps import check_loss, rate_at
from doxa.training.threads import ALONE, Threads
from doxa.training.weights import term_weighting

BLOCK = 1024
"""Rows of a table whose gradient is summed and that are moved at a time."""

TABLES = {Slot.HEAD: ENTITY, Slot.RELATION: RELATION, Slot.TAIL: ENTITY}


class QuerySteps:
    """The gradient steps of a run over queries, by number. `settings` must have their automatic values in place."""

    in_parts = True

    def __init__(self, pbe: PBE, beliefs: Beliefs, settings: Settings) -> None:
        assert isinstance(pbe.score, VectorScore)
        if pbe.score.entity_metric != "product":
            raise UsageError(
                f"batch_by=queries needs a score that is a product, not {settings.score}",
                "choose score=complex or score=distmult, or leave batch_by out",
            )
        self.pbe, self.score, self.beliefs, self.settings = pbe, pbe.score, beliefs, settings
        self.threads: Threads = ALONE
        constrain(pbe, settings.entity_norm)
        self.optimizer = OPTIMIZERS[settings.optimizer](pbe, constraints(pbe, settings.entity_norm))
        self._tables = {name: pbe.get_parameter(name).detach() for name in (ENTITY, RELATION)}
        self._kind = torch.bfloat16 if settings.precision == "bfloat16" else self._tables[ENTITY].dtype
        self._queries = _every_query(pbe, beliefs, settings)
        self._outside = {slot: _complement(ids, self._rows(slot)) for slot, ids in pbe.seen.items()}
        self._order: tuple[int, dict[Slot, np.ndarray]] | None = None

    @property
    def per_epoch(self) -> int:
        return math.ceil(len(self.beliefs) / self.settings.batch_size)

    def snapshots(self) -> Snapshots:
        return MemorySnapshots(self.pbe, self.optimizer)

    def warm_up(self) -> None:
        """Compile the loops, and take a step that moves nothing."""
        self._check_products()
        batch = QueryBatch.of(
            {slot: queries.take(np.arange(min(2, len(queries)))) for slot, queries in self._queries.items()},
            self.pbe.entities, self.pbe.relations,
        )  # fmt: skip
        self._gradients(batch, 0.0, move=False)
        self.optimizer.warm_up()

    def take(self, number: int, fraction: float) -> float:
        """Train on batch `number` of the run when this fraction of the run is done; returns the batch's loss."""
        loss = self._gradients(self._batch(number), rate_at(self.settings, fraction))
        check_loss(loss, number, self.per_epoch, self.settings)
        return loss

    def _batch(self, number: int) -> QueryBatch:
        """The queries of a step: as large a share of each slot's, which every epoch shuffles anew."""
        epoch, place = divmod(number, self.per_epoch)
        if self._order is None or self._order[0] != epoch:
            seed = self.settings.seed
            orders = {
                slot: np.random.default_rng([seed, 1, epoch, slot]).permutation(len(queries))
                for slot, queries in self._queries.items()
            }
            self._order = (epoch, orders)
        taken = {}
        for slot, order in self._order[1].items():
            first, last = (len(order) * end // self.per_epoch for end in (place, place + 1))
            taken[slot] = self._queries[slot].take(order[first:last])
        return QueryBatch.of(taken, self.pbe.entities, self.pbe.relations)

    def _gradients(self, batch: QueryBatch, rate: float, move: bool = True) -> float:
        """The loss of a step, whose gradients move the tables."""
        width = self.score.dimension
        vectors = self._tables[ENTITY].new_empty(batch.vectors, width)
        copies = {name: self._copy(table) for name, table in self._tables.items()}
        tasks, tables, first = [], {}, 0
        for slot, queries in batch.queries.items():
            kept = vectors[first : first + KEPT * len(queries)].view(KEPT, len(queries), width)
            first += KEPT * len(queries)
            points = kept.new_empty(kept[0].shape, dtype=self._kind)
            shares = points.new_empty(len(queries), self._rows(slot))
            tables[slot] = (shares, points)
            parts = [range(a, b) for a, b in pairwise(_bounds(len(queries), PART))]
            tasks += [partial(self._answer, queries, part, copies, kept, points, shares) for part in parts]
        losses = self.threads.run(tasks)
        moves = [
            partial(self._move, name, additions, slice(a, b), tables, vectors.numpy(), rate if move else None)
            for name, additions in ((ENTITY, batch.entities), (RELATION, batch.relations))
            for a, b in pairwise(_bounds(len(self._tables[name]), BLOCK))
        ]
        return math.fsum(losses + self.threads.run(moves))

    @torch.no_grad()  # which each thread needs for itself
    def _answer(
        self,
        queries: Queries,
        part: range,
        copies: dict[str, Tensor],
        kept: Tensor,
        points: Tensor,
        shares: Tensor,
    ) -> float:
        """The loss of a part of the queries of one slot, − Σ_a w_a log Pr(a|q).

        Written are, for their rows: points, tables of w · Pr, and the gradients of both known vectors.
        """
        rows, slot, scale = slice(part.start, part.stop), queries.slot, self.pbe.scale
        first, second = known_slots(slot)
        known = [
            self._tables[TABLES[each]].index_select(0, torch.from_numpy(ids[rows]))
            for each, ids in zip((first, second), queries.known, strict=True)
        ]
        parts = [known[0]] * 3
        parts[first], parts[second] = known
        triple = Triple(*parts)
        torch.mul(self.score.target(slot, *triple), scale, out=kept[0, rows])
        points[rows] = kept[0, rows]

        table, candidates = shares[rows], copies[TABLES[slot]]
        torch.mm(points[rows], candidates.T, out=table)
        table.index_fill_(1, self._outside[slot], -torch.inf)
        start, end = queries.bounds[part.start], queries.bounds[part.stop]
        asked, answers, weights = (
            queries.rows[start:end] - part.start,
            queries.answers[start:end],
            queries.weights[start:end],
        )
        truth = table[torch.from_numpy(asked), torch.from_numpy(answers)].to(kept.dtype)
        top = table.amax(1)
        sums = table.sub_(top[:, None]).exp_().sum(1, dtype=kept.dtype)
        totals = torch.from_numpy(queries.totals[rows])
        table.mul_((totals / sums).to(table.dtype)[:, None])
        loss = float(totals @ (sums.log() + top) - torch.from_numpy(weights) @ truth)

        of_points = torch.mm(table, candidates).to(kept.dtype)
        kernels.add_rows(asked, answers, -weights, self._tables[TABLES[slot]].numpy(), of_points.numpy())
        gradients = [of_points] * 3
        gradients[first], gradients[second] = (kept[place, rows].zero_() for place in (1, 2))
        self.score.pull(slot, triple, of_points.mul_(scale), Triple(*gradients))
        return loss

    @torch.no_grad()
    def _move(
        self,
        name: str,
        additions: Additions,
        rows: slice,
        tables: dict[Slot, tuple[Tensor, Tensor]],
        vectors: Floats,
        rate: float | None,
    ) -> float:
        """Sum the gradient of a block of rows and move them; returns their regularization."""
        table = self._tables[name]
        gradient = table.new_zeros(rows.stop - rows.start, table.shape[1])
        for slot, (shares, points) in tables.items():
            if TABLES[slot] == name:
                gradient += torch.mm(shares[:, rows].T, points)
        kernels.add_rows(*additions.within(rows.start, rows.stop), vectors, gradient.numpy())
        loss = self._regularize(table[rows], torch.from_numpy(additions.counts[rows]), gradient)
        if rate is not None:
            self.optimizer.move_rows(name, table, torch.arange(rows.start, rows.stop), gradient, rate)
        return loss

    def _regularize(self, rows: Tensor, counts: Tensor, gradient: Tensor) -> float:
        """Σ count · penalty of each row; its gradient is added.

        |x|³ is homogeneous: count · |x|³ = |count^⅓ · x|³.
        """
        loss = 0.0
        if self.settings.n3:
            factors = counts.pow(1 / 3)[:, None]
            of_cubes = torch.zeros_like(gradient)
            loss += self.settings.n3 / 3 * self.score.add_cubes(rows * factors, self.settings.n3 / 3, of_cubes)
            gradient.addcmul_(of_cubes, factors)
        if self.settings.l2:
            loss += self.settings.l2 * float(counts @ (rows * rows).sum(1))
            gradient.addcmul_(rows, counts[:, None], value=2 * self.settings.l2)
        return loss

    def _copy(self, table: Tensor) -> Tensor:
        """A table as products take it: itself, or a copy in bfloat16, which the threads make in blocks."""
        if table.dtype == self._kind:
            return table
        copy = torch.empty_like(table, dtype=self._kind)
        blocks = [slice(a, b) for a, b in pairwise(_bounds(len(table), BLOCK))]
        self.threads.run([partial(copy[rows].copy_, table[rows]) for rows in blocks])
        return copy

    def _rows(self, slot: Slot) -> int:
        """The rows of the table that has the candidates of a slot; those never seen there are left out later."""
        return len(self._tables[TABLES[slot]])

    def _check_products(self) -> None:
        """Refuse bfloat16 where this processor cannot multiply it."""
        try:
            torch.mm(torch.ones(2, 2, dtype=self._kind), torch.ones(2, 2, dtype=self._kind))
        except RuntimeError as fault:
            message = f"this processor cannot multiply matrices in {self.settings.precision}"
            raise UsageError(message, "leave precision out") from fault


def _every_query(pbe: PBE, beliefs: Beliefs, settings: Settings) -> dict[Slot, Queries]:
    """All queries of each slot that has a weight; an answer's weight is that of its belief and its term."""
    weighting = term_weighting(settings, lambda: TripleIndex(beliefs.triples, pbe.entities, pbe.relations))
    batch = Batch.of(beliefs)
    by_term = weighting.of(batch) if weighting is not None else {}
    of_beliefs, made = belief_weights(pbe, batch, settings), {}
    for slot, weight in zip(Slot, (settings.head_weight, settings.relation_weight, settings.tail_weight), strict=True):
        if weight:
            weights = of_beliefs * (weight / 3)
            if str(slot) in by_term:
                weights = weights * by_term[str(slot)]
            made[slot] = Queries.of(slot, beliefs.triples, weights.numpy())
    return made


def _complement(ids: Tensor, count: int) -> Tensor:
    """The numbers below `count` that are not among the ids."""
    others = torch.ones(count, dtype=torch.bool)
    others[ids] = False
    return others.nonzero()[:, 0]


def _bounds(count: int, size: int) -> list[int]:
    """Where parts of at most this size begin and end."""
    parts = math.ceil(count / size)
    return [count * part // max(parts, 1) for part in range(parts + 1)]
