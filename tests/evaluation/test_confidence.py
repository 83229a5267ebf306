"""The confidence task: rankings of tails by confidence."""

from dataclasses import replace

import numpy as np
import pytest

from doxa.calibration.curves import Curve
from doxa.evaluation.report import evaluate
from tests import reference
from tests.worlds import beliefs, model_of_facts

ASKED = [(0, 0, 5, 0.9), (0, 0, 6, 0.4), (0, 0, 7, 0.1), (1, 2, 8, 0.6), (1, 2, 9, 0.7)]
KNOWN = [(0, 0, 8, 0.5), (1, 2, 3, float("nan"))]


@pytest.mark.parametrize(
    ("name", "relevance"), [("ndcg", lambda c: c), ("ndcg_exponential", lambda c: 2**c - 1)], ids=["c", "2^c - 1"]
)
def test_the_relevance_of_a_tail_is_its_confidence_or_two_to_it_less_one(name, relevance):
    model, world = model_of_facts([row[:3] for row in KNOWN])
    judge = replace(model.calibration, expected_confidence=Curve.unfitted(len(model.vocabularies.relations)))
    model = replace(model, calibration=judge, known_confidence=np.array([row[3] for row in KNOWN]))
    rows = [(f"e{h}", f"r{r}", f"e{t}", c) for h, r, t, c in ASKED]
    result = evaluate(model, beliefs(rows, ("head", "relation", "tail", "confidence")), ["confidence"]).confidence
    expected = reference.ndcg(world, [*ASKED, KNOWN[0]], relevance)
    assert getattr(result, name) == pytest.approx(expected)
