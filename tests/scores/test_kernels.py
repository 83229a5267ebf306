"""The compiled loops against plain numpy."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.data.beliefs import Beliefs
from doxa.evaluation.ranks import _counts as counts
from doxa.model import fit
from doxa.scores import kernels
from tests.worlds import board

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("least", [0.0, 1e-12, 1.0])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_move_by_adagrad_and_are_projected(kind, least):
    table, sums = RANDOM.normal(size=(7, 5)).astype(kind) / 3, RANDOM.random((7, 5)).astype(kind)
    rows, gradient = np.array([4, 0, 5]), RANDOM.normal(size=(3, 5)).astype(kind)
    moved, totals = table.copy(), sums.copy()
    kernels.adagrad(moved, totals, rows, gradient, kind(0.1), kind(0.3), kind(least))
    for row in range(7):
        if row not in rows:
            assert (moved[row] == table[row]).all()
            assert (totals[row] == sums[row]).all()
            continue
        pull = gradient[list(rows).index(row)]
        expected = table[row] - 0.1 * pull / (np.sqrt(sums[row] + pull**2) + 0.3)
        expected /= max(np.linalg.norm(expected), least) if least else 1
        assert np.allclose(moved[row], expected, atol=1e-6)
        assert np.allclose(totals[row], sums[row] + pull**2)


def test_rows_move_down_the_gradient_and_are_projected():
    table, gradient = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(2, 3))
    moved = table.copy()
    kernels.descend(moved, np.array([3, 1]), gradient, 0.5, 1e-12)
    for row, pull in ((3, gradient[0]), (1, gradient[1])):
        assert np.allclose(moved[row], (table[row] - 0.5 * pull) / np.linalg.norm(table[row] - 0.5 * pull))
    assert (moved[[0, 2]] == table[[0, 2]]).all()


def test_a_row_without_length_stays_what_it_is():
    table = np.zeros((1, 3))
    kernels.descend(table, np.array([0]), np.zeros((1, 3)), 0.5, 1e-12)
    assert table.tolist() == [[0.0, 0.0, 0.0]]


def test_the_exponential_is_as_exact_as_its_numbers():
    numbers = np.linspace(-60, 70, 100_001, dtype=np.float32)[None]
    table, totals = numbers.copy(), np.empty(1, np.float32)
    kernels.exponentials_of_products(table, np.zeros(1, np.float32), np.float32(1), totals)
    exact = np.exp(numbers.astype(np.float64))
    assert np.abs(table / exact - 1).max() < 1.5e-7
    assert totals[0] == pytest.approx(exact.sum(), rel=1e-5)


def test_scores_far_below_vanish_and_scores_far_above_overflow_the_total():
    table, totals = np.array([[-np.inf, -1e30, 0.0], [0.0, 1e30, 0.0]], np.float32), np.empty(2, np.float32)
    kernels.exponentials_of_products(table, np.zeros(2, np.float32), np.float32(1), totals)
    assert table[0].tolist() == [0, 0, 1]
    assert totals[0] == 1
    assert totals[1] > 1e30


@pytest.mark.parametrize(("kind", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-10)])
def test_exponentials_of_distances_are_exponentials_over_the_distance(kind, tolerance):
    points, candidates = (RANDOM.normal(size=(count, 6)).astype(kind) for count in (4, 9))
    table, totals, levels = points @ candidates.T, np.empty(4, kind), np.arange(4).astype(kind)
    kernels.exponentials_of_distances(table, points, candidates, kind(1e-6), kind(1e-30), levels, kind(-1.5), totals)
    distances = np.linalg.norm(points[:, None] - candidates[None], axis=2)
    expected = np.exp(levels[:, None] - 1.5 * distances)
    assert np.allclose(table, expected / distances, rtol=tolerance)
    assert np.allclose(totals, expected.sum(1), rtol=tolerance)


def test_points_that_meet_have_the_distance_of_noise():
    points, totals = np.ones((1, 2)), np.empty(1)
    table = np.array([[2.0, 1.0]])
    kernels.exponentials_of_distances(
        table, points, np.array([[1.0, 1.0], [1.0, 0.0]]), 1e-6, 1e-30, np.zeros(1), -1.0, totals
    )
    assert table[0].tolist() == pytest.approx([np.exp(-2e-3) / 2e-3, np.exp(-1.0)])
    table = np.array([[0.0]])
    kernels.exponentials_of_distances(table, points * 0, points * 0, 1e-6, 1e-4, np.zeros(1), -1.0, totals)
    assert table[0, 0] == pytest.approx(np.exp(-1e-2) / 1e-2)


ids = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 2**40)), max_size=60)


@given(ids)
@settings(max_examples=100, deadline=None)
def test_distinct_ids_keep_the_order_of_first_appearance(numbers):
    columns = np.array(numbers, np.int64)
    distinct, places = kernels.deduplicate(columns)
    assert distinct.tolist() == list(dict.fromkeys(numbers))
    assert distinct[places].tolist() == numbers


@given(ids, st.sets(st.integers(0, 12)))
@settings(max_examples=100, deadline=None)
def test_ids_are_located_among_the_candidates(numbers, among):
    others = np.array(sorted(among), np.int64)
    which, where = kernels.find(np.array(numbers, np.int64), others)
    assert which.tolist() == [i for i, one in enumerate(numbers) if one in among]
    assert others[where].tolist() == [one for one in numbers if one in among]


def test_rows_add_up_in_their_places():
    places, rows = np.array([2, 0, 2, 0]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [10.0, 10.0]])
    assert kernels.sum_rows(places, rows, 0, 3).tolist() == [[13.0, 14.0], [0.0, 0.0], [6.0, 8.0]]
    assert kernels.sum_rows(places, rows, 1, 3).tolist() == [[0.0, 0.0], [6.0, 8.0]]


@pytest.mark.parametrize("sign", [1, -1])
def test_complex_numbers_multiply(sign):
    x, y = RANDOM.normal(size=(2, 3, 8))
    made = np.empty_like(x)
    kernels.multiply(x, y, made, float(sign))
    left, right = x[:, :4] + 1j * x[:, 4:], y[:, :4] + 1j * y[:, 4:]
    expected = left * (right if sign == 1 else right.conj())
    assert np.allclose(made, np.concatenate([expected.real, expected.imag], axis=1))


@pytest.mark.parametrize("threads", [1, 3])
def test_numbers_are_counted_by_any_number_of_threads(threads):
    table = torch.from_numpy(RANDOM.integers(0, 4, (7, 50)).astype(np.float32))
    table[3, 5] = torch.nan
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        worse, equal = counts(table, table[:, 0])
        few = counts(table[:1], table[:1, 0])
    finally:
        torch.set_num_threads(before)
    assert worse.tolist() == (table < table[:, :1]).sum(1).tolist()
    assert equal.tolist() == (table == table[:, :1]).sum(1).tolist()
    assert [one.tolist() for one in few] == [worse[:1].tolist(), equal[:1].tolist()]


def test_kernels_compile_where_the_cache_cannot_be_written(monkeypatch):
    made, compiler = [], kernels.numba.njit

    def refuses(function, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        made.append(options)
        return compiler(function, **options)

    monkeypatch.setattr(kernels.numba, "njit", refuses)
    assert kernels.compiled(lambda x: x + 1)(2) == 3
    assert len(made) == 1


@pytest.mark.parametrize("score", ["translation", "complex"])
def test_answering_does_not_load_the_compiler(tmp_path, score):
    """Loading it would slow down the first query of a process."""
    fit(Beliefs.from_frame(board(3)), score=score, dimension=4, epochs=1).save(tmp_path / "model")
    code = (
        "import sys, doxa.cli.questions; from doxa.model import Model; "
        f"answers = Model.load({str(tmp_path / 'model')!r}).ask([('0,0', 'right', '?')]); "
        "print(len(answers[0]), 'numba' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[1] == "False"
    assert int(ran.stdout.split()[0]) > 0
