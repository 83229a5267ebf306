"""Similarity: similar entities, clusters, possible duplicates."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from doxa.curation.similar import clusters, duplicates, similar
from doxa.errors import UsageError
from tests.worlds import random_model


def test_the_most_similar_come_first():
    model, world = random_model(0)
    vectors = world.entity / np.linalg.norm(world.entity, axis=1, keepdims=True)
    cosine = vectors @ vectors[3]
    expected = [x for x in np.argsort(-cosine) if x != 3]
    best = similar(model, "e3", top=4)
    assert [one.name for one in best] == [f"e{x}" for x in expected[:4]]
    assert best[0].similarity == pytest.approx(cosine[expected[0]])
    heads_and_tails = set(model.train[model.train[:, 1] == 2][:, [0, 2]].ravel().tolist())
    assert {one.name for one in similar(model, "e3", 50, "r2")} == {f"e{x}" for x in heads_and_tails - {3}}


def test_a_copy_of_an_entity_is_found_unless_a_belief_links_the_two():
    model, _ = random_model(0, facts=8, entities=30)
    with torch.no_grad():
        model.pbe.score.entity.weight[20] = 2 * model.pbe.score.entity.weight[7]
    assert not {(7, 20), (20, 7)} & {(h, t) for h, _, t in model.train.tolist()}
    pairs = duplicates(model)
    assert (pairs[0].first, pairs[0].second) == ("e7", "e20")
    assert pairs[0].similarity == pytest.approx(1.0)
    linked = replace(model, train=np.vstack([model.train, [7, 0, 20]]))
    assert ("e7", "e20") not in [(pair.first, pair.second) for pair in duplicates(linked)]


def test_clusters_part_what_is_apart():
    model, _ = random_model(0)
    with torch.no_grad():
        model.pbe.score.entity.weight.zero_()
        model.pbe.score.entity.weight[:5, 0] = 1.0
        model.pbe.score.entity.weight[5:, 1] = 1.0
    groups = clusters(model, 2)
    assert [sorted(cluster.entities.tolist()) for cluster in groups] == [list(range(5, 12)), list(range(5))]
    with pytest.raises(UsageError, match="clusters"):
        clusters(model, 50)
