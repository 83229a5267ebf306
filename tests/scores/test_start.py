"""The start along the graph against a slow walk, and what neutral relations mean."""

import numpy as np
import pytest
import torch

from doxa.data.triples import TripleIndex
from doxa.scores import SCORES
from doxa.scores.start import diffuse
from doxa.systems import build
from doxa.training.loop import Trainer
from tests import reference
from tests.worlds import beliefs, settings_of

TRIPLES = np.array([(0, 0, 1), (1, 1, 2), (2, 0, 2), (3, 0, 4), (0, 1, 1)])


def make(name="translation", dimension=6):
    settings = settings_of(score=name, dimension=dimension)
    return SCORES[name](5, 2, settings, torch.Generator().manual_seed(0)).double()


def test_a_step_is_the_mean_of_oneself_and_the_mean_of_ones_neighbors():
    score = make()
    before = score.entity.weight.detach().numpy().copy()
    diffuse(score, TripleIndex(TRIPLES, 5, 2), steps=3)
    expected = reference.diffused(before, TRIPLES.tolist(), 3)
    assert np.allclose(score.entity.weight.detach().numpy(), expected)
    assert np.allclose(np.linalg.norm(expected, axis=1), np.linalg.norm(before, axis=1))


def test_entities_linked_by_the_graph_grow_alike_and_others_do_not():
    score = make(dimension=200)
    diffuse(score, TripleIndex(TRIPLES, 5, 2), steps=40)
    vectors = torch.nn.functional.normalize(score.entity.weight.detach(), dim=1)
    likeness = vectors @ vectors.T
    assert likeness[:3, :3].min() > 0.99
    assert likeness[3, 4] > 0.99
    assert likeness[:3, 3:].abs().max() < 0.2


@pytest.mark.parametrize(
    "name", ["translation", "hyperplane", "distmult", "complex", "rotate", "bilinear", "structured", "neural_tensor"]
)
def test_with_neutral_relations_an_entity_is_its_own_best_match(name):
    score = make(name)
    with torch.no_grad():
        score.entity.weight /= score.entity.weight.norm(dim=1, keepdim=True)
    score.make_neutral()
    everyone = torch.arange(5)
    for relation in (0, 1):
        assert score.tails(everyone, torch.full((5,), relation)).argmax(1).tolist() == everyone.tolist()
        assert score.heads(torch.full((5,), relation), everyone).argmax(1).tolist() == everyone.tolist()


def test_a_model_is_built_there_when_asked_and_can_take_steps_from_it():
    some = beliefs([("a", "r", "b"), ("b", "s", "c"), ("c", "r", "c"), ("d", "s", "a")])
    settings = settings_of(dimension=4, batch_size=16)
    random = build(some, settings).score.entity.weight.detach()
    pbe = build(some, settings.changed(graph_smoothing=8))
    expected = reference.diffused(random.numpy(), some.triples.tolist(), 8)
    assert np.allclose(pbe.score.entity.weight.detach(), expected, atol=1e-6)
    assert torch.equal(pbe.score.relation.weight, torch.zeros(2, 4))
    trainer = Trainer(pbe, some, settings)
    for step in range(5):  # also from the loop ⟨c r c⟩, where head, step and tail leave no distance at all
        trainer.step(step, trainer.order(step), 0.0)
    assert torch.isfinite(pbe.score.entity.weight).all()
