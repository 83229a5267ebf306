"""Build an index: cells by k-means, codes by faiss, and as many cells per query as the wanted recall needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.data.batch import Batch
from doxa.data.vocabulary import Ids
from doxa.errors import CannotAnswer, UsageError
from doxa.index.cells import make_cells
from doxa.index.entity_index import EntityIndex, IndexSummary
from doxa.index.lists import Lists, engine, k_means
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS, Slot

QUESTIONS, TOP = 200, 10
"""Questions that recall is measured on, half of them for each slot, and the answers of each that should be returned."""

Report = Callable[[float, str], None]
"""Receives how much of the work is done, from 0 to 1, and what is being done."""


class ExactAnswers(NamedTuple):
    """Queries for one slot by id, (n, 3), and their best answers by exact scores, (n, TOP)."""

    slot: Slot
    triples: NDArray[np.int64]
    best: Ids


def build(
    pbe: PBE,
    facts: NDArray[np.int64],
    recall: float = 0.95,
    cells: int = 0,
    seed: int = 0,
    memory: int = 0,
    report: Report | None = None,
) -> EntityIndex:
    """The index of a model's entities that returns this share of the best answers.

    `facts` (n, 3) are known facts: questions are made of them to measure recall. `cells` is the number of cells,
    0 = 2 · √entities. `memory` bounds the tables of exact scores in bytes, 0 = automatic.
    """
    began, tell = time.monotonic(), report or (lambda fraction, what: None)
    _check(pbe, facts, recall, cells)
    engine()
    heads, tails = (pbe.seen[slot].numpy() for slot in ENTITY_SLOTS)
    ids, vectors = np.union1d(heads, tails), pbe.score.entity.weight.detach()
    tell(0.0, "k-means")
    centroids = k_means(vectors, ids, min(cells or max(1, round(2 * len(ids) ** 0.5)), len(ids)), seed)
    tell(0.3, "cells")
    grouped = make_cells(vectors, heads, tails, centroids)
    tell(0.6, "codes")
    metric = pbe.score.entity_metric
    lists = Lists.build(metric, vectors, grouped)
    summary = IndexSummary(metric, len(ids), len(grouped), len(grouped), 1.0, recall, 0)
    index = EntityIndex(pbe, grouped, lists, summary)
    tell(0.7, "recall")
    exact = [exact_answers(pbe, slot, _sample(facts, slot, seed), memory) for slot in ENTITY_SLOTS]
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
    """Distinct queries for a slot, made of known facts."""
    random = np.random.default_rng([seed, int(slot)])
    queries = facts[random.choice(len(facts), min(len(facts), 2 * QUESTIONS), replace=False)]
    queries[:, slot] = 0
    return random.permutation(np.unique(queries, axis=0))[: QUESTIONS // 2]


@torch.no_grad()
def exact_answers(pbe: PBE, slot: Slot, triples: NDArray[np.int64], memory: int = 0) -> ExactAnswers:
    """The best answers to queries by the scores of all candidates."""
    top = min(TOP, len(pbe.seen[slot]))
    best = np.zeros((len(triples), top), np.int64)
    for rows in pbe.blocks(len(triples), pbe.entities, memory):
        distribution = pbe.distribution(slot, _batch(triples[rows]))
        best[rows] = distribution.columns[distribution.logits.topk(top, dim=1).indices].numpy()
    return ExactAnswers(slot, triples, best)


def _batch(triples: NDArray[np.int64]) -> Batch:
    return Batch.of_triples(*torch.from_numpy(np.ascontiguousarray(triples.T)))


def _chosen(index: EntityIndex, exact: list[ExactAnswers], wanted: float) -> IndexSummary:
    """The fewest cells per query whose recall is the wanted one, by a standard error of the sample or more.

    The cells that hold the best answers say how many must be searched; codes may then miss a few, so that the recall
    is measured, and more cells are searched where it falls short.
    """
    ranks = np.concatenate([_cell_ranks(index, part) for part in exact])
    questions, cells = len(ranks), len(index.cells)
    probes = next(count for count in _steps(cells) if count == cells or _reaches((ranks < count).mean(1), wanted))
    while True:
        index.summary = replace(index.summary, probes=probes)
        shares = np.concatenate([recalls(index, part) for part in exact])
        if probes == cells or _reaches(shares, wanted):
            return replace(index.summary, recall=float(shares.mean()), questions=questions)
        probes = next(count for count in _steps(cells) if count > probes)


def _steps(cells: int) -> list[int]:
    """Numbers of cells to try, each a twentieth more than the last."""
    steps = [1]
    while steps[-1] < cells:
        steps.append(min(cells, max(steps[-1] + 1, int(1.05 * steps[-1]))))
    return steps


def _reaches(shares: NDArray[np.float64], wanted: float) -> bool:
    error = shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else 0.0
    return bool(shares.mean() - error >= wanted)


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


def recalls(index: EntityIndex, exact: ExactAnswers) -> NDArray[np.float64]:
    """The share of each query's best answers that the index returns among as many, (n,)."""
    top = exact.best.shape[1]
    answers = index.distributions(exact.slot, _batch(exact.triples), top)
    shares = np.zeros(len(exact.triples))
    for row, distribution in enumerate(answers):
        best = distribution.columns[distribution.logits[0].topk(min(top, len(distribution.columns))).indices]
        shares[row] = np.isin(exact.best[row], best.numpy()).mean()
    return shares
