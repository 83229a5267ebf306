"""Steps over queries: the exact likelihood (Eqs 4, 8–10), one softmax for all answers of a query.

A step has queries of each slot. First their tables of probabilities are computed, in parts; then the gradient of each
block of rows is summed, and the rows are moved at once. The gradient of a table with a row for every candidate is never
in memory. Parts and blocks depend on sizes alone, so a run has the same result with any number of threads.

Products may be in bfloat16, which processors with instructions for it multiply several times faster. Scores, their
derivatives and every product are then rounded to bfloat16; vectors, sums, the optimizer's state and steps stay in
float32.
"""

from __future__ import annotations

import logging
import math
import time
from functools import partial

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
from doxa.scores.pairwise import Floats, Places
from doxa.slots import Slot
from doxa.training.objective import belief_weights
from doxa.training.optimizers import OPTIMIZERS, constrain, constraints
from doxa.training.parts import ENTITY, PART, RELATION
from doxa.training.queries import KnownRows, Queries, QueryBatch, known_slots
from doxa.training.snapshots import MemorySnapshots, Snapshots
from doxa.training.steps import Steps, check_loss, rate_at
from doxa.training.threads import ALONE, Threads
from doxa.training.weights import term_weighting

log = logging.getLogger(__name__)

BLOCK = 1024
"""Rows of a table whose gradient is summed and that are moved at a time."""

TABLES = {Slot.HEAD: ENTITY, Slot.RELATION: RELATION, Slot.TAIL: ENTITY}


class QuerySteps:
    """The gradient steps of a run over queries, by number. `settings` must have their automatic values in place."""

    in_parts = True

    def __init__(self, pbe: PBE, beliefs: Beliefs, settings: Settings) -> None:
        assert isinstance(pbe.score, VectorScore)
        self.pbe, self.score, self.beliefs, self.settings = pbe, pbe.score, beliefs, settings
        self.threads: Threads = ALONE
        constrain(pbe, settings.entity_norm)
        self.optimizer = OPTIMIZERS[settings.optimizer](pbe, constraints(pbe, settings.entity_norm))
        self._tables = {name: pbe.get_parameter(name).detach() for name in (ENTITY, RELATION)}
        self._kind = torch.bfloat16 if settings.precision == "bfloat16" else self._tables[ENTITY].dtype
        self._queries = _every_query(pbe, beliefs, settings)
        self._outside = {slot: _complement(ids, len(self._tables[TABLES[slot]])) for slot, ids in pbe.seen.items()}
        self._order: tuple[int, dict[Slot, np.ndarray]] | None = None

    @property
    def per_epoch(self) -> int:
        return math.ceil(len(self.beliefs) / self.settings.batch_size)

    def snapshots(self) -> Snapshots:
        return MemorySnapshots(self.pbe, self.optimizer)

    def warm_up(self) -> None:
        """Compile the loops, and take a step that moves nothing."""
        if self._kind == torch.bfloat16:
            warn_if_slow()
        batch = QueryBatch.of(
            {slot: queries.take(np.arange(min(2, len(queries)))) for slot, queries in self._queries.items()},
            self.pbe.entities, self.pbe.relations,
        )  # fmt: skip
        self._gradients(batch, 0.0, move=False)
        self.optimizer.warm_up()

    def take(self, number: int, fraction: float) -> float:
        """Train on batch `number` of the run when this fraction of the run is done; returns the batch's loss."""
        loss = self._gradients(self.batch(number), rate_at(self.settings, fraction))
        check_loss(loss, number, self.per_epoch, self.settings)
        return loss

    def batch(self, number: int) -> QueryBatch:
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
        rows = {ENTITY: batch.entities, RELATION: batch.relations}
        gradients = {name: table.new_zeros(len(rows[name].ids), table.shape[1]) for name, table in self._tables.items()}
        copies = {name: self._copy(table) for name, table in self._tables.items()}
        points, errors, tasks = {}, {}, []
        for slot, queries in batch.queries.items():
            points[slot] = copies[ENTITY].new_empty(len(queries), self.score.dimension)
            errors[slot] = copies[ENTITY].new_empty(len(queries), len(self._tables[TABLES[slot]]))
            known = [gradients[TABLES[each]][rows[TABLES[each]].sections[slot, each]] for each in known_slots(slot)]
            for part in _slices(len(queries), PART):
                into = points[slot][part], errors[slot][part], [each[part] for each in known]
                tasks.append(partial(self._answer, queries, part, copies, *into))
        losses = self.threads.run(tasks)
        moves = []
        for name, of_table in rows.items():
            sides = [(errors[slot], points[slot]) for slot in batch.queries if TABLES[slot] == name]
            for block in _slices(len(self._tables[name]), BLOCK):
                task = partial(
                    self._move, name, of_table, block, sides, gradients[name].numpy(), rate if move else None
                )
                moves.append(task)
        return math.fsum(losses + self.threads.run(moves))

    @torch.no_grad()  # which each thread needs for itself
    def _answer(
        self,
        queries: Queries,
        part: slice,
        copies: dict[str, Tensor],
        points: Tensor,
        errors: Tensor,
        gradients: list[Tensor],
    ) -> float:
        """The loss of a part of the queries for one slot; writes points, derivatives by the scores, and the gradients
        of both known vectors.
        """
        slot, slots, scale = queries.slot, known_slots(queries.slot), self.pbe.scale
        tables = [self._tables[TABLES[each]] for each in slots]
        known = [
            table.index_select(0, torch.from_numpy(ids[part])) for table, ids in zip(tables, queries.known, strict=True)
        ]
        triple = _triple(slots, known)
        points.copy_(self.score.target(slot, *triple).mul_(scale))
        candidates = copies[TABLES[slot]]
        torch.mm(points, candidates.T, out=errors)
        errors.index_fill_(1, self._outside[slot], -torch.inf)
        places = slice(queries.bounds[part.start], queries.bounds[part.stop])
        asked, answers = queries.rows[places] - part.start, queries.answers[places]
        true = Places(torch.from_numpy(asked), torch.from_numpy(answers))
        weights, totals = torch.from_numpy(queries.weights[places]), torch.from_numpy(queries.totals[part])
        loss = self._likelihood(errors, true, weights, totals)
        of_points = torch.mm(errors, candidates).to(tables[0].dtype).mul_(scale)
        self.score.pull(slot, triple, of_points, _triple(slots, gradients))
        return loss

    def _likelihood(self, table: Tensor, true: Places, weights: Tensor, totals: Tensor) -> float:
        """− Σ_a w_a log Pr(a|q) of a table of scores (Q, C), which becomes that of the derivatives by the scores:

            w Pr(c|q) − w_c,    w = Σ_a w_a

        With `filter_negatives`, the other answers of a query do not count among the candidates of each:

            Pr(a|q) = σ(D(q, a) − log Z),    Z = Σ exp D(q, c) over candidates c that are no answers

        so that w is Σ_a w_a (1 − Pr(a|q)), and the derivative by an answer is − w_a (1 − Pr(a|q)).
        """
        scores = table[true].to(weights.dtype)
        filtered = self.settings.filter_negatives
        if filtered:
            table[true] = -torch.inf
        top = table.amax(1).clamp_min(torch.finfo(table.dtype).min)
        sums = table.sub_(top[:, None]).exp_().sum(1, dtype=weights.dtype)
        totals_log = (sums.log() + top)[true.rows]
        if filtered:
            log_share = torch.nn.functional.logsigmoid(scores - totals_log)
            pulls = weights * -torch.expm1(log_share)
            totals = torch.zeros_like(sums).index_add_(0, true.rows, pulls)
            of_true = -pulls
        else:
            log_share = scores - totals_log
            of_true = totals[true.rows] * log_share.exp() - weights
        table.mul_((totals / sums.clamp_min(torch.finfo(sums.dtype).tiny)).to(table.dtype)[:, None])
        table[true] = of_true.to(table.dtype)
        return -float(weights @ log_share)

    @torch.no_grad()
    def _move(
        self,
        name: str,
        known: KnownRows,
        block: slice,
        sides: list[tuple[Tensor, Tensor]],
        vectors: Floats,
        rate: float | None,
    ) -> float:
        """Sum the gradient of a block of rows and move them; returns their regularization."""
        table = self._tables[name]
        gradient = torch.from_numpy(kernels.sum_rows(known.ids, vectors, block.start, block.stop))
        for errors, points in sides:
            gradient += torch.mm(errors[:, block].T, points)
        loss = self._regularize(table[block], torch.from_numpy(known.counts[block]), gradient)
        if rate is not None:
            self.optimizer.move_rows(name, table, torch.arange(block.start, block.stop), gradient, rate)
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
        self.threads.run([partial(copy[rows].copy_, table[rows]) for rows in _slices(len(table), BLOCK)])
        return copy


def steps_of(pbe: PBE, beliefs: Beliefs, settings: Settings) -> Steps | QuerySteps:
    """The steps of a run that the settings ask for, by beliefs or by queries."""
    return (QuerySteps if settings.batch_by == "queries" else Steps)(pbe, beliefs, settings)


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


def _slices(count: int, size: int) -> list[slice]:
    """Parts of at most this size, about equal."""
    parts = math.ceil(count / size)
    return [slice(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def _triple(slots: tuple[Slot, Slot], known: list[Tensor]) -> Triple:
    """Two known vectors in their slots; what is in the third is not read."""
    first, second = slots
    columns = [known[0]] * 3
    columns[first], columns[second] = known
    return Triple(*columns)


def seconds_of_product(kind: torch.dtype) -> float:
    """The least seconds of three products of matrices of this kind."""
    left, right = torch.ones(256, 256, dtype=kind), torch.ones(256, 2048, dtype=kind)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        torch.mm(left, right)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def warn_if_slow() -> None:
    """Warn where this processor multiplies bfloat16 in more time than float32, or refuse where it cannot at all."""
    try:
        ratio = seconds_of_product(torch.bfloat16) / seconds_of_product(torch.float32)
    except RuntimeError as fault:
        raise UsageError("this processor cannot multiply matrices in bfloat16", "leave precision out") from fault
    if ratio > 1:
        log.warning(
            "products in bfloat16 take %.1f times as long as in float32 on this processor: leave precision out", ratio
        )
