"""Search: the best candidates of each relation, without computing all three terms of all of them.

The log of Pr(h, r, t) is a mean of three logarithms (Eq. 1), none above 0. So the terms computed first bound it:

    log Pr(t|h,r) / 3  ≥  (log Pr(t|h,r) + log Pr(h|r,t)) / 3  ≥  log Pr(h,r,t)

A candidate is dropped as soon as its bound is too low for the list. The result equals that of scoring every candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.calibration.thresholds import Numbers
from doxa.curation.audit import several_answers
from doxa.curation.float64 import float64_copy
from doxa.data.batch import Batch
from doxa.data.vocabulary import Ids
from doxa.errors import UsageError
from doxa.model import Model
from doxa.pbe import PBE, log_credence
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.training.checkpoint import Checkpoint

PRECISION = 9
"""Decimals of credence and score that decide the order; equal candidates are ordered by their ids."""

RARELY = 0.1
"""Share of a relation's queries with several answers, below which a second answer contradicts the first."""

SLACK = 1e-7
"""Margin below the last place of the list within which a candidate is still considered."""

GATHER = 100_000
"""Candidates that are collected before the best of them are sorted out."""

WEIGHTS = {
    "product": (1 / 3, 1 / 3, 1 / 3),
    "entities": (1.0, 0.0, 1.0),
    "learned": (1.0, 0.0, 1.0),
    "tail": (0.0, 0.0, 1.0),
    "score": (0.0, 0.0, 0.0),
}
"""Weights of the three log terms in the number that credence is calibrated from, by decision rule."""


@dataclass(frozen=True)
class SearchOptions:
    """What to search for; see `doxa.curation.complete.complete`. `entities` are ids, None for all."""

    entities: list[int] | None
    min_credence: float
    top: int
    any_entity: bool
    contradicting: bool


class Scored(NamedTuple):
    """Scored candidates: ids (n, 3), credence (n,), the score it is calibrated from (n,), log terms (n, 3)."""

    triples: NDArray[np.int64]
    credence: Numbers
    score: Numbers
    log_terms: Numbers

    @classmethod
    def empty(cls) -> Scored:
        return cls(np.zeros((0, 3), np.int64), np.zeros(0), np.zeros(0), np.zeros((0, 3)))

    def take(self, rows: Ids) -> Scored:
        """These rows, in this order."""
        return Scored(self.triples[rows], self.credence[rows], self.score[rows], self.log_terms[rows])

    def concat(self, others: Sequence[Scored]) -> Scored:
        """These candidates followed by others."""
        return Scored(*(np.concatenate(columns) for columns in zip(self, *others, strict=True)))

    def best(self, count: int) -> Scored:
        """The `count` most credible, in order."""
        order = np.lexsort((*self.triples.T[::-1], -self.score.round(PRECISION), -self.credence.round(PRECISION)))
        return self.take(order[:count])


class Search:
    """The best candidates so far, and the score that a further candidate needs."""

    def __init__(self, model: Model, options: SearchOptions, rows: int, memory: int) -> None:
        self.model, self.options, self.rows, self.memory = model, options, rows, memory
        self.entities = None if options.entities is None else np.array(options.entities)
        self.pbe: PBE = float64_copy(model.pbe)
        self.known = model.known
        self.rule = model.calibration.rule
        self.weights = np.array(WEIGHTS[self.rule])
        self.logit_weight = float(self.rule == "score")
        self.pools = {slot: model.trained_facts.seen(slot) for slot in ENTITY_SLOTS}
        self.single = {slot: several_answers(self.known, slot) < RARELY for slot in ENTITY_SLOTS}
        self.best, self.full = Scored.empty(), False
        self._collected: list[Scored] = []
        self._log_totals: dict[Slot, Numbers] = {}

    @property
    def last_credence(self) -> float:
        """Credence of the last candidate of a full list, otherwise the smallest credence allowed."""
        return float(self.best.credence[-1]) if self.full else self.options.min_credence

    def can_search(self, relation: int) -> bool:
        """Whether the relation has facts, and its credence increases with the score."""
        return self.model.calibration.curve.rises(relation) and len(self._pool(relation, Slot.HEAD)) > 0

    def cost(self, relation: int) -> int:
        """Number of queries of a relation."""
        heads, tails = (len(self._pool(relation, slot)) for slot in ENTITY_SLOTS)
        return heads + tails if self.options.any_entity else min(heads, tails)

    def _pool(self, relation: int, slot: Slot) -> Ids:
        """Entities seen in that slot of the relation."""
        relations, entities = self.pools[slot]
        return entities[slice(*np.searchsorted(relations, [relation, relation + 1]))]

    @torch.no_grad()
    def search(self, relation: int) -> None:
        """Search the candidates of one relation."""
        self._log_totals = {slot: np.full(self.pbe.entities, np.nan) for slot in ENTITY_SLOTS}
        heads, tails = (self._pool(relation, slot) for slot in ENTITY_SLOTS)
        if self.options.any_entity:
            self._search_slot(relation, Slot.TAIL, heads, self.pbe.seen[Slot.TAIL].numpy())
            self._search_slot(relation, Slot.HEAD, tails, np.setdiff1d(self.pbe.seen[Slot.HEAD].numpy(), heads))
        elif len(heads) <= len(tails):
            self._search_slot(relation, Slot.TAIL, heads, tails)
        else:
            self._search_slot(relation, Slot.HEAD, tails, heads)

    def _search_slot(self, relation: int, slot: Slot, queries: Ids, pool: Ids) -> None:
        """Answer the queries for `slot`, one per entity of the other slot, among the candidates of a pool."""
        for block in self._blocks(len(queries), self.pbe.entities):
            entities, candidates = queries[block], pool
            if self.entities is not None and not np.isin(entities, self.entities).any():
                candidates = np.intersect1d(pool, self.entities)
            if not len(candidates):
                continue
            totals = self._totals(relation, slot, entities)
            logits = self._logits(relation, slot, entities, torch.from_numpy(candidates))
            terms = (logits - torch.from_numpy(totals)[:, None]).clamp_max_(0.0)
            bound = terms * self.weights[slot] + logits * self.logit_weight
            row, column = (ids.numpy() for ids in torch.nonzero(bound >= self._floor(relation), as_tuple=True))
            triples = np.full((len(row), 3), relation)
            triples[:, slot.other], triples[:, slot] = entities[row], candidates[column]
            new = self._allowed(relation, triples)
            self._score(relation, slot, triples[new], terms[row, column].numpy()[new],
                        logits[row, column].numpy()[new])  # fmt: skip

    def _allowed(self, relation: int, triples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which candidates are new and admitted: about the entities, no second answer unless allowed."""
        allowed = ~self.known.contains(*triples.T)
        if self.entities is not None:
            allowed &= np.isin(triples[:, ENTITY_SLOTS], self.entities).any(axis=1)
        if not self.options.contradicting:
            facts = self.known.triples
            for slot in ENTITY_SLOTS:
                if self.single[slot][relation]:
                    answered = facts[facts[:, Slot.RELATION] == relation, slot.other]
                    allowed &= ~np.isin(triples[:, slot.other], answered)
        return allowed

    def _score(
        self, relation: int, slot: Slot, triples: NDArray[np.int64], first_term: Numbers, logits: Numbers
    ) -> None:
        """Add the other two terms of candidates; after each, drop candidates whose bound is too low."""
        other = slot.other
        totals = self._totals(relation, other, triples[:, slot])
        terms = np.zeros((len(triples), 3))
        terms[:, slot] = first_term
        terms[:, other] = np.minimum(logits - totals, 0.0)
        kept = terms @ self.weights + self.logit_weight * logits >= self._floor(relation)
        triples, terms, logits = triples[kept], terms[kept], logits[kept]
        for block in self._blocks(len(triples), self.pbe.relations):
            head, relations, tail = (torch.from_numpy(np.ascontiguousarray(column)) for column in triples[block].T)
            log_total = self.pbe.distribution(Slot.RELATION, Batch.of_triples(head, relations, tail)).log_total
            terms[block, Slot.RELATION] = np.minimum(logits[block] - log_total.numpy(), 0.0)
        score = self._scores(terms, logits)
        kept = score >= self._floor(relation)
        triples, terms, score = triples[kept], terms[kept], score[kept]
        self._collected.append(Scored(triples, self._credence(score, relation), score, terms))
        if sum(len(part.credence) for part in self._collected) > max(self.options.top, GATHER):
            self._gather()

    def _scores(self, terms: Numbers, logits: Numbers) -> Numbers:
        """The number that credence is calibrated from; log credence (Eq. 1) for the rule `product`."""
        if self.rule == "product":
            return log_credence(terms)
        return np.asarray(terms @ self.weights + self.logit_weight * logits)

    def _gather(self) -> None:
        self.best = self.best.concat(self._collected).best(self.options.top)
        self._collected = []
        self.full = len(self.best.credence) == self.options.top

    def finish(self) -> Scored:
        """The best candidates of all relations with enough credence."""
        self._gather()
        enough = self.best.credence.round(PRECISION) >= round(self.options.min_credence, PRECISION)
        return self.best.take(np.flatnonzero(enough))

    def _floor(self, relation: int) -> float:
        """The lowest score with which a belief of this relation can be in the list, by bisection."""
        least, score = self.options.min_credence, -np.inf
        if self.full:
            least, score = max(self.last_credence, least), float(self.best.score[-1])

        def enough(value: float) -> bool:
            credence = float(self._credence(np.array([value]), relation)[0])
            return credence > least + SLACK or (credence >= least - SLACK and (score == -np.inf or value >= score))

        low, high = -1e4, 1e4
        if enough(low):
            return -np.inf
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return low - SLACK

    def _credence(self, score: Numbers, relation: int) -> Numbers:
        return self.model.calibration.curve.probability(score, np.full(len(score), relation))

    def _totals(self, relation: int, slot: Slot, entities: Ids) -> Numbers:
        """log Σ exp over E_h (E_t) of queries for `slot`, one per entity of the other slot, (n,) (Eqs 8, 9)."""
        totals = self._log_totals[slot]
        lacking = np.unique(entities[np.isnan(totals[entities])])
        for block in self._blocks(len(lacking), self.pbe.entities):
            batch = _queries(relation, lacking[block])
            totals[lacking[block]] = self.pbe.distribution(slot, batch).log_total.numpy()
        return totals[entities]

    def _logits(self, relation: int, slot: Slot, entities: Ids, candidates: Tensor) -> Tensor:
        """Logits of candidates for queries, one per entity of the other slot, (B, C)."""
        every = len(candidates) == self.pbe.entities
        return self.pbe.answer_logits(slot, _queries(relation, entities), None if every else candidates)

    def _blocks(self, count: int, width: int) -> Iterator[Ids]:
        """Rows in blocks; a table of float64 is as large as one of float32 with twice the columns."""
        if not self.rows:
            return self.pbe.blocks(count, 2 * width, self.memory)
        return (np.arange(start, min(start + self.rows, count)) for start in range(0, count, self.rows))

    def state(self, fingerprint: str, done: int) -> Checkpoint:
        """The state of the search after `done` relations."""
        self._gather()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in self.best._asdict().items()}
        return Checkpoint(tensors, {"inputs": fingerprint, "done": done})

    def restore(self, checkpoint: Checkpoint, fingerprint: str) -> int:
        """Continue from the state of an earlier search; returns how many relations are done."""
        if checkpoint.state.get("inputs") != fingerprint:
            raise UsageError("the unfinished search was of another model or had other options",
                             "resume=False starts a new search", remedy="new_search")  # fmt: skip
        self.best = Scored(**{name: tensor.numpy() for name, tensor in checkpoint.tensors.items()})
        self.full = len(self.best.credence) == self.options.top
        return int(checkpoint.state["done"])


def _queries(relation: int, entities: Ids) -> Batch:
    """Queries of one relation with the same entity in both slots; the column of the missing slot is not read."""
    column = torch.from_numpy(entities)
    return Batch.of_triples(column, torch.full_like(column, relation), column)
