"""Beliefs with an unseen entity are classified by the degree of the known one among the facts of training."""

from dataclasses import replace

import numpy as np
import pytest

from doxa.calibration.judge import Judge
from doxa.calibration.thresholds import Thresholds
from doxa.inference import judge
from tests.worlds import beliefs, model_of_facts

TRAIN = [(1, 0, 5), (2, 0, 5), (2, 0, 6)]
VALID = [(1, 0, 7), (1, 0, 8), (3, 0, 6), (4, 0, 6)]
"""As a head of r0, e2 has two facts in train; e1 has one, and two more in valid. As tails, so do e5 and e6."""


def test_validation_facts_do_not_count_in_the_degree_of_a_known_entity():
    model, _ = model_of_facts(TRAIN, VALID)
    between_one_and_two = Thresholds(np.full(2 * len(model.vocabularies.relations), np.nan), np.log1p(1.5))
    model = replace(model, calibration=replace(model.calibration, unseen=between_one_and_two))
    asked = beliefs([("e1", "r0", "new"), ("e2", "r0", "new"), ("new", "r0", "e6"), ("new", "r0", "e5")])
    assert judge(model, asked).accepted.tolist() == [False, True, False, True]


def test_validation_facts_do_not_move_the_thresholds_of_unseen_names():
    model, _ = model_of_facts(TRAIN)
    valid, unseen = (
        beliefs(rows, ("head", "relation", "tail", "label")).encode(model.vocabularies)
        for rows in (
            [(f"e{h}", f"r{r}", f"e{t}", 1) for h, r, t in VALID],
            [("e1", "r0", "new", -1), ("e2", "r0", "new", 1)],
        )
    )
    result = Judge.fit(model.pbe, model.settings, model.trained_facts, valid, unseen, can_classify=False)
    halfway = (np.log1p(1) + np.log1p(2)) / 2
    assert result.unseen.overall == pytest.approx(halfway)
    assert result.unseen.by_relation[1] == pytest.approx(halfway), "the kind of r0 with an unseen tail"
