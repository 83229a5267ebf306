"""Candidates of completion: new beliefs that are among the best answers to one of their two queries, with features.

An entity is asked about in a slot of a relation if it was seen there, or in a similar slot: one with at least
SIMILAR_SLOT of its entities in common with this one. A city without a known time zone is asked for it because most
entities that lie in a country have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.calibration.thresholds import Numbers
from doxa.data.batch import Batch
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.index.entity_index import EntityIndex
from doxa.pbe import PBE, Distribution, log_probability_of_newcomer, softmax
from doxa.slots import ENTITY_SLOTS, Slot

SIMILAR_SLOT = 0.3
"""Share of a slot's entities that must also be in another slot, for all of them to be candidates there.

Of the validation facts that training lacks, the slot's own entities cover 14 % (atlas), 39 % (NELL) and 69 % (FB15k);
with this share it is 93, 63 and 99 %."""

BEST = 5
"""New answers of a query that become candidates."""


POOL_SCORED = 50_000
"""Candidates of a slot that are all scored; an index searches larger pools."""


class Pools:
    """The candidates of each slot of each relation: the entities of the slot and of similar slots."""

    def __init__(self, facts: TripleIndex) -> None:
        from scipy import sparse  # slow to load, and not for answering

        seen = [facts.seen(slot) for slot in ENTITY_SLOTS]
        slot_number = np.concatenate([2 * relation + place for place, (relation, _) in enumerate(seen)])
        entity = np.concatenate([entity for _, entity in seen])
        shape = (2 * facts.relations, facts.entities)
        member = sparse.csr_array((np.ones(len(entity), np.float32), (slot_number, entity)), shape=shape)
        shared = (member @ member.T).tocoo()
        sizes = np.bincount(slot_number, minlength=shape[0])
        similar = shared.data >= SIMILAR_SLOT * sizes[shared.col]
        places = shared.row[similar], shared.col[similar]
        chosen = sparse.csr_array((np.ones(len(places[0]), np.float32), places), shape=(shape[0], shape[0]))
        self._table = (chosen @ member).tocsr()
        self._table.sort_indices()

    def of(self, relation: int, slot: Slot) -> Ids:
        """The candidates of a slot, sorted."""
        row = 2 * relation + ENTITY_SLOTS.index(slot)
        start, end = self._table.indptr[row : row + 2]
        return np.asarray(self._table.indices[start:end], np.int64)

    def cost(self, relation: int) -> int:
        """Number of queries of a relation."""
        return sum(len(self.of(relation, slot)) for slot in ENTITY_SLOTS)


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """Candidates of one relation or several, and what their credence is read from.

    `triples` (n, 3). `log_pr` (n, 2) are log Pr(h|r,t) and log Pr(t|h,r) among the answers not yet known. `ranks`
    (n, 2) are the ranks of head and tail among these answers, BEST + 1 if the entity is not among the best. An entity
    never seen in its slot is no answer, but joins those of its own query. `known` (n, 2) counts the known heads and
    tails. Columns belong to the slots head and tail.
    """

    triples: NDArray[np.int64]
    log_pr: Numbers
    ranks: Numbers
    known: NDArray[np.int64]

    @classmethod
    def empty(cls) -> CandidateTable:
        numbers = np.zeros((0, 2))
        return cls(np.zeros((0, 3), np.int64), numbers, numbers, np.zeros((0, 2), np.int64))

    @classmethod
    def concat(cls, tables: list[CandidateTable]) -> CandidateTable:
        tables = tables or [cls.empty()]
        columns = ("triples", "log_pr", "ranks", "known")
        return cls(*(np.concatenate([getattr(table, name) for table in tables]) for name in columns))

    def __len__(self) -> int:
        return len(self.triples)

    def take(self, rows: Ids | NDArray[np.bool_]) -> CandidateTable:
        return CandidateTable(self.triples[rows], self.log_pr[rows], self.ranks[rows], self.known[rows])

    def answers(self, pbe: PBE) -> NDArray[np.bool_]:
        """Whether head and tail are among the best answers, (n, 2)."""
        seen = [np.isin(self.triples[:, slot], pbe.seen[slot].numpy()) for slot in ENTITY_SLOTS]
        return (self.ranks <= BEST) & np.stack(seen, axis=1)

    @property
    def relation(self) -> Ids:
        return self.triples[:, Slot.RELATION]

    @property
    def features(self) -> Numbers:
        """(n, 8): probabilities, ranks and numbers of known answers as logarithms, and whether none is known."""
        return np.column_stack([self.log_pr, np.log(self.ranks), np.log1p(self.known), self.known == 0])


@dataclass(frozen=True)
class _Search:
    """What is searched: a model, its index if that is used, and the bound of score tables in bytes."""

    pbe: PBE
    index: EntityIndex | None
    memory: int


class _Answers(NamedTuple):
    """The best new answers of queries for one slot: key of each triple, its logit and rank; and Σ exp of each query.

    `log_total` is over the answers not yet known, by entity, NaN for an entity that was not asked about.
    """

    keys: Ids
    logits: Numbers
    ranks: Ids
    log_total: Numbers


@torch.no_grad()
def candidates(
    pbe: PBE,
    known: TripleIndex,
    pools: Pools,
    relation: int,
    about: Ids | None = None,
    memory: int = 0,
    depth: int = BEST,
    index: EntityIndex | None = None,
) -> CandidateTable:
    """The candidates of one relation that are not in `known`.

    A triple is a candidate if its tail is one of the BEST new tails of (h, r, ?) in the pool, or its head one of the
    BEST new heads of (?, r, t). With `about`, only queries about these entities are asked, and the `depth` best answers
    to each are looked at: a triple with one of them that is not among these is left out. `memory` bounds the tables of
    scores in bytes; 0 = automatic. With an `index`, sums over all entities are estimated.
    """
    search = _Search(pbe, index, memory)
    asked = {slot: pools.of(relation, slot.other) for slot in ENTITY_SLOTS}
    if about is not None:
        asked = {slot: np.intersect1d(entities, about) for slot, entities in asked.items()}
    answers = {slot: _answers(search, known, pools, relation, slot, asked[slot], depth) for slot in ENTITY_SLOTS}
    keys = np.unique(np.concatenate([part.keys for part in answers.values()]))
    pairs = dict(zip(ENTITY_SLOTS, np.divmod(keys, pbe.entities), strict=True))
    for slot in ENTITY_SLOTS:  # what the other slot's answers are asked in turn
        more = np.setdiff1d(pairs[slot.other], asked[slot])
        if len(more):
            answers[slot] = _joined(answers[slot], _answers(search, known, pools, relation, slot, more))
    logits, ranks = np.zeros(len(keys)), np.full((len(keys), 2), BEST + 1.0)
    for column, part in enumerate(answers.values()):
        place = np.minimum(np.searchsorted(keys, part.keys), max(len(keys) - 1, 0))
        listed = keys[place] == part.keys if len(keys) else np.zeros(0, bool)
        logits[place[listed]] = part.logits[listed]
        ranks[place[listed], column] = np.minimum(part.ranks[listed], BEST + 1)
    for column, slot in enumerate(ENTITY_SLOTS):
        new = np.flatnonzero(~np.isin(pairs[slot], pbe.seen[slot].numpy()))
        ranks[new, column] = _rank_of_newcomers(answers[slot], slot, pbe.entities, pairs[slot.other][new], logits[new])
    triples = np.stack([pairs[Slot.HEAD], np.full(len(keys), relation), pairs[Slot.TAIL]], axis=1)
    log_pr = [
        _log_pr(pbe, slot, pairs[slot], logits, answers[slot].log_total[pairs[slot.other]]) for slot in ENTITY_SLOTS
    ]
    counts = [known.count_answers(slot, *triples.T) for slot in ENTITY_SLOTS]
    table = CandidateTable(triples, np.minimum(np.stack(log_pr, 1), 0.0), ranks, np.stack(counts, 1))
    return table if depth == BEST else table.take(np.flatnonzero(table.answers(pbe).any(axis=1)))


@torch.no_grad()
def hidden_candidates(pbe: PBE, known: TripleIndex, pools: Pools, hidden: NDArray[np.int64]) -> CandidateTable:
    """Known facts of one relation, (n, 3), as the candidates they would be if each of them alone were not known.

    A fact that would be no candidate is left out.
    """
    relation = int(hidden[0, Slot.RELATION])
    log_pr, ranks = np.zeros((len(hidden), 2)), np.zeros((len(hidden), 2))
    for column, slot in enumerate(ENTITY_SLOTS):
        pool = torch.from_numpy(_answer_pool(pbe, pools, relation, slot))
        for rows in pbe.blocks(len(hidden), pbe.entities):
            batch = Batch.of_triples(*torch.from_numpy(np.ascontiguousarray(hidden[rows].T)))
            truth = batch.column(slot)
            query, answer = known.answers(slot, *hidden[rows].T)
            other = answer != truth.numpy()[query]
            distribution = pbe.distribution(slot, batch, without=(query[other], answer[other]))
            columns, seen = distribution.columns, torch.isin(truth, pbe.seen[slot])
            place = torch.searchsorted(columns, truth).clamp_max(len(columns) - 1)
            in_table = distribution.logits.gather(1, place[:, None]).squeeze(1)
            logit = torch.where(seen, in_table, pbe.belief_logit(batch))  # rounded like the logits it is compared with
            among = distribution.logits.index_select(1, torch.searchsorted(columns, pool))
            rank = (1 + (among > logit[:, None]).sum(1)).clamp_max(BEST + 1)
            values = logit.double().numpy(), distribution.log_total.double().numpy()
            log_pr[rows, column] = _log_pr(pbe, slot, truth.numpy(), *values)
            ranks[rows, column] = rank.numpy()
    counts = [known.count_answers(slot, *hidden.T) - 1 for slot in ENTITY_SLOTS]
    table = CandidateTable(hidden, np.minimum(log_pr, 0.0), ranks, np.stack(counts, 1))
    in_pools = [np.isin(hidden[:, slot], pools.of(relation, slot)) for slot in ENTITY_SLOTS]
    return table.take(in_pools[0] & in_pools[1] & table.answers(pbe).any(axis=1))


def _rank_of_newcomers(answers: _Answers, slot: Slot, entities: int, queries: Ids, logits: Numbers) -> Ids:
    """The ranks that these logits have among the best answers of their queries, (n,), at most BEST + 1."""
    asked, row = np.unique(np.divmod(answers.keys, entities)[ENTITY_SLOTS.index(slot.other)], return_inverse=True)
    best, listed = np.full((len(asked) + 1, BEST), -np.inf), answers.ranks <= BEST
    best[row[listed], answers.ranks[listed] - 1] = answers.logits[listed]
    place = np.searchsorted(asked, queries)
    place[~np.isin(queries, asked)] = len(asked)  # without any answer
    return np.asarray(1 + (best[place] > logits[:, None]).sum(axis=1))


def _log_pr(pbe: PBE, slot: Slot, entities: Ids, logits: Numbers, log_totals: Numbers) -> Numbers:
    """log Pr of the entities in a slot, (n,); one never seen there joins the candidates of its own query."""
    newcomer = log_probability_of_newcomer(torch.from_numpy(logits), torch.from_numpy(log_totals)).numpy()
    return np.where(np.isin(entities, pbe.seen[slot].numpy()), logits - log_totals, newcomer)


def _answer_pool(pbe: PBE, pools: Pools, relation: int, slot: Slot) -> Ids:
    """The candidates of a slot that are answers: those in its softmax, E_h or E_t.

    An entity of a similar slot may never have been seen as head (tail) in training.
    """
    return np.intersect1d(pools.of(relation, slot), pbe.seen[slot].numpy(), assume_unique=True)


def _answers(
    search: _Search,
    known: TripleIndex,
    pools: Pools,
    relation: int,
    slot: Slot,
    entities: Ids,
    depth: int = BEST,
) -> _Answers:
    """The `depth` best new answers for `slot` to one query per entity of the other slot."""
    pbe = search.pbe
    pool = _answer_pool(pbe, pools, relation, slot)
    log_total = np.full(pbe.entities, np.nan)
    parts: list[tuple[Ids, Numbers, Ids]] = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))]
    for queries, distribution in _distributions(search, known, relation, slot, entities, pool, depth):
        log_total[queries] = distribution.log_total.numpy()
        logits, best = distribution.logits.topk(min(depth, distribution.logits.shape[1]), dim=1)
        answers = distribution.columns.numpy()[best.numpy()]
        asked = np.broadcast_to(queries[:, None], answers.shape)
        head, tail = (asked, answers) if slot is Slot.TAIL else (answers, asked)
        new = torch.isfinite(logits).numpy()
        ranks = np.broadcast_to(np.arange(1, answers.shape[1] + 1), answers.shape)
        parts.append(((head * pbe.entities + tail)[new], logits.double().numpy()[new], ranks[new]))
    keys, values, ranks = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _Answers(keys, values, ranks, log_total)


def _distributions(
    search: _Search, known: TripleIndex, relation: int, slot: Slot, entities: Ids, pool: Ids, depth: int
) -> Iterator[tuple[Ids, Distribution]]:
    """Queries in blocks, and their softmax over the answers not yet known, with answers of the pool as columns.

    Columns are the whole pool, or the best of it where an index searches a pool above POOL_SCORED.
    """
    pbe, index = search.pbe, search.index
    large = index is not None and len(pool) > POOL_SCORED
    among = index.subset(pool) if index is not None and large else None
    columns = torch.from_numpy(pool)
    for block in pbe.blocks(len(entities), len(pool) if index is not None else pbe.entities, search.memory):
        queries = entities[block]
        column = torch.from_numpy(queries)
        relations = torch.full_like(column, relation)
        batch = Batch.of_triples(column, relations, column)
        without = known.answers(slot, queries, relations.numpy(), queries)
        if index is None:
            distribution = pbe.distribution(slot, batch, without=without)
            logits = distribution.logits.index_select(1, torch.searchsorted(distribution.columns, columns))
            yield queries, Distribution(logits, distribution.log_total, columns)
        elif among is None:
            logits = softmax(pbe.answer_logits(slot, batch, columns), columns, without=without).logits
            yield queries, Distribution(logits, index.log_totals(slot, batch, pool, logits, without), columns)
        else:
            by_query = index.distributions(slot, batch, depth, without=without, among=among)
            yield from zip(queries[:, None], by_query, strict=True)


def _joined(first: _Answers, second: _Answers) -> _Answers:
    """The answers to both sets of queries."""
    return _Answers(
        np.concatenate([first.keys, second.keys]),
        np.concatenate([first.logits, second.logits]),
        np.concatenate([first.ranks, second.ranks]),
        np.where(np.isnan(first.log_total), second.log_total, first.log_total),
    )
