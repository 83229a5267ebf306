"""EntityIndex: the best answers to an entity query and their probabilities, from a small part of the entities.

1. D of the query with all centroids orders the cells.
2. faiss searches the first cells by codes. The best members are the shortlist, whose logits are computed exactly; the
   logits of the next ones are those of their codes.
3. The sum of exponentials is that of both and of a sample of the rest (`doxa.index.sampling`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.data.batch import Batch
from doxa.data.triples import Pairs
from doxa.data.vocabulary import Ids
from doxa.index.cells import Cells
from doxa.index.lists import Lists, Mask, mask_of
from doxa.index.sampling import LogTotal, cell_chances, draw, log_total
from doxa.pbe import PBE, Distribution
from doxa.scores.base import VectorScore
from doxa.scores.pairwise import table_of
from doxa.slots import Slot

SHORTLIST = 256
"""Members that are scored exactly for a query, at least. They carry most of the sum of exponentials: at 100,000
entities, 100 of them instead of 10 halved the error of probabilities."""

CODED = 2048
"""Members that a search returns, at least. Those not on the shortlist count in the sum by the scores of their codes.
Twice as many made no probability better at 5 million entities, and a question a tenth slower."""

FEWEST_DRAWS = 2000
"""Draws from the rest, at least; an index takes more where its probabilities need them."""

OPTIMISM = 2.0
"""Standard deviations that cells are ranked above their centroid's inner product. A cell of long or scattered vectors
has better members than its centroid shows; recall .95 then needs two thirds of the cells."""

MOST_KNOWN = 4096
"""Left-out entities of a query, such as known answers, from which on it is answered exactly."""


@dataclass(frozen=True)
class IndexSummary:
    """What an index is: its metric, its cells and how many of them a query searches, and the recall measured.

    `recall` is the share of the 10 best answers to `questions` queries that the index returns, and `probability_error`
    what the relative error of probabilities stayed below for 95 % of them. The standard error of an answer does not
    know of a likely entity in a cell that was not searched; this error does. `seconds` is the time it took to build,
    `draws` the size of the sample that a query draws from the entities not on its shortlist.
    """

    metric: str
    members: int
    cells: int
    probes: int
    recall: float
    probability_error: float
    wanted_recall: float
    questions: int
    seconds: float = 0.0
    draws: int = FEWEST_DRAWS

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Subset(NamedTuple):
    """Candidates of a slot, sorted, and their mask; no mask stands for all members."""

    ids: Ids
    mask: Mask | None


class _Queries(NamedTuple):
    """A block of queries: their batch, their targets (B, d), and the logits of the centroids, (B, C)."""

    batch: Batch
    targets: Tensor
    logits: Tensor


class _Best(NamedTuple):
    """The best candidates of a query by their codes.

    `shortlist` (n,) are the ids to be scored exactly, sorted, and `ids` all of them, sorted. `values` are scores by the
    codes, those of the shortlist first and in its order: D up to a constant that is the same for all.
    """

    shortlist: Ids
    ids: Ids
    values: NDArray[np.float32]

    def logits(self, exact: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
        """The exact logits of the shortlist, and those of the other members, moved by the median error of the codes."""
        coded, count = factor * self.values.astype(np.float64), len(self.shortlist)
        return np.concatenate([exact, coded[count:] + np.median(exact - coded[:count])]) if count else exact


class _Coded(NamedTuple):
    """Candidates by id, the best one first, and their scores by the codes."""

    ids: Ids
    values: NDArray[np.float32]

    def split(self, exact: int, left_out: Ids, asked: int) -> _Best:
        """The first `exact` of them are the shortlist, without those left out, which are sorted.

        The entity asked about is always on it: codes do not know how rare a self-loop is.
        """
        kept = ~_member(self.ids, left_out)
        ids, values = self.ids[kept], self.values[kept]
        first = np.concatenate([np.flatnonzero(ids == asked), np.flatnonzero(ids != asked)])[:exact]
        first = first[np.argsort(ids[first])]
        return _Best(ids[first], np.sort(ids), np.concatenate([values[first], np.delete(values, first)]))


_NOTHING = _Best(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))


class _Sample(NamedTuple):
    """Draws of a query: the id of each, and its log chance, (n,)."""

    ids: Ids
    log_chance: NDArray[np.float64]

    def log_total(self, drawn: Tensor, best: Ids, logits: NDArray[np.float64], left_out: Ids) -> LogTotal:
        """log Σ exp over the candidates, from the logits of the draws and of the best.

        `best` and `left_out` are sorted ids; a draw of one of them adds nothing.
        """
        others = np.where(_member(self.ids, best) | _member(self.ids, left_out), -np.inf, drawn.double().numpy())
        return log_total(logits, others, self.log_chance)


class EntityIndex:
    """Cells of entities and their encoded vectors, bound to the model's weights `pbe` that they were made of."""

    def __init__(self, pbe: PBE, cells: Cells, lists: Lists, summary: IndexSummary) -> None:
        self.pbe, self.cells, self.lists, self.summary = pbe, cells, lists, summary
        self._masks: dict[Slot, Mask | None] = {}

    @torch.no_grad()
    def distributions(
        self,
        slot: Slot,
        batch: Batch,
        count: int,
        *,
        temperature: float = 1.0,
        without: Pairs | None = None,
        among: Subset | None = None,
    ) -> Iterator[Distribution]:
        """For each query the softmax of its slot (Eqs 8, 9) with the best candidates as columns, `count` or more.

        `without` pairs queries with ids that are no candidates. `among` restricts the columns, not the softmax.
        """
        left_out = _by_query(without, len(batch))
        indexed = np.array([len(ids) <= MOST_KNOWN for ids in left_out], bool)
        queries = self._queries(slot, batch)
        bests = self._bests(slot, queries, count, left_out, indexed, among)
        for row, (ids, best) in enumerate(zip(left_out, bests, strict=True)):
            single = _row(batch, row)
            if not indexed[row]:
                pairs = np.zeros(len(ids), np.int64), ids
                yield _restricted(self.pbe.distribution(slot, single, temperature=temperature, without=pairs), among)
                continue
            sample = self._sample(slot, single, queries.logits[row], temperature)
            drawn, logits = self._logits(slot, single, sample.ids, best.shortlist, temperature=temperature)
            all_logits = best.logits(logits[0].double().numpy(), float(self.pbe.scale) / temperature)
            total = sample.log_total(drawn[0], best.ids, all_logits, ids)
            yield Distribution(
                logits,
                torch.tensor([total.value], dtype=logits.dtype),
                torch.from_numpy(best.shortlist),
                torch.tensor([total.relative_error]),
            )

    def subset(self, candidates: Ids) -> Subset:
        """These sorted candidates of a slot, to search among them."""
        return Subset(candidates, mask_of(_member(self.cells.members, candidates)))

    @torch.no_grad()
    def log_totals(
        self, slot: Slot, batch: Batch, columns: Ids, logits: Tensor, without: Pairs | None = None
    ) -> Tensor:
        """log Σ exp of each query, (B,), where the logits of these sorted candidates are known, (B, C).

        −∞ marks a candidate that is left out; `without` is as in `distributions`.
        """
        queries, left_out = self._queries(slot, batch), _by_query(without, len(batch))
        totals = []
        for row, ids in enumerate(left_out):
            query = _row(batch, row)
            sample = self._sample(slot, query, queries.logits[row])
            (drawn,) = self._logits(slot, query, sample.ids)
            totals.append(sample.log_total(drawn[0], columns, logits[row].double().numpy(), ids).value)
        return torch.tensor(totals, dtype=logits.dtype)

    def _queries(self, slot: Slot, batch: Batch) -> _Queries:
        """The queries beside the centroids; the column of the missing slot is not used."""
        score = self.pbe.score
        assert isinstance(score, VectorScore)
        h, r, t = score.entity(batch.head), score.relation(batch.relation), score.entity(batch.tail)
        centroids = self.cells.centroids.to(h.dtype)
        logits = self.pbe.scale * table_of(score.pairs(slot, h, r, t, centroids))
        return _Queries(batch, score.target(slot, h, r, t), logits)

    def cell_order(self, slot: Slot, batch: Batch) -> Tensor:
        """The cells of each query, those searched first in front, (B, C)."""
        return self._ranking(slot, self._queries(slot, batch)).argsort(1, descending=True)

    def _ranking(self, slot: Slot, queries: _Queries) -> Tensor:
        """The larger the number of a cell, the sooner it is searched, (B, C); −∞ for a cell without candidates."""
        ranking = queries.logits.clone()
        if self.summary.metric == "product":
            lengths = torch.linalg.vector_norm(queries.targets, dim=1, keepdim=True)
            ranking += OPTIMISM * self.pbe.scale * lengths * self.cells.spread
        return ranking.masked_fill_(torch.from_numpy(self.cells.counts(slot) == 0), -torch.inf)

    def _bests(
        self,
        slot: Slot,
        queries: _Queries,
        count: int,
        left_out: list[Ids],
        indexed: NDArray[np.bool_],
        among: Subset | None,
    ) -> list[_Best]:
        """The best candidates of each query by their codes; none for a query that is not indexed."""
        candidates, mask = among or Subset(self.pbe.seen[slot].numpy(), self._mask(slot))
        share = len(candidates) / len(self.pbe.seen[slot])  # of few candidates, as many are compared in more cells
        first_cells = min(math.ceil(self.summary.probes / max(share, 1e-9)), len(self.cells))
        ranking, bests = self._ranking(slot, queries), [_NOTHING] * len(left_out)
        more = np.array([1 << (len(ids) - 1).bit_length() if len(ids) else 0 for ids in left_out])
        exact, asked = max(SHORTLIST, 2 * count), queries.batch.column(slot.other)
        for extra in np.unique(more[indexed]).tolist():
            rows = np.flatnonzero((more == extra) & indexed)
            fetched = min(max(CODED, exact) + extra, len(candidates))
            for probes in (first_cells, len(self.cells)):
                for row, part in zip(rows, self._searched(queries, ranking, rows, probes, fetched, mask), strict=True):
                    bests[row] = part.split(exact, left_out[row], int(asked[row]))
                left = [len(candidates) - int(_member(left_out[row], candidates).sum()) for row in rows]
                rows = rows[
                    [len(bests[row].shortlist) < min(count, most) for row, most in zip(rows, left, strict=True)]
                ]
                if not len(rows):
                    break
        return bests

    def _searched(
        self, queries: _Queries, ranking: Tensor, rows: Ids, probes: int, count: int, mask: Mask | None
    ) -> list[_Coded]:
        """The best `count` members of the first cells for these rows."""
        if not count:
            return [_Coded(_NOTHING.ids, _NOTHING.values)] * len(rows)
        cells = ranking[rows].topk(probes, dim=1).indices
        products = queries.logits[rows].gather(1, cells) / self.pbe.scale
        places, values = self.lists.search(queries.targets[rows], cells.numpy(), products.float().numpy(), count, mask)
        return [
            _Coded(self.cells.members[row[row >= 0]], value[row >= 0])
            for row, value in zip(places, values, strict=True)
        ]

    def _mask(self, slot: Slot) -> Mask | None:
        """The members that are candidates of a slot; None where all of them are."""
        if slot not in self._masks:
            first, counts = self.cells.first(slot), self.cells.counts(slot)
            inside = np.zeros(len(self.cells.members) + 1, np.int64)
            np.add.at(inside, first, 1)
            np.add.at(inside, first + counts, -1)
            members = np.cumsum(inside[:-1]) > 0
            self._masks[slot] = None if members.all() else mask_of(members)
        return self._masks[slot]

    def _logits(self, slot: Slot, query: Batch, *several: Ids, temperature: float = 1.0) -> list[Tensor]:
        """The exact logits of one query for each array of candidates, from one table: small ones cost as much."""
        ids, places = np.unique(np.concatenate(several), return_inverse=True)
        logits = self.pbe.answer_logits(slot, query, torch.from_numpy(ids)) / temperature
        ends = np.cumsum([len(each) for each in several])[:-1]
        return [logits[:, torch.from_numpy(part)] for part in np.split(places, ends)]

    def _sample(self, slot: Slot, query: Batch, cell_logits: Tensor, temperature: float = 1.0) -> _Sample:
        """Draws from the candidates of a query; they depend on the query alone, so that a question has one answer."""
        random = np.random.default_rng([int(slot), int(query.relation[0]), int(query.column(slot.other)[0])])
        counts = self.cells.counts(slot)
        chances = cell_chances(counts, cell_logits.double().numpy() / temperature)
        cells, places = draw(chances, counts, self.summary.draws, random)
        ids = self.cells.members[self.cells.first(slot)[cells] + places]
        return _Sample(ids, np.log(chances[cells]) - np.log(counts[cells]))


def _restricted(distribution: Distribution, among: Subset | None) -> Distribution:
    """The distribution with these candidates alone as columns."""
    if among is None:
        return distribution
    columns = torch.from_numpy(among.ids)
    logits = distribution.logits[:, torch.searchsorted(distribution.columns, columns)]
    return Distribution(logits, distribution.log_total, columns)


def _row(batch: Batch, row: int) -> Batch:
    """One query of a batch, without its mention."""
    return Batch.of_triples(*(column[row : row + 1] for column in (batch.head, batch.relation, batch.tail)))


def _by_query(pairs: Pairs | None, count: int) -> list[Ids]:
    """The ids that each query is paired with, sorted."""
    if pairs is None:
        return [np.zeros(0, np.int64)] * count
    order = np.lexsort((pairs[1], pairs[0]))
    return np.split(pairs[1][order], np.searchsorted(pairs[0][order], np.arange(1, count)))


def _member(ids: Ids, sorted_set: Ids) -> NDArray[np.bool_]:
    if not len(sorted_set):
        return np.zeros(len(ids), bool)
    place = np.minimum(np.searchsorted(sorted_set, ids), len(sorted_set) - 1)
    return np.asarray(sorted_set[place] == ids)
