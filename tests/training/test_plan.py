"""The plan of a run: epochs and validations from sizes."""

import pytest

from doxa.training.plan import planned, planned_epochs, planned_validations
from tests.worlds import settings_of


@pytest.mark.parametrize(
    ("beliefs", "epochs"),
    [
        (10, 200),
        (8_544, 200),  # kinships
        (86_835, 184),  # WN18RR
        (272_115, 59),  # FB15k-237
        (483_142, 33),  # FB15k
        (800_000, 20),
        (5_000_000, 20),
        (20_000_000, 5),
        (10**9, 3),
    ],
)
def test_epochs_fall_with_the_number_of_beliefs(beliefs, epochs):
    assert planned_epochs(beliefs) == epochs
    assert planned(settings_of(), beliefs, 1000).epochs == epochs


def test_values_that_are_set_stay():
    settings = planned(settings_of(epochs=7, validate_every=2, batch_size=32), 1000, 100, 50)
    assert (settings.epochs, settings.validate_every, settings.batch_size) == (7, 2, 32)


@pytest.mark.parametrize(
    ("beliefs", "values", "batch"),
    [
        (100, {}, 16),
        (8_544, {}, 427),  # kinships
        (86_835, {}, 512),  # WN18RR
        (262_143, {}, 512),
        (272_115, {}, 1024),  # FB15k-237
        (272_115, {"optimizer": "sgd"}, 512),
        (86_835, {"objective": "margin"}, 1024),
    ],
)
def test_batches_grow_with_the_number_of_beliefs(beliefs, values, batch):
    assert planned(settings_of(**values), beliefs, 1000).batch_size == batch


def every(beliefs, entities, valid, **values):
    return planned(settings_of(**values), beliefs, entities, valid).validate_every


def test_validation_is_a_tenth_of_the_work_at_most():
    # 2000 × 40,943 scores are .614 of 3 × 86,835 × 512
    assert every(86_835, 40_943, 3_034) == 7
    assert every(86_835, 40_943, 3_034, validation_sample=200) == 4  # fifty validations in 184 epochs
    assert every(86_835, 40_943, 3_034, estimator="exact") == 4
    assert every(86_835, 40_943, 3_034, time_budget=60.0) == 7
    assert every(483_142, 14_951, 50_000) == 1


def test_a_run_has_fifty_validations_at_most_and_four_at_least():
    assert every(8_544, 104, 1_068) == 4
    assert every(8_544, 104, 1_068, epochs=50) == 1
    assert every(86_835, 40_943, 3_034, epochs=12) == 3
    assert every(86_835, 40_943, 3_034, epochs=2) == 1


def test_without_validation_beliefs_the_plan_is_harmless():
    assert planned_validations(planned(settings_of(), 100, 10), 100, 10, 0) >= 1
