"""Eq. 7 and Eq. 11 against the reference: the sign and the norm."""

import pytest
import torch

from tests import reference
from tests.worlds import batch_of, random_pbe, tails


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
    scores = tails(pbe.score, torch.tensor([1]), torch.tensor([2]))
    assert scores.argmax().item() == 3
    assert scores.max().item() == pytest.approx(pbe.score.alpha.item(), abs=1e-5)


def test_a_mention_is_the_sum_of_its_words():
    pbe, world = random_pbe(6)
    mentions = [[0, 2], [4], []]
    logits = pbe.mention_logits(batch_of([(0, 0, 1, words) for words in mentions]))
    for i, words in enumerate(mentions):
        for r in world.relations:
            assert logits[i, r].item() == pytest.approx(reference.mention_score(world, r, words))
    chosen = pbe.mention_logits(batch_of([(0, 0, 1, words) for words in mentions]), torch.tensor([3, 1]))
    assert torch.allclose(chosen, logits[:, [3, 1]])


def test_alpha_can_be_fixed():
    assert random_pbe(0, estimator="negative", learn_alpha=False)[0].score.alpha.requires_grad is False
    assert random_pbe(0, estimator="negative")[0].score.alpha.requires_grad is True


def test_alpha_is_not_trained_where_it_makes_no_difference():
    assert random_pbe(0, estimator="sampled")[0].score.alpha.requires_grad is False
    assert random_pbe(0, estimator="exact")[0].score.alpha.requires_grad is False
