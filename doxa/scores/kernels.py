"""Compiled loops of training and ranking that PyTorch would run in several passes.

A row is read and written once, in place, instead of being copied out, changed and copied back. A table of products
becomes a table of weights while it is in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on the first call for each type of numbers; keep the result on disk where the folder is writable."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
    try:
        made: Callable[..., Any] = numba.njit(function, cache=True, **options)
    except RuntimeError:
        made = numba.njit(function, **options)
    return made


@compiled
def adagrad(
    table: Floats, sums: Floats, rows: NDArray[np.int64], gradient: Floats, rate: float, epsilon: float, least: float
) -> None:
    """s ← s + g², x ← x − rate · g / (√s + ε) for these rows, each then projected unless `least` is 0."""
    for place in range(len(rows)):
        row, total, slope = table[rows[place]], sums[rows[place]], gradient[place]
        for j in range(len(row)):
            g = slope[j]
            s = total[j] + g * g
            total[j] = s
            row[j] -= rate * g / (np.sqrt(s) + epsilon)
        if least:
            project(row, least)


@compiled
def descend(table: Floats, rows: NDArray[np.int64], gradient: Floats, rate: float, least: float) -> None:
    """x ← x − rate · g for these rows, each then projected unless `least` is 0."""
    for place in range(len(rows)):
        row, slope = table[rows[place]], gradient[place]
        for j in range(len(row)):
            row[j] -= rate * slope[j]
        if least:
            project(row, least)


@compiled
def project(row: Floats, least: float) -> None:
    """x ← x / max(‖x‖, least)."""
    total = least - least  # 0 as a number of the row's kind, here and below
    for j in range(len(row)):
        total += row[j] * row[j]
    length = max(np.sqrt(total), least)
    for j in range(len(row)):
        row[j] /= length


@compiled
def exponentials_of_products(table: Floats, levels: Floats, slope: float, totals: Floats) -> None:
    """x → e = exp(level + slope · x), with the total of each row."""
    for i in range(len(table)):
        row, level, total = table[i], levels[i], slope - slope
        for j in range(len(row)):
            e = exponential(level + slope * row[j])
            total += e
            row[j] = e
        totals[i] = total


@compiled
def exponentials_of_distances(
    table: Floats,
    points: Floats,
    candidates: Floats,
    noise: float,
    smallest: float,
    levels: Floats,
    slope: float,
    totals: Floats,
) -> None:
    """p · c → e / d for d² = ‖p‖² + ‖c‖² − 2 p · c and e = exp(level + slope · d), with the total of e of each row.

    d² is at least `noise` times the largest ‖p‖² + ‖c‖², and at least `smallest`.
    """
    near, far, least = squares(points), squares(candidates), smallest
    if len(far):
        least = max(noise * (near.max() + far.max()), smallest)
    for i in range(len(table)):
        row, level, square, total = table[i], levels[i], near[i], slope - slope
        for j in range(len(row)):
            row[j] = np.sqrt(max(square + far[j] - (row[j] + row[j]), least))
        for j in range(len(row)):  # a sum in a loop of one array is the same wherever the arrays lie
            e = exponential(level + slope * row[j])
            total += e
            row[j] = e / row[j]
        totals[i] = total


@compiled
def squares(rows: Floats) -> Floats:
    """‖x‖² of each."""
    squared = np.zeros(len(rows), rows.dtype)
    for i in range(len(rows)):
        row, total = rows[i], squared[i]
        for j in range(len(row)):
            total += row[j] * row[j]
        squared[i] = total
    return squared


@compiled
def deduplicate(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct ids in order of first appearance, and the place of every id among them.

    By a hash table at most half full: no sorting, and nothing of the size of the vocabulary.
    """
    size = 4
    while size < 2 * len(ids):
        size *= 2
    slots = np.full(size, -1, np.int64)
    distinct, places, known = np.empty_like(ids), np.empty_like(ids), 0
    for i in range(len(ids)):
        slot = (ids[i] * 0x9E3779B1 >> 16) & (size - 1)
        while slots[slot] >= 0 and distinct[slots[slot]] != ids[i]:
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot] = known
            distinct[known] = ids[i]
            known += 1
        places[i] = slots[slot]
    return distinct[:known].copy(), places


@compiled
def find(ids: NDArray[np.int64], candidates: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which ids are among the candidates, which are sorted and distinct, and in which place."""
    rows, places, count = np.empty_like(ids), np.empty_like(ids), 0
    for i in range(len(ids)):
        place = np.searchsorted(candidates, ids[i])
        if place < len(candidates) and candidates[place] == ids[i]:
            rows[count], places[count] = i, place
            count += 1
    return rows[:count].copy(), places[:count].copy()


@compiled
def sum_rows(places: NDArray[np.int64], rows: Floats, first: int, last: int) -> Floats:
    """The sum of the rows of each place from `first` to before `last`, in their order; other places are left out."""
    sums = np.zeros((last - first, rows.shape[1]), rows.dtype)
    for i in range(len(places)):
        if first <= places[i] < last:
            total, row = sums[places[i] - first], rows[i]
            for j in range(len(row)):
                total[j] += row[j]
    return sums


@compiled
def multiply(left: Floats, right: Floats, made: Floats, sign: float) -> None:
    """x · y of complex numbers for sign 1, x · ȳ for −1; the first half of a row are the real parts."""
    half = left.shape[1] // 2
    for i in range(len(left)):
        a, b, c, d = left[i, :half], left[i, half:], right[i, :half], right[i, half:]
        real, imaginary = made[i, :half], made[i, half:]
        for j in range(half):
            real[j] = a[j] * c[j] - sign * (b[j] * d[j])
            imaginary[j] = b[j] * c[j] + sign * (a[j] * d[j])


@compiled
def count(table: Floats, truth: Floats, worse: NDArray[np.int64], equal: NDArray[np.int64]) -> None:
    """How many scores of each row are below its truth's score, and how many equal it."""
    for i in range(len(table)):
        row, mine, below, same = table[i], truth[i], np.int32(0), np.int32(0)
        for j in range(len(row)):
            below += np.int32(row[j] < mine)
            same += np.int32(row[j] == mine)
        worse[i], equal[i] = below, same


def exponential(x: float) -> float:
    """exp x; for float32 in arithmetic that vectorizes, 0 below −60 and bounded at 88.

    2ᵏ · exp r with |r| ≤ ½ log 2; the series of exp r to the seventh power is exact to rounding.
    """
    raise NotImplementedError


@overload(exponential, strict=False)
def _exponential(x: numba.types.Type) -> Callable[[float], float]:
    if x != numba.types.float32:
        return lambda x: np.exp(x)
    f = np.float32
    per_octave, octave, rest = f(1 / np.log(2)), f(0.693359375), f(np.log(2) - 0.693359375)
    c2, c3, c4, c5, c6, c7 = (f(1 / n) for n in (2, 6, 24, 120, 720, 5040))
    low, high, half, none, one, bias, shift = f(-60), f(88), f(0.5), f(0), f(1), np.int32(127), np.int32(23)

    def made(x: Any) -> Any:
        vanishes = x < low
        x = min(max(x, low), high)
        k = np.floor(x * per_octave + half)
        r = x - k * octave - k * rest
        series = one + r * (one + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * (c6 + r * c7))))))
        return none if vanishes else series * np.int32((np.int32(k) + bias) << shift).view(f)

    return made
