"""Reliability: ECE, Brier and log loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxa.evaluation.calibration import Reliability
from tests import reference


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 15))
def test_ece_equals_the_reference(rows, bins):
    credence, true = np.array([c for c, _ in rows]), np.array([t for _, t in rows])
    found = Reliability.of(credence, true, bins)
    assert found.ece == pytest.approx(reference.ece(credence.tolist(), true.tolist(), bins), abs=1e-12)
    assert found.count.sum() == len(rows)


def test_brier_and_log_loss():
    found = Reliability.of(np.array([0.9, 0.2]), np.array([True, False]))
    assert found.brier == pytest.approx((0.01 + 0.04) / 2)
    assert found.nll == pytest.approx(-(np.log(0.9) + np.log(0.8)) / 2)


def test_certainty_that_comes_true_is_perfect_and_one_that_does_not_is_finite():
    assert Reliability.of(np.array([1.0, 0.0]), np.array([True, False])).as_dict() == {
        "ece": 0.0,
        "brier": 0.0,
        "nll": pytest.approx(0.0, abs=1e-9),
    }
    assert np.isfinite(Reliability.of(np.array([1.0]), np.array([False])).nll)
