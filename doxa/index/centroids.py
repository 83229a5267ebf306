"""Centroids of cells by k-means, and the centroid next to a vector.

Vectors are compared with all centroids where these are few, otherwise with those of the nearest groups of centroids: at
5 million entities, k-means would take an hour of a core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.data.vocabulary import Ids
from doxa.index.engine import BLOCK, array_of, engine

POINTS_PER_CELL, ROUNDS = 32, 10
"""Vectors for each cell that k-means looks at, and its rounds; not tuned."""

MANY = 1000
"""Centroids from which on they are searched in groups, the square root of their number."""

SEARCHED_GROUPS = 4
"""Groups that are searched for the centroid next to a vector."""


def k_means(vectors: Tensor, ids: Ids, cells: int, seed: int, report: Callable[[float], None]) -> NDArray[np.float32]:
    """The centroids of `cells` cells of these vectors, from a sample of them; `report` receives the share done."""
    random = np.random.default_rng(seed)
    count = min(len(ids), cells * POINTS_PER_CELL)
    sample = array_of(vectors[torch.from_numpy(np.sort(random.choice(ids, count, replace=False)))])
    faiss = engine()
    means = faiss.Clustering(vectors.shape[1], cells)
    means.niter, means.seed = 1, seed
    means.min_points_per_centroid, means.max_points_per_centroid = 1, POINTS_PER_CELL
    finder = _finder(sample, cells)
    for done in range(ROUNDS):
        report(done / ROUNDS)
        means.train(sample, finder)  # goes on from its centroids
    return np.asarray(faiss.vector_float_to_array(means.centroids), np.float32).reshape(cells, -1)


def nearest(
    vectors: Tensor, ids: Ids, centroids: NDArray[np.float32], report: Callable[[float], None]
) -> tuple[Ids, NDArray[np.float64]]:
    """The nearest centroid of each of these vectors, or nearly so, and the squared distance to it, (n,) each."""
    finder = _finder(centroids, len(centroids))
    finder.add(centroids)
    cell, squares = np.zeros(len(ids), np.int64), np.zeros(len(ids))
    for start in range(0, len(ids), BLOCK):
        report(start / len(ids))
        span = slice(start, start + BLOCK)
        distances, places = finder.search(array_of(vectors[torch.from_numpy(ids[span])]), 1)
        cell[span], squares[span] = places[:, 0], np.maximum(distances[:, 0], 0)
    return cell, squares


def _finder(points: NDArray[np.float32], centroids: int) -> Any:
    """An index of faiss, without centroids yet, for so many of them among these points."""
    faiss, width = engine(), points.shape[1]
    flat = faiss.IndexFlatL2(width)
    if centroids < MANY:
        return flat
    finder = faiss.IndexIVFFlat(flat, width, round(centroids**0.5))
    finder.nprobe, finder.cp.min_points_per_centroid = SEARCHED_GROUPS, 1
    finder.train(points)
    return finder
