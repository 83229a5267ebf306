"""The validation metric of a run."""

import pytest

from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.systems import build
from doxa.training.validation import metric_name, validation_metric
from tests.worlds import board, settings_of


@pytest.mark.parametrize(("stop_on", "slots"), [("ranking", tuple(Slot)), ("entity", ENTITY_SLOTS)])
def test_the_metric_is_the_mean_filtered_mrr_of_its_slots(stop_on, slots):
    beliefs, settings = Beliefs.from_frame(board(4)), settings_of(dimension=8, stop_on=stop_on)
    pbe = build(beliefs, settings)
    known = TripleIndex(beliefs.triples, pbe.entities, pbe.relations)
    each = [Metrics.of(ranks(pbe, slot, beliefs, known).filtered).mrr for slot in slots]
    assert validation_metric(pbe, beliefs, known, settings)() == pytest.approx(sum(each) / len(each))


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "filtered MRR of entities and relations"),
        ({"stop_on": "entity"}, "filtered MRR of entities"),
        ({"system": "unstructured"}, "filtered MRR of entities"),
        ({"system": "jrme"}, "filtered MRR of relations"),
        ({"stop_on": "accuracy"}, "accuracy of verdicts"),
        ({"stop_on": "confidence"}, "minus squared error of the confidence"),
    ],
)
def test_the_metric_has_a_name_in_words(values, name):
    settings = settings_of(dimension=4, **values)
    assert metric_name(build(Beliefs.from_frame(board(3)), settings), settings) == name
