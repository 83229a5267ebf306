"""Eq. 7 and Eq. 11 against the slow twin: the sign and the norm."""

import pytest
import torch

from tests import reference
from tests.worlds import random_pbe


@pytest.mark.parametrize("norm", [1, 2])
def test_the_score_is_alpha_minus_the_distance(norm):
    pbe, world = random_pbe(4, norm=norm)
    for h, r, t in [(0, 0, 1), (2, 3, 2), (6, 1, 0)]:
        ids = (torch.tensor([x]) for x in (h, r, t))
        assert world.scale * pbe.score(*ids).item() == pytest.approx(reference.score(world, h, r, t))


def test_the_true_tail_scores_highest_when_the_step_is_right():
    pbe, _ = random_pbe(5)
    with torch.no_grad():
        pbe.score.entity.weight[3] = pbe.score.entity.weight[1] + pbe.score.relation.weight[2]
    scores = pbe.score.tails(torch.tensor([1]), torch.tensor([2]))
    assert scores.argmax().item() == 3
    assert scores.max().item() == pytest.approx(pbe.score.alpha.item(), abs=1e-5)


def test_a_mention_is_the_sum_of_its_words():
    pbe, world = random_pbe(6)
    words, offsets = torch.tensor([0, 2, 4]), torch.tensor([0, 2, 3, 3])
    found = pbe.mention_logits(words, offsets)
    for i, said in enumerate([[0, 2], [4], []]):
        for r in world.relations:
            assert found[i, r].item() == pytest.approx(reference.said(world, r, said))


def test_alpha_can_be_held_fixed():
    assert random_pbe(0, estimator="negative", learn_alpha=False)[0].score.alpha.requires_grad is False
    assert random_pbe(0, estimator="negative")[0].score.alpha.requires_grad is True


def test_alpha_is_not_learnt_where_it_makes_no_difference():
    assert random_pbe(0, estimator="sampled")[0].score.alpha.requires_grad is False
    assert random_pbe(0, estimator="exact")[0].score.alpha.requires_grad is False
