"""Settings are declared once: parsed, checked, listed."""

import pytest

from doxa.config import Settings, describe, from_dict, parse_assignments
from doxa.errors import DoxaError
from tests.worlds import settings_of


def test_assignments_take_the_type_of_their_setting():
    found = parse_assignments(["dimension=50", "learning_rate=1e-3", "mentions=no", "objective = confidence"])
    assert found == {"dimension": 50, "learning_rate": 0.001, "mentions": False, "objective": "confidence"}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("dimensions=50", "no setting 'dimensions'. Did you mean 'dimension'?"),
        ("dimension", "--set takes name=value, not 'dimension'"),
        ("dimension=ten", "setting dimension='ten'; expected a whole number"),
        ("mentions=maybe", "expected true or false"),
        ("scale=wide", "expected a number"),
    ],
)
def test_wrong_assignments_are_explained(assignment, message):
    with pytest.raises(DoxaError) as fault:
        parse_assignments([assignment])
    assert message in str(fault.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dimension": 0}, "setting dimension is 0; expected at least 1"),
        ({"norm": 3}, "setting norm is 3; expected one of 1, 2"),
        ({"objective": "confidence", "estimator": "exact"}, "cannot use estimator=exact"),
        ({"dimension": 2.5}, "expected a whole number"),
        ({"learning_rate": float("nan")}, "expected a finite number"),
        ({"alpha": float("inf")}, "expected a finite number"),
        ({"seed": 2**64}, "below 2^63"),
        ({"validation_fraction": 1.0}, "expected a share below 1"),
        ({"scale": True}, "expected a number"),
    ],
)
def test_values_out_of_range_are_refused(values, message):
    with pytest.raises(DoxaError) as fault:
        Settings().changed(**values)
    assert message in str(fault.value)


def test_auto_resolves_to_what_the_objective_needs():
    assert Settings().training_estimator == "sampled"
    assert settings_of(objective="confidence").training_estimator == "negative"
    assert settings_of(estimator="exact").training_estimator == "exact"


def test_settings_survive_a_round_trip_and_all_have_a_meaning():
    changed = settings_of(dimension=7, norm=1)
    assert from_dict(changed.as_dict()) == changed
    assert all(about for *_, about in describe())
