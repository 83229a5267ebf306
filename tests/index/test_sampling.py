"""The importance-weighted estimate: equal to its slow twin, and right on average."""

import numpy as np
import pytest

from doxa.index.sampling import cell_chances, draw, log_total
from tests import reference_index

SIZES = [4, 0, 7, 1, 12]


@pytest.fixture(params=[0, 1, 2])
def world(request):
    """Cells of entities, logits of the centroids and of the entities, and a generator."""
    random = np.random.default_rng(request.param)
    ends = np.cumsum(SIZES)
    cells = [list(range(end - size, end)) for end, size in zip(ends, SIZES, strict=True)]
    scores = random.normal(0, 3, len(SIZES))
    logits = np.repeat(scores, SIZES) + random.normal(0, 1, sum(SIZES))
    return cells, scores, logits, random


def log_chances(cells, scores):
    """log q of every entity, in order."""
    counts = np.array(list(map(len, cells)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.repeat(np.log(cell_chances(counts, scores)) - np.log(counts), counts)


def test_the_chance_of_an_entity_is_that_of_the_reference(world):
    cells, scores, _, _ = world
    expected = [reference_index.chance(cells, scores, cell) for cell, size in enumerate(SIZES) for _ in range(size)]
    np.testing.assert_allclose(np.exp(log_chances(cells, scores)), expected, rtol=1e-12)
    assert sum(expected) == pytest.approx(1)


def test_a_cell_without_candidates_is_not_drawn_however_good_it_looks():
    chances = cell_chances(np.array([3, 0, 1]), np.array([0.0, 5000.0, 1.0]))
    np.testing.assert_allclose(chances, cell_chances(np.array([3, 0, 1]), np.array([0.0, -9.0, 1.0])))


def test_the_estimate_is_that_of_the_reference(world):
    cells, scores, logits, random = world
    best, draws = [0, 5, 20], random.integers(0, len(logits), 40)
    drawn = np.where(np.isin(draws, best), -np.inf, logits[draws])
    estimate = log_total(logits[best], drawn, log_chances(cells, scores)[draws])
    total, error = reference_index.estimate(logits, best, draws.tolist(), cells, scores)
    assert np.exp(estimate.value) == pytest.approx(total)
    assert estimate.relative_error == pytest.approx(error)


def test_the_estimate_is_the_exact_sum_on_average(world):
    """The mean over all draws, each weighted by its chance."""
    cells, scores, logits, _ = world
    best, log_chance = [0, 5, 20], log_chances(cells, scores)
    mean = 0.0
    for entity, chance in enumerate(np.exp(log_chance)):
        drawn = np.full(2, -np.inf if entity in best else logits[entity])
        mean += chance * np.exp(log_total(logits[best], drawn, np.full(2, log_chance[entity])).value)
    assert mean == pytest.approx(np.exp(logits).sum())


def test_draws_fall_into_cells_and_places_by_their_chances(world):
    cells, scores, _, random = world
    counts = np.array(SIZES)
    cell, place = draw(cell_chances(counts, scores), counts, 100_000, random)
    assert (place >= 0).all()
    assert (place < counts[cell]).all()
    shares = np.bincount(np.cumsum([0, *SIZES])[cell] + place, minlength=sum(SIZES)) / len(cell)
    np.testing.assert_allclose(shares, np.exp(log_chances(cells, scores)), atol=0.01)


def test_nothing_but_best_has_no_error():
    estimate = log_total(np.log([1.0, 2.0]), np.full(5, -np.inf), np.zeros(5))
    assert np.exp(estimate.value) == pytest.approx(3)
    assert estimate.relative_error == 0
