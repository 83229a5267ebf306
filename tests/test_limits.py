"""The toy datasets of docs/systems.md: what each score cannot represent, checked on random vectors."""

import re
from itertools import permutations
from pathlib import Path

import pytest
import torch

from doxa.scores.pairwise import PairScores
from doxa.slots import Slot
from doxa.systems import SYSTEMS
from tests.worlds import make_score

PAGE = (Path(__file__).parents[1] / "docs" / "systems.md").read_text()
ANN, BOB, CID = torch.tensor([0]), torch.tensor([1]), torch.tensor([2])
TEA, MILK = torch.tensor([3]), torch.tensor([4])
LIKES = torch.tensor([0])


def worlds():
    """The toy datasets of the page, by heading or bold name."""
    name, beliefs = "", {}
    for line in PAGE.splitlines():
        heading = re.match(r"## (\w+)$|\*\*(\w+)\*\*:", line)
        if heading:
            name = heading.group(1) or heading.group(2)
        belief = re.match(r"    (\w+) +(\w+) +(\w+)$", line)
        if belief:
            beliefs.setdefault(name, []).append(belief.groups())
    return beliefs


def test_every_system_and_every_score_beyond_has_a_world_of_three_beliefs():
    beliefs = worlds()
    assert set(beliefs) == {*SYSTEMS, "distmult", "complex", "rotate"} - {"pbe-paper"}  # which is pbe on translation
    assert {len(world) for world in beliefs.values()} == {3}


def random_score(name, seed, dimension=4, **settings):
    generator = torch.Generator().manual_seed(seed)
    score = make_score(name, 6, 2, generator, dimension=dimension, **settings).double()
    with torch.no_grad():
        for parameter in score.parameters():
            if parameter.requires_grad and parameter.dim():
                parameter.normal_(generator=generator)
    return score


def scores_of(score, slot, head, relation, tail, candidates=None):
    """D of each query with every candidate, (B, C)."""
    pairs = score.against(slot, head, relation, tail, candidates)
    return pairs.table() if isinstance(pairs, PairScores) else pairs


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"norm": norm}) for name in ("translation", "weighted_translation") for norm in (1, 2)),
        *((name, {}) for name in ("structured", "hyperplane", "rotate")),
    ],
)
def test_heads_that_share_one_tail_must_share_all(name, options):
    """⟨bob likes milk⟩ is no farther than ⟨ann likes tea⟩, ⟨ann likes milk⟩ and ⟨bob likes tea⟩ together."""
    for seed in range(50):
        score = random_score(name, seed, **options)
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
        score, everyone = random_score("single_layer", seed, hidden=1), torch.arange(6)
        scores = scores_of(score, Slot.TAIL, everyone, torch.zeros_like(everyone), everyone)
        assert len({tuple(row.argsort().tolist()) for row in scores}) == 1


@pytest.mark.parametrize(("name", "settings"), [("bilinear", {}), ("neural_tensor", {"hidden": 1})])
def test_in_one_dimension_not_all_of_three_can_be_their_own_first_answer(name, settings):
    three = torch.arange(3)
    for seed in range(300):
        score = random_score(name, seed, dimension=1, **settings)
        first = scores_of(score, Slot.TAIL, three, torch.zeros_like(three), three, three).argmax(1)
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
        share = scores_of(score, Slot.TAIL, ANN, LIKES, TEA).softmax(1)[0]
        assert all(min(share[list(three)]) <= 1 / 3 for three in permutations(range(6), 3))


def test_ranking_relations_alone_does_not_look_at_where_entities_lie():
    score = random_score("translation", 0)
    heads, tails = torch.arange(6), torch.arange(6).flip(0)
    before = scores_of(score, Slot.RELATION, heads, torch.zeros_like(heads), tails)
    with torch.no_grad():
        score.entity.weight += torch.randn(4, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(scores_of(score, Slot.RELATION, heads, torch.zeros_like(heads), tails), before)
