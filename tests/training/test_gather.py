"""A step on gathered rows is the objective itself, and its sparse gradients are the dense ones."""

import numpy as np
import pytest
import torch

from doxa.data.batch import Batch
from doxa.data.triples import TripleIndex
from doxa.estimators import Candidates
from doxa.scores import SCORES
from doxa.systems import build, recipe
from doxa.training.candidates import draw_candidates
from doxa.training.gather import SparseStep
from doxa.training.objective import batch_loss
from doxa.training.weights import term_weighting
from tests.worlds import beliefs, random_beliefs, settings_of

TRAIN = beliefs(
    [("a", "r", "b", "x y"), ("b", "s", "b", None), ("c", "r", "a", "z y"), ("d", "q", "e", "x")],
    ("head", "relation", "tail", "mention"),
)

WAYS = [{"estimator": name} for name in ("sampled", "negative", "exact")] + [
    {"objective": "margin", "margin": 1.5},
    {"objective": "confidence"},
    {"n3": 0.2, "l2": 0.1},
]


def with_random_words(pbe):
    with torch.no_grad():
        pbe.mention.word.weight.normal_(generator=torch.Generator().manual_seed(0))
    return pbe


def gradients(pbe, loss):
    pbe.zero_grad()
    loss.backward()
    return {name: p.grad.to_dense().clone() for name, p in pbe.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_gathered_rows_give_the_same_loss_and_gradients(score, way):
    """The fast step, which computes no table of scores where it need not, against the plain objective."""
    settings = settings_of(score=score, dimension=4, negative_weight=3, scale=1.7, **way)
    pbe = with_random_words(build(TRAIN, settings).double())
    batch = Batch.of(TRAIN, np.array([2, 1, 0]))
    drawn = Candidates.every(pbe)
    if settings.estimator != "exact":
        drawn = draw_candidates(drawn, 2, np.random.default_rng(1), settings.training_estimator == "sampled")
    plain = batch_loss(pbe, batch, drawn, settings)
    dense = gradients(pbe, plain)
    loss = SparseStep(pbe, settings).loss(batch, drawn)
    sparse = gradients(pbe, loss)
    assert torch.allclose(loss, plain)
    assert pbe.score.entity.weight.grad.is_sparse
    assert {name for name, gradient in sparse.items() if gradient.any()} <= dense.keys()
    for name, gradient in dense.items():
        assert torch.allclose(sparse[name], gradient, atol=1e-12), name


@pytest.mark.parametrize(("corruption", "cap"), [("uniform", 0), ("uniform", 1), ("bernoulli", 0), ("bernoulli", 1)])
def test_gathered_rows_heed_term_weights_and_known_facts(corruption, cap):
    """On small tables, too, the step is the objective itself."""
    weights = {"head_weight": 0.7, "relation_weight": 1.3, "tail_weight": 0.9, "mention_weight": 0.4}
    values = {"score": "hyperplane", "objective": "margin", "dimension": 3, "corruption": corruption}
    settings = recipe(values | weights | {"max_answers": cap})
    train, _ = random_beliefs(4)
    rows = np.flatnonzero(train.relation >= 2)[-6:]  # the first relations have no row in the small tables
    facts = TripleIndex(train.triples, 7, 4)
    pbe = with_random_words(build(train, settings).double())
    batch, weighting = Batch.of(train, rows), term_weighting(settings, lambda: facts)
    term_weights = weighting and weighting.of(batch)
    if term_weights:
        assert len(term_weights["head"].unique()) > 1
    drawn = Candidates(torch.tensor([2, 5]), torch.tensor([2, 3]), torch.tensor([2, 6])).without_known(batch, facts)
    plain = batch_loss(pbe, batch, drawn, settings, term_weights)
    dense = gradients(pbe, plain)
    loss = SparseStep(pbe, settings, weighting).loss(batch, drawn)
    sparse = gradients(pbe, loss)
    assert torch.allclose(loss, plain)
    for name, gradient in dense.items():
        assert torch.allclose(sparse[name], gradient), name


def test_each_gathered_row_comes_once():
    settings = settings_of(dimension=4)
    pbe = build(TRAIN, settings)
    SparseStep(pbe, settings).loss(Batch.of(TRAIN), Candidates.every(pbe)).backward()
    rows = pbe.score.entity.weight.grad._indices()[0]
    assert len(rows.unique()) == len(rows)
