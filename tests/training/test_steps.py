"""Steps: which batches, candidates and weights each one uses, and the constraints after it."""

import numpy as np
import polars as pl
import pytest
import torch

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.systems import build, recipe
from doxa.training.objective import batch_loss
from doxa.training.steps import Steps
from doxa.training.weights import TermWeighting
from tests.worlds import beliefs, board, settings_of

SMALL = {"score": "translation", "dimension": 4, "epochs": 2, "batch_size": 16, "num_candidates": 8}


def steps_of(train, **values):
    settings = recipe(SMALL | values)
    return Steps(build(train, settings), train, settings)


def weights_of(steps):
    return {name: tensor.clone() for name, tensor in steps.pbe.state_dict().items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_every_epoch_uses_every_belief_once_in_another_order():
    steps = steps_of(Beliefs.from_frame(board(4)))
    orders = []
    for epoch in (0, 1):
        numbers = range(epoch * steps.per_epoch, (epoch + 1) * steps.per_epoch)
        orders.append(np.concatenate([steps._rows(number) for number in numbers]).tolist())
    first, second = orders
    assert sorted(first) == sorted(second) == list(range(len(steps.beliefs)))
    assert first != second


def test_a_step_is_the_same_whichever_step_came_before():
    steps, other = (steps_of(Beliefs.from_frame(board(4))) for _ in range(2))
    late = steps.per_epoch + 1
    for number in (0, late, 1, late):
        rows, drawn = steps._rows(number), steps._candidates(number, Batch.of(steps.beliefs))
    assert rows.tolist() == other._rows(late).tolist()
    assert drawn.heads.tolist() == other._candidates(late, Batch.of(other.beliefs)).heads.tolist()


def test_warming_up_moves_nothing():
    steps = steps_of(Beliefs.from_frame(board(4)))
    before = weights_of(steps)
    steps.warm_up()
    steps.warm_up(backward=False)
    assert same(weights_of(steps), before)
    assert all(not sums.any() for sums in steps.optimizer.state().values())
    assert all(parameter.grad is None for parameter in steps.pbe.parameters())


@pytest.mark.parametrize("filtered", [True, False])
def test_known_facts_are_no_negatives_when_filtered(filtered):
    """Every triple of three entities is a fact: without known ones there is no negative left to train on."""
    train = beliefs([(h, r, t) for h in "abc" for r in "xy" for t in "abc"])
    steps = steps_of(train, system="transe", filter_negatives=filtered, entity_norm="free")
    before = steps.pbe.score.entity.weight.clone()
    loss = sum(steps.take(number, 0.0) for number in range(steps.per_epoch))
    assert (loss == 0) is filtered
    assert torch.equal(steps.pbe.score.entity.weight, before) is filtered


def test_margin_ranking_corrupts_with_any_entity_and_both_slots_alike():
    """c is never a head, yet it is a negative like any other; likelihoods keep to E_h and E_t."""
    train = beliefs([("a", "r", "b"), ("a", "s", "c"), ("b", "r", "c")])
    batch = Batch.of(train)
    ranking = steps_of(train, system="transe", learning_rate=1.0, num_candidates=512, entity_norm="free")
    drawn = ranking._candidates(0, batch)
    assert drawn.heads.tolist() == drawn.tails.tolist() == [0, 1, 2]
    one = steps_of(train, system="transe", num_candidates=1)._candidates(5, batch)
    assert one.heads.tolist() == one.tails.tolist()
    likelihood = steps_of(train, num_candidates=512)
    assert likelihood._candidates(0, batch).heads.tolist() == np.unique(train.head).tolist()


def test_exact_training_uses_every_candidate():
    steps = steps_of(Beliefs.from_frame(board(4)), estimator="exact", num_candidates=2)
    drawn = steps._candidates(3, Batch.of(steps.beliefs))
    assert drawn.heads.tolist() == steps.pbe.seen_heads.tolist()
    assert drawn.tails.tolist() == steps.pbe.seen_tails.tolist()


def test_steps_take_their_term_weights_from_the_settings():
    """One head with many tails: the Bernoulli rule weights the replaced head more, a cap lowers the loss."""
    train = beliefs([("a", "r", t) for t in "bcde"] + [("b", "s", "c")])
    first = {}
    for corruption, cap in (("uniform", 0), ("bernoulli", 0), ("uniform", 2)):
        steps = steps_of(train, system="transe", corruption=corruption, max_answers=cap, num_candidates=512)
        batch = Batch.of(train)
        term_weights = TermWeighting(TripleIndex(train.triples, 5, 2), corruption == "bernoulli", cap).of(batch)
        expected = batch_loss(steps.pbe, batch, steps._candidates(0, batch), steps.settings, term_weights).item()
        first[corruption, cap] = steps.take(0, 0.0)
        assert first[corruption, cap] == pytest.approx(expected, rel=1e-5)
    assert first["uniform", 0] != pytest.approx(first["bernoulli", 0])
    assert first["uniform", 2] < 0.9 * first["uniform", 0]


@pytest.mark.parametrize("rule", ["unit", "ball"])
def test_constraints_are_met_from_the_start_and_after_every_step(rule):
    steps = steps_of(Beliefs.from_frame(board(3)), system="transe", entity_norm=rule, learning_rate=2.0,
                     num_candidates=2, schedule="constant")  # fmt: skip

    def met():
        lengths = steps.pbe.score.entity.weight.norm(dim=1)
        return (lengths - 1).abs().max() < 1e-5 if rule == "unit" else lengths.max() < 1 + 1e-5

    assert met()
    before = steps.pbe.score.entity.weight.clone()
    for number in range(4):
        steps.take(number, 0.0)
        assert met()
    assert not torch.equal(steps.pbe.score.entity.weight, before)


def test_where_only_mentions_count_a_batch_without_mentions_moves_nothing():
    table = board(4)
    silent = np.arange(len(table)) < 16
    train = Beliefs.from_frame(table.with_columns(mention=pl.Series(np.where(silent, "", table["mention"].to_numpy()))))
    settings = settings_of(**SMALL, head_weight=0.0, relation_weight=0.0, tail_weight=0.0)
    steps = Steps(build(train, settings), train, settings)
    steps.warm_up()
    steps._order = (0, np.arange(len(train)))  # the silent ones first
    before = weights_of(steps)
    assert steps.take(0, 0.0) == 0
    assert same(weights_of(steps), before)
    assert steps.take(1, 0.0) > 0
    assert not same(weights_of(steps), before)
