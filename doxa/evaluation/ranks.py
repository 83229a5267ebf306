"""Ranks of the right answer among its candidates, with the tie rule written out.

    rank = 1 + #(better) + #(equal) / 2

the mean of the best and the worst rank under ties: a model that scores all n candidates alike has rank (n + 1) / 2.
A candidate whose score is not a number counts as better.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.data.triples import Pairs

HITS = (1, 3, 10)


@dataclass(frozen=True)
class Metrics:
    """Mean rank, mean reciprocal rank, and Hits@k: the share of ranks up to k."""

    mr: float
    mrr: float
    hits: dict[int, float]

    @classmethod
    def of(cls, ranks: NDArray[np.float64]) -> Metrics:
        return cls(
            mr=float(ranks.mean()),
            mrr=float((1 / ranks).mean()),
            hits={k: float((ranks <= k).mean()) for k in HITS},
        )

    def as_dict(self) -> dict[str, float]:
        return {"mr": self.mr, "mrr": self.mrr} | {f"hits@{k}": share for k, share in self.hits.items()}


@dataclass(frozen=True, eq=False)
class Ranks:
    """Raw and filtered rank of each query's right answer, (n,) each."""

    raw: NDArray[np.float64]
    filtered: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: list[Ranks]) -> Ranks:
        return cls(
            np.concatenate([part.raw for part in parts] or [np.zeros(0)]),
            np.concatenate([part.filtered for part in parts] or [np.zeros(0)]),
        )

    def where(self, rows: NDArray[np.bool_]) -> Ranks:
        return Ranks(self.raw[rows], self.filtered[rows])


def rank(scores: Tensor, truth: Tensor, known: Pairs) -> Ranks:
    """Ranks of the columns `truth` (B,) in `scores` (B, C), raw and without the other known answers (filtered).

    `known` pairs queries with the columns of their known answers, with or without the truth.
    """
    true_scores = scores.gather(1, truth[:, None]).squeeze(1)
    worse, equal = _counts(scores, true_scores)
    better = scores.shape[1] - worse - equal
    query, answer = (torch.from_numpy(part) for part in known)
    others = answer != truth[query]
    query, answer = query[others], answer[others]
    known_scores, to_beat = scores[query, answer], true_scores[query]
    known_equal = torch.bincount(query[known_scores == to_beat], minlength=len(truth))
    known_worse = torch.bincount(query[known_scores < to_beat], minlength=len(truth))
    known_better = torch.bincount(query, minlength=len(truth)) - known_equal - known_worse
    return Ranks(
        _expected(better, equal),
        _expected(better - known_better, equal - known_equal),
    )


def _counts(scores: Tensor, true_scores: Tensor) -> tuple[Tensor, Tensor]:
    """How many scores of each row are below the true score and how many equal it, (B,) each; one pass, all threads."""
    from doxa.scores import kernels  # slow to load, and not for answering

    worse, equal = torch.empty(len(scores), dtype=torch.int64), torch.empty(len(scores), dtype=torch.int64)
    threads = torch.get_num_threads()
    parts = [
        [part.numpy() for part in column.chunk(threads)] for column in (scores.contiguous(), true_scores, worse, equal)
    ]
    if threads == 1:
        kernels.count(*(part[0] for part in parts))
    else:
        list(_pool(threads).map(kernels.count, *parts))
    return worse, equal


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def _expected(better: Tensor, equal: Tensor) -> NDArray[np.float64]:
    """1 + better + ties / 2; `equal` counts the right answer itself, unless its score is not a number."""
    ties = (equal - 1).clamp_min(0).double()
    expected: NDArray[np.float64] = (1 + better.double() + ties / 2).numpy()
    return expected
