"""What is left to doxa is chosen from the data and the machine; what is given stays."""

import pytest
from doxa.training.automatic import chosen, cores, told

from doxa.config import Settings
from doxa.data.synthetic import generate
from doxa.model import fit
from tests.worlds import settings_of


@pytest.mark.parametrize(
    ("beliefs", "settings", "batch"),
    [
        (100, {}, 16),
        (2000, {}, 100),
        (20_000, {}, 512),
        (30_000, {"objective": "margin"}, 1024),
        (100, {"batch_size": 64}, 64),
    ],
)
def test_an_epoch_has_twenty_steps_at_least(beliefs, settings, batch):
    assert chosen(settings_of(**settings), generate(beliefs, 50, 3)).batch == batch


def test_candidates_are_no_more_than_there_are():
    assert chosen(Settings(), generate(100, 50, 3)).candidates == 50
    assert chosen(Settings(), generate(100, 5000, 3)).candidates == 512
    assert chosen(settings_of(num_candidates=7), generate(100, 50, 3)).candidates == 7


def test_one_worker_has_every_core_and_several_have_one_each():
    some = generate(100, 50, 3)
    assert chosen(Settings(), some).threads == cores()
    assert chosen(settings_of(threads=3), some).threads == 3
    assert chosen(settings_of(workers=2), some).threads == 1
    assert told(chosen(settings_of(workers=2), some)) == "16 beliefs a step, 50 candidates, 2 workers"
    assert (
        told(chosen(settings_of(threads=1, estimator="exact"), some)) == "16 beliefs a step, all candidates, 1 thread"
    )


def test_a_model_remembers_what_was_chosen():
    model = fit(generate(400, 50, 3), epochs=1, dimension=4)
    assert (model.settings.batch_size, model.settings.num_candidates) == (19, 50)
