"""Steps over queries are the exact likelihood of all beliefs that answer them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from doxa.systems import build
from doxa.training import query_steps
from doxa.training.query_steps import QuerySteps
from doxa.training.steps import Steps
from tests.worlds import random_beliefs, settings_of

SETTINGS = [
    {},
    {"n3": 0.2},
    {"l2": 0.3, "entity_norm": "unit"},
    {"tail_weight": 0.0, "relation_weight": 0.4},
    {"relation_weight": 0.0, "optimizer": "sgd"},
    {"head_weight": 0.0, "tail_weight": 0.0},
    {"max_answers": 1, "n3": 0.1},
    {"confidence": "weight", "scale": 2.5},
    {"filter_negatives": True, "n3": 0.1},
]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(query_steps, "PART", 2)
    monkeypatch.setattr(query_steps, "BLOCK", 3)


def world():
    """Beliefs with confidence in a small space, so that many queries have several answers."""
    table, _ = random_beliefs(1)
    confidence = np.random.default_rng(2).uniform(0.3, 1.0, len(table))
    return replace(table, confidence=confidence.astype(table.confidence.dtype))


def run(kind, beliefs, steps, **values):
    """The losses of the first steps, and the weights afterwards, in float64."""
    values = {"score": "complex", "dimension": 6, "batch_size": len(beliefs), "threads": 1, "mentions": False} | values
    settings = settings_of(estimator="exact", **values)
    pbe = build(beliefs, settings).double()
    work = kind(pbe, beliefs, settings)
    losses = [work.take(number, number / steps) for number in range(steps)]
    return losses, {name: p.detach().clone() for name, p in pbe.named_parameters()}


@pytest.mark.parametrize("score", ["complex", "distmult"])
@pytest.mark.parametrize("values", SETTINGS, ids=str)
def test_a_step_with_all_queries_is_the_exact_step_with_all_beliefs(score, values):
    beliefs = world()
    losses, weights = run(Steps, beliefs, 3, score=score, **values)
    by_queries, moved = run(QuerySteps, beliefs, 3, score=score, batch_by="queries", **values)
    assert by_queries == pytest.approx(losses, rel=1e-9)
    for name, table in weights.items():
        torch.testing.assert_close(moved[name], table, rtol=1e-7, atol=1e-9)
