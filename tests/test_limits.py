"""The toy worlds of docs/systems.md: what each score cannot express, held for random vectors."""

import re
from itertools import permutations
from pathlib import Path

import pytest
import torch

from doxa.scores import SCORES
from doxa.systems import SYSTEMS
from tests.worlds import settings_of

PAGE = (Path(__file__).parents[1] / "docs" / "systems.md").read_text()
ANN, BOB, CID = torch.tensor([0]), torch.tensor([1]), torch.tensor([2])
TEA, MILK = torch.tensor([3]), torch.tensor([4])
LIKES = torch.tensor([0])


def worlds():
    """Every toy world of the page by the heading or bold name it stands under."""
    name, found = "", {}
    for line in PAGE.splitlines():
        heading = re.match(r"## (\w+)$|\*\*(\w+)\*\*:", line)
        if heading:
            name = heading.group(1) or heading.group(2)
        belief = re.match(r"    (\w+) +(\w+) +(\w+)$", line)
        if belief:
            found.setdefault(name, []).append(belief.groups())
    return found


def test_every_system_and_every_score_beyond_has_a_world_of_three_beliefs():
    found = worlds()
    assert set(found) == {*SYSTEMS, "distmult", "complex", "rotate"}
    assert {len(world) for world in found.values()} == {3}


def random_score(name, seed, dimension=4, **settings):
    generator = torch.Generator().manual_seed(seed)
    score = SCORES[name](6, 2, settings_of(score=name, dimension=dimension, **settings), generator).double()
    with torch.no_grad():
        for parameter in score.parameters():
            if parameter.requires_grad and parameter.dim():
                parameter.normal_(generator=generator)
    return score


@pytest.mark.parametrize("name", ["translation", "weighted_translation", "structured", "hyperplane", "rotate"])
@pytest.mark.parametrize("norm", [1, 2])
def test_who_shares_one_liking_must_share_all(name, norm):
    """⟨bob likes milk⟩ is no farther than ⟨ann likes tea⟩, ⟨ann likes milk⟩ and ⟨bob likes tea⟩ together."""
    for seed in range(50):
        score = random_score(name, seed, norm=norm)
        top = score.alpha if hasattr(score, "alpha") else 0.0

        def far(h, t, score=score, top=top):
            gap = top - score(h, LIKES, t)
            return gap.sqrt() if name == "hyperplane" else gap

        assert far(BOB, MILK) <= far(ANN, TEA) + far(ANN, MILK) + far(BOB, TEA) + 1e-9


@pytest.mark.parametrize("name", ["unstructured", "distmult"])
def test_some_scores_know_no_direction(name):
    score = random_score(name, 0)
    assert score(ANN, LIKES, BOB).item() == pytest.approx(score(BOB, LIKES, ANN).item())


def test_unstructured_knows_no_relation():
    score = random_score("unstructured", 0)
    assert score(ANN, LIKES, BOB).item() == score(ANN, LIKES + 1, BOB).item()


def test_through_one_unit_every_head_orders_the_tails_alike():
    for seed in range(50):
        scores = random_score("single_layer", seed, hidden=1).tails(torch.arange(6), torch.zeros(6, dtype=torch.int64))
        assert len({tuple(row.argsort().tolist()) for row in scores}) == 1


@pytest.mark.parametrize(("name", "settings"), [("bilinear", {}), ("neural_tensor", {"hidden": 1})])
def test_in_one_dimension_not_all_of_three_can_be_their_own_first_answer(name, settings):
    three = torch.arange(3)
    for seed in range(300):
        score = random_score(name, seed, dimension=1, **settings)
        first = score.tails(three, torch.zeros(3, dtype=torch.int64), three).argmax(1)
        assert first.tolist() != [0, 1, 2]


def test_a_translation_composes_and_complex_does_not():
    """Five beliefs of two chains of mothers; the sixth is the grandmother of the second chain."""
    mother, grandmother = 0, 1
    five = torch.tensor([(0, mother, 1), (1, mother, 2), (0, grandmother, 2), (3, mother, 4), (4, mother, 5)]).T
    sixth = [torch.tensor([x]) for x in (3, grandmother, 5)]
    for seed in range(50):
        score = random_score("translation", seed)
        assert score.alpha - score(*sixth) <= (score.alpha - score(*five)).sum() + 1e-9
    score = random_score("complex", 0)
    optimizer = torch.optim.Adam(score.parameters(), 0.05)
    for _ in range(300):
        optimizer.zero_grad()
        (torch.relu(5 - score(*five)).sum() + torch.relu(5 + score(*sixth)).sum()).backward()
        optimizer.step()
    assert score(*five).min() > 4
    assert score(*sixth).item() < -4


def test_a_softmax_gives_three_right_answers_a_third_each_at_most():
    for seed in range(20):
        score = random_score("translation", seed)
        share = score.tails(ANN, LIKES).softmax(1)[0]
        assert all(min(share[list(some)]) <= 1 / 3 for some in permutations(range(6), 3))


def test_ranking_relations_alone_does_not_look_at_where_entities_lie():
    score = random_score("translation", 0)
    before = score.relations(torch.arange(6), torch.arange(6).flip(0))
    with torch.no_grad():
        score.entity.weight += torch.randn(4, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(score.relations(torch.arange(6), torch.arange(6).flip(0)), before)
