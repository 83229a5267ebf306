"""Compiled loops of gradients without autograd: value and gradient in one call, matrix products included."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.scores.kernels import Floats, compiled, exponential, squares

LARGE = 1e30
"""Sums of exponentials beyond this are computed again, relative to the largest."""

APART = 256
"""Numbers between two rows of scratch memory.

A compiled loop that reads one array and writes another looks, at run time, whether they lie close together, and then
takes other instructions, which sum in another order. Sums are therefore taken over scratch rows that are always this
far apart, or in loops that write nothing: the result does not depend on where the arrays happen to lie.
"""


@compiled
def softmax_of_products(
    points: Floats,
    candidates: Floats,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    truth: Floats,
    slope: float,
    offset: float,
    weights: Floats,
    by_truth: Floats,
    of_points: Floats,
    of_candidates: Floats,
) -> float:
    """− Σ weight · log p, p = exp(truth) / (exp(truth) + Σ exp(offset + slope · x)), for x = p · c of all pairs.

    The gradients of points and candidates are written, the derivative by the truth is added to `by_truth`. Places of
    rows and columns are left out.
    """
    loss, table = 0.0, np.dot(points, candidates.T)
    for k in range(len(rows)):
        table[rows[k], columns[k]] = -np.inf
    row, e = scratch_rows(table)
    for i in range(len(table)):
        made, top = table[i], truth[i]
        for j in range(len(row)):
            row[j] = made[j]
        total = exponentials(row, offset - top, slope, e)
        if not total < LARGE:
            top = offset + slope * row.max()
            total = exponentials(row, offset - top, slope, e)
        share = np.exp(truth[i] - top)
        total += share
        factor = weights[i] * slope / total
        for j in range(len(row)):
            made[j] = factor * e[j]
        loss -= weights[i] * (truth[i] - top - np.log(total))
        by_truth[i] += weights[i] * (share / total - 1)
    np.dot(table, candidates, of_points)
    np.dot(table.T, points, of_candidates)
    return loss


@compiled
def softmax_of_distances(
    points: Floats,
    candidates: Floats,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    truth: Floats,
    slope: float,
    offset: float,
    weights: Floats,
    by_truth: Floats,
    of_points: Floats,
    of_candidates: Floats,
    noise: float,
    smallest: float,
) -> float:
    """The same for x = ‖p − c‖ and slope < 0."""
    near, far = squares(points), squares(candidates)
    pulled: tuple[float, Floats, Floats] = softmax_of_roots(
        points, candidates, rows, columns, truth, slope, offset, weights, by_truth, of_points, of_candidates,
        near, far, noise, smallest,
    )  # fmt: skip
    add_multiples(pulled[1], points, of_points)
    add_multiples(pulled[2], candidates, of_candidates)
    return pulled[0]


@compiled
def softmax_of_roots(
    points: Floats,
    candidates: Floats,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    truth: Floats,
    slope: float,
    offset: float,
    weights: Floats,
    by_truth: Floats,
    of_points: Floats,
    of_candidates: Floats,
    near: Floats,
    far: Floats,
    noise: float,
    smallest: float,
) -> tuple[float, Floats, Floats]:
    """The same for x² = near + far − 2 p · c, with the derivatives by ½ near and ½ far.

    x² is at least `noise` times the largest near + far, and at least `smallest`.
    """
    loss, none, least, table = 0.0, slope - slope, smallest, np.dot(points, candidates.T)
    if len(far):
        least = max(noise * (near.max() + far.max()), smallest)
    for k in range(len(rows)):
        table[rows[k], columns[k]] = -np.inf
    of_near, of_far = np.zeros_like(near), np.zeros_like(far)
    row, e = scratch_rows(table)
    for i in range(len(table)):
        made, square, top = table[i], near[i], truth[i]
        for j in range(len(row)):
            row[j] = np.sqrt(max(square + far[j] - (made[j] + made[j]), least))
        total = exponentials(row, offset - top, slope, e)
        if not total < LARGE:
            top = offset + slope * row.min()
            total = exponentials(row, offset - top, slope, e)
        share = np.exp(truth[i] - top)
        total += share
        factor, summed = -weights[i] * slope / total, none
        for j in range(len(row)):
            e[j] = factor * e[j] / row[j]
            summed += e[j]
        of_near[i] = -summed
        for j in range(len(row)):
            made[j] = e[j]
        for j in range(len(row)):
            of_far[j] -= e[j]
        loss -= weights[i] * (truth[i] - top - np.log(total))
        by_truth[i] += weights[i] * (share / total - 1)
    np.dot(table, candidates, of_points)
    np.dot(table.T, points, of_candidates)
    return loss, of_near, of_far


@compiled
def add_multiples(factors: Floats, rows: Floats, sums: Floats) -> None:
    """sums ← sums + factor · x, row by row."""
    for i in range(len(rows)):
        row, total, factor = rows[i], sums[i], factors[i]
        for j in range(len(row)):
            total[j] += factor * row[j]


@compiled
def products(left: Floats, right: Floats) -> Floats:
    """x · y of each row."""
    made = np.zeros(len(left), left.dtype)
    for i in range(len(left)):
        x, y, total = left[i], right[i], made[i]
        for j in range(len(x)):
            total += x[j] * y[j]
        made[i] = total
    return made


@compiled
def distances(left: Floats, right: Floats) -> Floats:
    """‖x − y‖ of each row."""
    made = np.zeros(len(left), left.dtype)
    for i in range(len(left)):
        x, y, total = left[i], right[i], made[i]
        for j in range(len(x)):
            total += (x[j] - y[j]) * (x[j] - y[j])
        made[i] = np.sqrt(total)
    return made


@compiled
def scratch_rows(table: Floats) -> tuple[Floats, Floats]:
    """Two rows as long as those of the table, APART from each other and from all other arrays."""
    width = table.shape[1]
    scratch = np.empty(2 * width + 3 * APART, table.dtype)
    second = width + 2 * APART
    return scratch[APART : APART + width], scratch[second : second + width]


@compiled
def exponentials(row: Floats, level: float, slope: float, made: Floats) -> float:
    """x → exp(level + slope · x), and their sum."""
    total = slope - slope
    for j in range(len(row)):
        e = exponential(level + slope * row[j])
        total += e
        made[j] = e
    return total


@compiled
def add_derivatives_of_products(
    factors: Floats, left: Floats, right: Floats, of_left: Floats, of_right: Floats
) -> None:
    """Add factor · y to the gradient of x and factor · x to that of y, row by row: the derivatives of x · y."""
    for i in range(len(left)):
        x, y, of_x, of_y, factor = left[i], right[i], of_left[i], of_right[i], factors[i]
        for j in range(len(x)):
            of_x[j] += factor * y[j]
            of_y[j] += factor * x[j]


@compiled
def add_derivatives_of_distances(
    factors: Floats, left: Floats, right: Floats, of_left: Floats, of_right: Floats, smallest: float
) -> None:
    """Add the derivatives of factor · ‖x − y‖, row by row; those of a zero distance are 0."""
    for i in range(len(left)):
        x, y, of_x, of_y, total = left[i], right[i], of_left[i], of_right[i], smallest - smallest
        for j in range(len(x)):
            total += (x[j] - y[j]) * (x[j] - y[j])
        factor = factors[i] / np.sqrt(max(total, smallest))
        for j in range(len(x)):
            step = factor * (x[j] - y[j])
            of_x[j] += step
            of_y[j] -= step


@compiled
def add_cubes(rows: Floats, factor: float, gradient: Floats) -> float:
    """Σ |x|³, and factor · 3 |x| x added to the gradient."""
    cubes = 0.0
    for i in range(len(rows)):
        row, slope, total = rows[i], gradient[i], factor - factor
        for j in range(len(row)):
            total += row[j] * row[j] * abs(row[j])
        for j in range(len(row)):
            slope[j] += factor * 3 * (row[j] * abs(row[j]))
        cubes += total
    return cubes


@compiled
def add_modulus_cubes(rows: Floats, factor: float, gradient: Floats, smallest: float) -> float:
    """The same for complex numbers; the first half of a row are the real parts."""
    cubes, half = 0.0, rows.shape[1] // 2
    for i in range(len(rows)):
        a, b, of_a, of_b = rows[i, :half], rows[i, half:], gradient[i, :half], gradient[i, half:]
        total = factor - factor
        for j in range(half):
            square = a[j] * a[j] + b[j] * b[j] + smallest
            total += square * np.sqrt(square)
        for j in range(half):
            modulus = np.sqrt(a[j] * a[j] + b[j] * b[j] + smallest)
            of_a[j] += factor * 3 * modulus * a[j]
            of_b[j] += factor * 3 * modulus * b[j]
        cubes += total
    return cubes


@compiled
def add_multiplied(left: Floats, right: Floats, sums: Floats, sign: float) -> None:
    """sums ← sums + x · y of complex numbers for sign 1, x · ȳ for −1."""
    half = left.shape[1] // 2
    for i in range(len(left)):
        a, b, c, d = left[i, :half], left[i, half:], right[i, :half], right[i, half:]
        real, imaginary = sums[i, :half], sums[i, half:]
        for j in range(half):
            real[j] += a[j] * c[j] - sign * (b[j] * d[j])
            imaginary[j] += b[j] * c[j] + sign * (a[j] * d[j])


@compiled
def units(rows: Floats, made: Floats, smallest: float) -> None:
    """x / |x| of complex numbers."""
    half = rows.shape[1] // 2
    for i in range(len(rows)):
        a, b, real, imaginary = rows[i, :half], rows[i, half:], made[i, :half], made[i, half:]
        for j in range(half):
            modulus = np.sqrt(a[j] * a[j] + b[j] * b[j] + smallest)
            real[j] = a[j] / modulus
            imaginary[j] = b[j] / modulus


@compiled
def pull_units(rows: Floats, gradient: Floats, smallest: float) -> None:
    """g → (g − u Re(g ū)) / |x| for u = x / |x|: the gradient of complex numbers from that of their units."""
    half = rows.shape[1] // 2
    for i in range(len(rows)):
        a, b, of_a, of_b = rows[i, :half], rows[i, half:], gradient[i, :half], gradient[i, half:]
        for j in range(half):
            square = a[j] * a[j] + b[j] * b[j] + smallest
            along = (of_a[j] * a[j] + of_b[j] * b[j]) / square
            modulus = np.sqrt(square)
            of_a[j] = (of_a[j] - along * a[j]) / modulus
            of_b[j] = (of_b[j] - along * b[j]) / modulus


@compiled
def row_distances(points: Floats, candidates: Floats, distances: Floats) -> None:
    """‖p − c‖ of every point with the candidates of its row."""
    for i in range(len(points)):
        point = points[i]
        for j in range(candidates.shape[1]):
            candidate, total = candidates[i, j], point[0] - point[0]
            for n in range(len(point)):
                gap = point[n] - candidate[n]
                total += gap * gap
            distances[i, j] = np.sqrt(total)


@compiled
def pull_row_distances(
    points: Floats, candidates: Floats, weights: Floats, of_points: Floats, of_candidates: Floats
) -> None:
    """Gradients of points and candidates from those of their distances, each divided by the distance (`weights`)."""
    for i in range(len(points)):
        point, of_point = points[i], of_points[i]
        of_point[:] = 0
        for j in range(candidates.shape[1]):
            candidate, of_candidate, weight = candidates[i, j], of_candidates[i, j], weights[i, j]
            for n in range(len(point)):
                pull = weight * (point[n] - candidate[n])
                of_point[n] += pull
                of_candidate[n] = -pull
