"""The version of training is raised whenever the same settings and seed give other weights."""

import json

import pytest

from doxa.training import VERSION
from tests.training import toy_runs

STORED = json.loads(toy_runs.FILE.read_text())
REMEDY = "raise doxa.training.VERSION, then run python -m tests.training.toy_runs"


def test_the_stored_weights_are_of_this_version():
    assert STORED["version"] == VERSION, REMEDY
    assert STORED["runs"].keys() == toy_runs.RUNS.keys()


@pytest.mark.parametrize("name", toy_runs.RUNS)
def test_a_toy_run_gives_the_weights_of_its_version(name):
    settings, weights = toy_runs.weights(name)
    stored = STORED["runs"][name]
    shared = {key: value for key, value in stored["settings"].items() if key in settings}
    assert shared == {key: settings[key] for key in shared}, f"other settings by default: {REMEDY}"
    assert max(toy_runs.differences(stored["weights"], weights).values()) < toy_runs.TOLERANCE, REMEDY


@pytest.mark.parametrize(
    "change", [{"learning_rate": 0.101}, {"seed": 1}, {"num_candidates": 5}, {"relation_weight": 0.99}]
)
def test_a_small_change_of_training_shows_in_the_weights(change):
    """By five times the tolerance, and more."""
    _, weights = toy_runs.weights("pbe", **change)
    assert max(toy_runs.differences(STORED["runs"]["pbe"]["weights"], weights).values()) > 5 * toy_runs.TOLERANCE
