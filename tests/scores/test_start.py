"""Smoothing of the start over the graph against the reference, and neutral relations."""

import numpy as np
import pytest
import torch

from doxa.data.triples import TripleIndex
from doxa.scores.start import smooth_over_graph
from doxa.systems import build
from doxa.training.steps import Steps
from tests import reference
from tests.worlds import beliefs, heads, make_score, settings_of, tails

TRIPLES = np.array([(0, 0, 1), (1, 1, 2), (2, 0, 2), (3, 0, 4), (0, 1, 1)])


def make(name="translation", dimension=6):
    return make_score(name, 5, 2, torch.Generator().manual_seed(0), dimension=dimension).double()


def test_a_step_is_the_mean_of_a_vector_and_the_mean_of_its_neighbors():
    score = make()
    before = score.entity.weight.detach().numpy().copy()
    smooth_over_graph(score, TripleIndex(TRIPLES, 5, 2), steps=3)
    expected = reference.smoothed(before, TRIPLES.tolist(), 3)
    assert np.allclose(score.entity.weight.detach().numpy(), expected)
    assert np.allclose(np.linalg.norm(expected, axis=1), np.linalg.norm(before, axis=1))


def test_entities_linked_by_the_graph_become_similar_and_others_do_not():
    score = make(dimension=200)
    smooth_over_graph(score, TripleIndex(TRIPLES, 5, 2), steps=40)
    vectors = torch.nn.functional.normalize(score.entity.weight.detach(), dim=1)
    similarity = vectors @ vectors.T
    assert similarity[:3, :3].min() > 0.99
    assert similarity[3, 4] > 0.99
    assert similarity[:3, 3:].abs().max() < 0.2


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
        assert tails(score, everyone, torch.full((5,), relation)).argmax(1).tolist() == everyone.tolist()
        assert heads(score, torch.full((5,), relation), everyone).argmax(1).tolist() == everyone.tolist()


def test_training_can_start_from_smoothed_vectors():
    train = beliefs([("a", "r", "b"), ("b", "s", "c"), ("c", "r", "c"), ("d", "s", "a")])
    settings = settings_of(dimension=4, batch_size=16)
    random = build(train, settings).score.entity.weight.detach()
    pbe = build(train, settings.changed(graph_smoothing=8))
    expected = reference.smoothed(random.numpy(), train.triples.tolist(), 8)
    assert np.allclose(pbe.score.entity.weight.detach(), expected, atol=1e-6)
    assert torch.equal(pbe.score.relation.weight, torch.zeros(2, 4))
    steps = Steps(pbe, train, settings.changed(num_candidates=512))
    for number in range(5):  # also from the loop ⟨c r c⟩, where the distance is 0
        steps.take(number, 0.0)
    assert torch.isfinite(pbe.score.entity.weight).all()
