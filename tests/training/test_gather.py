"""A step on the touched rows is the objective itself, and its sparse gradients are the dense ones."""

import numpy as np
import pytest
import torch

from doxa.data.batch import Batch
from doxa.scores import SCORES
from doxa.systems import build
from doxa.training.candidates import draw_candidates, every_candidate
from doxa.training.gather import SparseStep
from doxa.training.objective import objective
from tests.worlds import beliefs, settings_of

SOME = beliefs(
    [("a", "r", "b", "x y"), ("b", "s", "b", None), ("c", "r", "a", "z y"), ("d", "q", "e", "x")],
    ("head", "relation", "tail", "mention"),
)


WAYS = [{"estimator": name} for name in ("sampled", "negative", "exact")] + [
    {"objective": "margin", "margin": 1.5},
    {"objective": "confidence"},
    {"n3": 0.2, "l2": 0.1},
]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_touched_rows_give_the_same_losses_and_gradients(score, way):
    """The fast step, which never makes a table of scores where it need not, against the plain objective."""
    settings = settings_of(score=score, dimension=4, negative_weight=3, scale=1.7, **way)
    pbe = build(SOME, settings).double()
    with torch.no_grad():
        pbe.mention.word.weight.normal_(generator=torch.Generator().manual_seed(0))
    batch = Batch.of(SOME, np.array([2, 1, 0]))
    drawn = (
        every_candidate(pbe)
        if settings.estimator == "exact"
        else draw_candidates(every_candidate(pbe), 2, np.random.default_rng(1))
    )
    plain = objective(pbe, batch, drawn, settings)
    plain.sum().backward()
    dense = {name: p.grad.to_dense().clone() for name, p in pbe.named_parameters() if p.grad is not None}
    pbe.zero_grad()
    loss = SparseStep(pbe, settings).loss(batch, drawn)
    loss.backward()
    assert torch.allclose(loss, plain.sum())
    assert pbe.score.entity.weight.grad.is_sparse
    for name, gradient in dense.items():
        assert torch.allclose(dict(pbe.named_parameters())[name].grad.to_dense(), gradient, atol=1e-12), name


def test_each_touched_row_comes_once():
    settings = settings_of(dimension=4)
    pbe = build(SOME, settings)
    SparseStep(pbe, settings).loss(Batch.of(SOME), every_candidate(pbe)).backward()
    rows = pbe.score.entity.weight.grad._indices()[0]
    assert len(rows.unique()) == len(rows)
