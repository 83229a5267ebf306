"""Unstructured, weighted translation and hyperplane against the reference."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from doxa.data.triples import TripleIndex
from doxa.model import fit
from doxa.scores import SCORES
from tests import reference
from tests.worlds import beliefs, board, heads, make_score, relations, tails

ENTITIES, RELATIONS = 6, 4
triples = st.lists(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
    min_size=1,
    max_size=25,
)


def make(name, seed=0, known=(), **more):
    score = make_score(name, ENTITIES, RELATIONS, torch.Generator(), dimension=5, **more).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in score.parameters():
            if parameter.requires_grad:
                parameter.normal_(generator=generator)
    score.prepare(TripleIndex(np.array(known, np.int64).reshape(-1, 3), ENTITIES, RELATIONS))
    return score


def row(table, i):
    return table.weight[i].detach().numpy()


def assert_equals(score, reference_score):
    """One by one and against all candidates, for every triple there is."""
    every = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(RELATIONS), torch.arange(ENTITIES))
    head, relation, tail = every.T
    expected = torch.tensor([reference_score(*ids) for ids in every.tolist()], dtype=torch.float64)
    assert torch.allclose(score(head, relation, tail), expected)
    grid = expected.view(ENTITIES, RELATIONS, ENTITIES)
    assert torch.allclose(tails(score, head, relation), grid[head, relation], atol=1e-6)
    assert torch.allclose(heads(score, relation, tail), grid.permute(1, 2, 0)[relation, tail], atol=1e-6)
    assert torch.allclose(relations(score, head, tail), grid.permute(0, 2, 1)[head, tail], atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_unstructured_equals_its_formula(seed):
    score = make("unstructured", seed)
    assert_equals(score, lambda h, r, t: reference.unstructured(row(score.entity, h), row(score.entity, t)))


def test_unstructured_is_blind_to_relation_and_direction():
    score = make("unstructured")
    h, t = torch.tensor([0, 2]), torch.tensor([3, 2])
    scores = relations(score, h, t)
    assert torch.equal(scores, scores[:, :1].expand(-1, RELATIONS))
    assert torch.equal(score(h, h, t), score(t, h, h))
    assert torch.equal(tails(score, h, h), heads(score, h, h))
    assert not score.tells_relations
    assert all(SCORES[name].tells_relations for name in SCORES if name != "unstructured")


@pytest.mark.parametrize("seed", range(3))
def test_hyperplane_equals_its_formula(seed):
    score = make("hyperplane", seed)

    def reference_score(h, r, t):
        return reference.hyperplane(
            row(score.entity, h), row(score.entity, t), row(score.relation, r), row(score.normal, r)
        )

    assert_equals(score, reference_score)


def test_only_the_direction_of_a_normal_matters():
    score, (h, r, t) = make("hyperplane", orthogonality=1.0), (torch.tensor([i, i + 1]) for i in (0, 2, 4))

    def everything():
        return [score(h, r, t), tails(score, h, r), relations(score, h, t), score.penalty(r)]

    before = everything()
    with torch.no_grad():
        score.normal.weight.mul_(-7.0)
    for one, other in zip(before, everything(), strict=True):
        assert torch.allclose(one, other)


def test_the_distance_of_an_entity_from_the_hyperplane_makes_no_difference():
    score, r = make("hyperplane"), torch.tensor([1])
    h, t = torch.tensor([0]), torch.tensor([3])
    before, elsewhere = score(h, r, t), score(h, torch.tensor([2]), t)
    with torch.no_grad():
        score.entity.weight[3] += 2.5 * score.normal.weight[1]
    assert torch.allclose(score(h, r, t), before)
    assert not torch.allclose(score(h, torch.tensor([2]), t), elsewhere)


@pytest.mark.parametrize("seed", range(5))
def test_the_soft_constraint_equals_its_formula(seed):
    score, r = make("hyperplane", seed, orthogonality=0.2), torch.arange(RELATIONS)
    expected = [reference.slant_penalty(row(score.relation, i), row(score.normal, i)) for i in range(RELATIONS)]
    assert min(expected) > 0
    assert score.penalty(r).tolist() == pytest.approx([0.2 * penalty for penalty in expected])


def test_a_step_within_the_hyperplane_is_not_penalized():
    """Cosines of 0 and ½ε cost nothing; 2ε costs 3ε²."""
    score = make("hyperplane", orthogonality=1.0)
    with torch.no_grad():
        score.normal.weight.zero_()[:, 0] = 2.0
        score.relation.weight.zero_()[:, 1] = 3.0
        score.relation.weight[1, 0], score.relation.weight[2, 0] = 3 * 0.5e-3, 3 * 2e-3
    assert score.penalty(torch.arange(3)).tolist() == pytest.approx([0, 0, 3e-6], rel=1e-4)


@pytest.mark.parametrize("name", SCORES)
def test_no_score_has_a_penalty_unless_asked(name):
    score = make_score(name, ENTITIES, RELATIONS, torch.Generator(), dimension=6)
    assert score.penalty(torch.tensor([0, 3, 1])) is None


@given(triples)
def test_weights_are_counted_from_the_facts(known):
    score = make("weighted_translation", known=[*known, known[0]])
    expected = [reference.translation_weight(known, r) for r in range(RELATIONS)]
    assert score.weight.weight[:, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_weighted_translation_equals_its_formula(seed, norm):
    known = np.random.default_rng(seed).integers(0, (ENTITIES, RELATIONS, ENTITIES), (20, 3)).tolist()
    score = make("weighted_translation", seed, known, norm=norm, estimator="negative")
    weight = [reference.translation_weight(map(tuple, known), r) for r in range(RELATIONS)]
    assert len(set(weight)) > 1

    def reference_score(h, r, t):
        vectors = row(score.entity, h), row(score.relation, r), row(score.entity, t)
        return reference.weighted_translation(*vectors, weight[r], score.alpha.item(), norm)

    assert_equals(score, reference_score)


def test_a_relation_with_many_answers_has_a_smaller_weight():
    one_to_one = [(i, 0, i + 1) for i in range(3)]
    one_to_many = [(0, 1, i) for i in range(1, 6)]
    few, many, never_seen, _ = make("weighted_translation", known=one_to_one + one_to_many).weight.weight[:, 0].tolist()
    assert few == pytest.approx(1 / np.log(2))
    assert many == pytest.approx(1 / np.log(6))
    assert never_seen == few


def test_training_leaves_the_counted_weights_alone(tmp_path):
    train = beliefs([*board(3, words=False).rows(), ("0,0", "right", "2,2"), ("0,0", "right", "1,2")])
    model = fit(train, system="transm", dimension=4, epochs=3, validation_fraction=0.0, threads=1)
    rows = train.triples.tolist()
    expected = [reference.translation_weight(map(tuple, rows), r) for r in range(2)]
    assert expected[0] != expected[1]
    assert model.pbe.score.weight.weight[:, 0].tolist() == pytest.approx(expected)
    model.save(tmp_path / "m")
    assert type(model).load(tmp_path / "m").pbe.score.weight.weight[:, 0].tolist() == pytest.approx(expected)


def test_weights_come_from_training_alone():
    """A held-out belief must not reveal how many answers the queries of its relation have."""
    train, valid = beliefs(board(3, words=False).rows()), beliefs([("0,0", "right", "2,2")])
    model = fit(train, valid, system="transm", dimension=4, epochs=1, threads=1)
    assert model.pbe.score.weight.weight[:, 0].tolist() == pytest.approx([1 / np.log(2)] * 2)
