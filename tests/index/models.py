"""A model whose entities lie in groups, so that an index has cells to find."""

import numpy as np
import polars as pl
import pytest
import torch

from doxa.calibration.judge import Judge
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.model import Model
from doxa.systems import assemble
from tests.worlds import settings_of

faiss = pytest.importorskip("faiss", reason="the index needs faiss: pip install 'doxa[index]'")

KINDS = [
    ("translation", {"norm": 2}),
    ("translation", {"norm": 1}),
    ("complex", {}),
    ("distmult", {}),
    ("rotate", {}),
]
"""The scores that have an index, with options."""


def grouped_model(score="complex", entities=600, relations=3, groups=30, facts=300, seed=0, **options):
    """Random groups of similar entities, and random facts: the first tenth is never a tail, the last never a head."""
    settings = settings_of(score=score, dimension=8, scale=1.5, seed=seed, **options)
    random, edge = np.random.default_rng(seed), entities // 10
    train = random.integers((0, 0, edge), (entities - edge, relations, entities), (facts, 3))
    pbe = assemble(
        settings, entities=entities, relations=relations, words=0,
        seen_heads=torch.arange(0, entities - edge), seen_tails=torch.arange(edge, entities),
    )  # fmt: skip
    middle = random.normal(size=(groups, 8))
    vectors = middle[random.integers(0, groups, entities)] + 0.3 * random.normal(size=(entities, 8))
    with torch.no_grad():
        pbe.score.entity.weight.copy_(torch.from_numpy(vectors))
        pbe.score.relation.weight.copy_(torch.from_numpy(random.normal(size=(relations, 8))))

    def vocabulary(letter, count, kind):
        return Vocabulary(pl.Series([f"{letter}{number}" for number in range(count)], dtype=pl.String), kind)

    names = vocabulary("e", entities, "entity"), vocabulary("r", relations, "relation"), vocabulary("w", 0, "word")
    model = Model(
        settings, Vocabularies(*names), pbe.eval(), train, np.zeros((0, 3), np.int64), Judge.unfitted(relations)
    )
    pbe.count_loops(model.trained_facts)
    return model
