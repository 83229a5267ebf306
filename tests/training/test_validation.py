"""The validation metric of a run."""

import pytest

from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.systems import build
from doxa.training.validation import validation_metric
from tests.worlds import board, settings_of


@pytest.mark.parametrize(("stop_on", "slots"), [("ranking", tuple(Slot)), ("entity", ENTITY_SLOTS)])
def test_the_metric_is_the_mean_filtered_mrr_of_its_slots(stop_on, slots):
    beliefs, settings = Beliefs.from_frame(board(4)), settings_of(dimension=8, stop_on=stop_on)
    pbe = build(beliefs, settings)
    known = TripleIndex(beliefs.triples, pbe.entities, pbe.relations)
    each = [Metrics.of(ranks(pbe, slot, beliefs, known).filtered).mrr for slot in slots]
    assert validation_metric(pbe, beliefs, known, settings)() == pytest.approx(sum(each) / len(each))
