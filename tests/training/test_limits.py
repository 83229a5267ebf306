"""What would not fit is refused before anything is built, with what would."""

import pytest

from doxa.errors import UsageError
from doxa.model import fit
from doxa.systems import recipe
from doxa.training import limits
from doxa.training.plan import planned
from tests.worlds import board


@pytest.mark.parametrize("dimension", [2**40, 2**62])
def test_dimensions_that_cannot_fit_are_refused(dimension):
    with pytest.raises(UsageError, match=r"needs (about|at least) [\d,.]+ GB; .* GB are at hand\n  a dimension of at"):
        fit(board(3), dimension=dimension, epochs=1)


@pytest.mark.parametrize("name", ["threads", "workers"])
def test_threads_beyond_all_measure_are_refused(name):
    with pytest.raises(UsageError, match=rf"{name}=20000: this machine has \d+ cores; at most \d+"):
        fit(board(3), epochs=1, **{name: 20000})


def test_the_dimension_that_is_named_fits_and_a_larger_one_does_not(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 10**9)

    def check(dimension):
        settings = planned(recipe({"score": "complex", "dimension": dimension}), 10**6, 10**5)
        limits.check_limits(settings, 10**6, 10**5, 100, 0)

    with pytest.raises(UsageError, match=r"of dimension 100,000 with 100,000 entities") as refusal:
        check(100_000)
    fits = int(refusal.value.hints[0].split()[-2].replace(",", ""))
    check(fits)
    with pytest.raises(UsageError):
        check(fits + 2)


def test_all_candidates_count_as_many_as_there_are(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 2 * 10**9)

    def check(**values):
        settings = planned(recipe({"score": "complex", "dimension": 10, "batch_size": 1024, **values}), 10**6, 10**6)
        limits.check_limits(settings, 10**6, 10**6, 100, 0)

    check()
    for values in ({"estimator": "exact"}, {"batch_by": "queries"}):
        with pytest.raises(UsageError, match=r"needs about [\d,.]+ GB; 1\.6 GB are at hand\n  a smaller batch_size"):
            check(**values)
        check(batch_size=16, **values)
    check(estimator="exact", partitions=1000)
