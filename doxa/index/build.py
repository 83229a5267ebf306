"""Build an index: cells by k-means, codes by faiss, and as many cells per query as the wanted recall needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.data.batch import Batch
from doxa.data.vocabulary import Ids
from doxa.errors import CannotAnswer, UsageError
from doxa.index.cells import make_cells
from doxa.index.centroids import k_means
from doxa.index.engine import engine
from doxa.index.entity_index import FEWEST_DRAWS, EntityIndex, IndexSummary
from doxa.index.lists import Lists
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS, Slot

QUESTIONS, TOP = 1000, 10
"""Questions that recall is measured on, half of them for each slot, and the answers of each that should be returned."""

MAX_ERROR, SHARE_WITHIN = 0.1, 0.95
"""Relative error of probabilities that this share of the questions must stay below."""

DRAWS = tuple(FEWEST_DRAWS << doublings for doublings in range(5))
"""Sizes of the sample that probabilities are estimated from; the largest costs some milliseconds per question."""

MORE_CELLS = tuple(1.5**step for step in range(1, 6))
"""Probabilities may need so many times the cells that recall needs; with still more, exact answers are as fast."""

RECALL_MARGIN, ERROR_MARGIN = 3.0, 1.0
"""Standard errors by which measured shares must exceed those wanted, so that other questions reach them, too. The
number of cells for a recall is the smallest of many that seems enough, and a few questions miss nearly all of their
answers: at 5 million entities, 1 of 18 indexes would return less than wanted with a margin of 2.33, and 1 of 36 with
3."""

Report = Callable[[float, str], None]
"""Receives how much of the work is done, from 0 to 1, and what is being done."""


class ExactAnswers(NamedTuple):
    """Queries for one slot by id, (n, 3), their best answers by exact scores, (n, TOP), and log Σ exp of each, (n,).

    Logits are divided by the temperature.
    """

    slot: Slot
    triples: NDArray[np.int64]
    best: Ids
    log_total: NDArray[np.float64]
    temperature: float


def build(
    pbe: PBE,
    facts: NDArray[np.int64],
    recall: float = 0.95,
    cells: int = 0,
    seed: int = 0,
    memory: int = 0,
    report: Report | None = None,
    temperatures: Mapping[Slot, float] | None = None,
) -> EntityIndex:
    """The index of a model's entities that returns this share of the best answers.

    `facts` (n, 3) are known facts: questions are made of them to measure recall. `cells` is the number of cells, 0 =
    8 · √entities, where faiss advises 4 to 16. `memory` bounds the tables of exact scores in bytes, 0 = automatic.
    Logits are divided by the temperature of their slot, 1 by default.
    """
    began, tell = time.monotonic(), report or (lambda fraction, what: None)
    _check(pbe, facts, recall, cells)
    engine()
    heads, tails = (pbe.seen[slot].numpy() for slot in ENTITY_SLOTS)
    ids, vectors = np.union1d(heads, tails), pbe.score.entity.weight.detach()
    count = min(cells or max(1, round(8 * len(ids) ** 0.5)), len(ids))
    centroids = k_means(vectors, ids, count, seed, lambda share: tell(0.3 * share, "k-means"))
    grouped = make_cells(vectors, heads, tails, centroids, lambda share: tell(0.3 + 0.3 * share, "cells"))
    tell(0.6, "codes")
    metric = pbe.score.entity_metric
    lists = Lists.build(metric, vectors, grouped)
    summary = IndexSummary(metric, len(ids), len(grouped), len(grouped), 1.0, 0.0, recall, 0)
    index = EntityIndex(pbe, grouped, lists, summary)
    tell(0.7, "recall")
    exact = [
        exact_answers(pbe, slot, _sample(facts, slot, seed), (temperatures or {}).get(slot, 1.0), memory)
        for slot in ENTITY_SLOTS
    ]
    index.summary = _chosen(index, exact, recall)
    index.summary = replace(index.summary, seconds=time.monotonic() - began)
    tell(1.0, "recall")
    return index


def _check(pbe: PBE, facts: NDArray[np.int64], recall: float, cells: int) -> None:
    if not pbe.score.entity_metric:
        raise CannotAnswer(
            "this model's score has no index: its answers are not the nearest vectors of a query",
            "translation, complex, distmult and rotate have one",
        )
    if not 0 < recall <= 1:
        raise UsageError(f"recall is {recall}; expected a number above 0, and at most 1")
    if cells < 0:
        raise UsageError(f"cells is {cells}; expected 1 or more, or 0 for the default")
    if not len(facts):
        raise CannotAnswer("the model knows no facts to measure the recall of an index on")


def _sample(facts: NDArray[np.int64], slot: Slot, seed: int) -> NDArray[np.int64]:
    """Queries for a slot, made of known facts; a query with many answers comes as often as its facts."""
    random = np.random.default_rng([seed, int(slot)])
    return facts[random.choice(len(facts), min(len(facts), QUESTIONS // 2), replace=False)]


@torch.no_grad()
def exact_answers(pbe: PBE, slot: Slot, triples: NDArray[np.int64], temperature: float, memory: int) -> ExactAnswers:
    """The best answers to queries by the scores of all candidates."""
    top = min(TOP, len(pbe.seen[slot]))
    best, log_total = np.zeros((len(triples), top), np.int64), np.zeros(len(triples))
    for rows in pbe.blocks(len(triples), pbe.entities, memory):
        distribution = pbe.distribution(slot, _batch(triples[rows]), temperature=temperature)
        best[rows] = distribution.columns[distribution.logits.topk(top, dim=1).indices].numpy()
        log_total[rows] = distribution.log_total.double().numpy()
    return ExactAnswers(slot, triples, best, log_total, temperature)


def _batch(triples: NDArray[np.int64]) -> Batch:
    return Batch.of_triples(*torch.from_numpy(np.ascontiguousarray(triples.T)))


class _Measured(NamedTuple):
    """A summary, the shares of the best answers that it returns, and the errors of its probabilities, (n,)."""

    summary: IndexSummary
    shares: NDArray[np.float64]
    errors: NDArray[np.float64]

    @property
    def is_within(self) -> bool:
        return _reaches((self.errors <= MAX_ERROR).astype(float), SHARE_WITHIN, ERROR_MARGIN)


def _chosen(index: EntityIndex, exact: list[ExactAnswers], wanted: float) -> IndexSummary:
    """The fewest cells and draws per query that are enough on other questions, too.

    The cells that hold the best answers say how many must be searched for the recall. Codes may then miss a few:
    recall is measured. Where probabilities are wrong with the largest sample, a likely answer lies in a cell that was
    not searched, and more cells are tried; where these do not help either, recall alone decides.
    """

    def measured(probes: int, draws: int) -> _Measured:
        index.summary = replace(index.summary, probes=probes, draws=draws)
        parts = zip(*(compare(index, part) for part in exact), strict=True)
        return _Measured(index.summary, *(np.concatenate(part) for part in parts))

    cells, most = len(index.cells), DRAWS[-1]
    ranks = np.concatenate([_cell_ranks(index, part) for part in exact])
    steps = [
        count for count in _steps(cells) if count == cells or _reaches((ranks < count).mean(1), wanted, RECALL_MARGIN)
    ]
    for probes in [*steps[:-1:3], cells]:
        first = measured(probes, most)
        if _reaches(first.shares, wanted, RECALL_MARGIN):
            break
    best = first
    for factor in MORE_CELLS:
        if not best.is_within:
            best = measured(min(round(first.summary.probes * factor), cells), most)
    if not best.is_within:
        best = first
    for draws in DRAWS[:-1] if best.is_within else ():
        fewer = measured(best.summary.probes, draws)
        if fewer.is_within:
            best = fewer
            break
    return replace(
        best.summary,
        recall=float(best.shares.mean()),
        probability_error=float(np.quantile(best.errors, SHARE_WITHIN)),
        questions=len(ranks),
    )


def _steps(cells: int) -> list[int]:
    """Numbers of cells to try, each a twentieth more than the last."""
    steps = [cells]
    while steps[-1] > 1:
        steps.append(min(steps[-1] - 1, int(steps[-1] / 1.05)))
    return steps[::-1]


def _reaches(shares: NDArray[np.float64], wanted: float, margin: float) -> bool:
    error = shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else 0.0
    return bool(shares.mean() - margin * error >= wanted)


@torch.no_grad()
def _cell_ranks(index: EntityIndex, exact: ExactAnswers) -> Ids:
    """In which place of a query's order the cell of each best answer comes, (n, TOP)."""
    members, cells = index.cells.members, index.cells
    by_id = np.argsort(members)
    places = by_id[np.searchsorted(members, exact.best, sorter=by_id)]
    cell = np.searchsorted(cells.bounds[:, 0], places, side="right") - 1
    order = index.cell_order(exact.slot, _batch(exact.triples)).numpy()
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(cells))[None], 1)
    return np.asarray(np.take_along_axis(ranks, cell, 1))


def compare(index: EntityIndex, exact: ExactAnswers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each query the share of its best answers that the index returns, and the error of its probabilities, (n,)."""
    top = exact.best.shape[1]
    answers = index.distributions(exact.slot, _batch(exact.triples), top, temperature=exact.temperature)
    shares, errors = np.zeros(len(exact.triples)), np.zeros(len(exact.triples))
    for row, distribution in enumerate(answers):
        best = distribution.columns[distribution.logits[0].topk(min(top, len(distribution.columns))).indices]
        shares[row] = np.isin(exact.best[row], best.numpy()).mean()
        errors[row] = abs(np.expm1(exact.log_total[row] - float(distribution.log_total[0])))
    return shares, errors
