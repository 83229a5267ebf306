"""The audit is what its formula says, and finds planted falsehoods."""

import numpy as np
import pytest

from doxa.curation.audit import ALTERNATIVE, audit
from doxa.data.beliefs import Beliefs
from doxa.model import fit
from tests import reference
from tests.test_toy_world import SETTINGS
from tests.worlds import beliefs, board, random_model


@pytest.mark.parametrize("seed", range(3))
def test_suspicion_is_what_the_formula_says(seed):
    model, world = random_model(seed)
    known = set(map(tuple, model.train.tolist()))
    found = audit(model)
    assert len(found) == len(known)
    assert (np.diff(found.suspicion) <= 1e-9).all()
    for place, belief in enumerate(map(tuple, found.beliefs.triples.tolist())):
        x = np.log(reference.credence(world, *belief, []))
        expected, better_tail, rivals = reference.suspicion(world, belief, known, ALTERNATIVE)
        # σ(x) is the credence of an unfitted calibrator; its logit is x itself
        assert found.suspicion[place] == pytest.approx(expected)
        assert found.credence[place] == pytest.approx(1 / (1 + np.exp(-x)))
        assert found.better_tail[place] == better_tail
        assert found.rival[place].tolist() == rivals


def test_a_false_step_on_the_board_comes_first_with_its_correction():
    table = board(6, words=False)
    false = beliefs([("2,2", "right", "4,4")])
    every = Beliefs.from_frame(table.vstack(false.to_frame()))
    model = fit(every, seed=0, threads=1, **SETTINGS)
    found = audit(model, top=3)
    assert found.to_frame().row(0, named=True) | {"suspicion": 0, "credence": 0, "reason": ""} == {
        "head": "2,2", "relation": "right", "tail": "4,4", "suspicion": 0, "credence": 0,
        "suggestion": "3,2", "suggestion_known": True, "reason": "",
    }  # fmt: skip
    assert "contradicts the known 2,2 · right · 3,2" in found.reason(0)
    assert len(found) == 3


def test_beliefs_of_a_file_keep_their_rows_and_strangers_are_counted():
    model, _ = random_model(1)
    given = beliefs([("e1", "r0", "zz"), ("e1", "r0", "e2"), ("e3", "r1", "e4")])
    found = audit(model, given)
    assert sorted(found.rows.tolist()) == [1, 2]
    assert found.strange == 1
