"""The audit is what its formula says, and finds planted errors."""

import numpy as np
import pytest

from doxa.curation.audit import ADVANTAGE_WEIGHT, audit
from doxa.data.beliefs import Beliefs
from doxa.model import fit
from tests import reference, reference_curation
from tests.test_toy_world import SETTINGS
from tests.worlds import beliefs, board, random_model


@pytest.mark.parametrize("seed", range(3))
def test_suspicion_is_what_the_formula_says(seed):
    model, world = random_model(seed)
    known = set(map(tuple, model.train.tolist()))
    suspects = audit(model)
    assert len(suspects) == len(known)
    assert (np.diff(suspects.suspicion) <= 1e-9).all()
    for place, belief in enumerate(map(tuple, suspects.beliefs.triples.tolist())):
        x = np.log(reference.credence(world, *belief, []))
        expected, better_tail, contradicting = reference_curation.suspicion(world, belief, known, ADVANTAGE_WEIGHT)
        # σ(x) is the credence of an unfitted calibrator; its logit is x itself
        assert suspects.suspicion[place] == pytest.approx(expected)
        assert suspects.credence[place] == pytest.approx(1 / (1 + np.exp(-x)))
        assert suspects.better_tail[place] == better_tail
        assert suspects.contradicting[place].tolist() == contradicting


def test_a_false_step_on_the_board_comes_first_with_its_correction():
    table = board(6, words=False)
    false = beliefs([("2,2", "right", "4,4")])
    every = Beliefs.from_frame(table.vstack(false.to_frame()))
    model = fit(every, seed=0, threads=1, **SETTINGS)
    suspects = audit(model, top=3)
    assert suspects.to_frame().row(0, named=True) | {"suspicion": 0, "credence": 0, "reason": ""} == {
        "head": "2,2", "relation": "right", "tail": "4,4", "suspicion": 0, "credence": 0,
        "suggestion": "3,2", "suggestion_known": True, "reason": "",
    }  # fmt: skip
    assert "contradicts the known 2,2 · right · 3,2" in suspects.reason(0)
    assert len(suspects) == 3


def test_memory_bounds_every_table_of_scores(memory_limits):
    model, _ = random_model(1)
    audit(model, memory=12_345)
    assert memory_limits == {12_345}


def test_beliefs_of_a_file_keep_their_rows_and_unseen_entities_are_counted():
    model, _ = random_model(1)
    listed = beliefs([("e1", "r0", "zz"), ("e1", "r0", "e2"), ("e3", "r1", "e4")])
    suspects = audit(model, listed)
    assert sorted(suspects.rows.tolist()) == [1, 2]
    assert suspects.unseen == 1
