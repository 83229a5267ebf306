"""Objectives: what learning makes small.

The logarithms of Pr(h|r,t), Pr(r|h,t), Pr(t|h,r) and Pr(r|m) are estimated in one of three ways: exactly
(Eqs 8–10, 12), by a softmax over the truth and sampled candidates, or by negative sampling (Eqs 13–18).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from doxa.learning.negatives import Candidates
from doxa.pbe import PBE, Batch
from doxa.settings import Settings

Places = tuple[Tensor, Tensor]
"""Rows and columns in a table of beliefs by candidates."""


@dataclass(frozen=True)
class Estimates:
    """Estimated log probabilities of each belief of a batch, (B,) each; `said` is 0 where there is no mention."""

    head: Tensor
    relation: Tensor
    tail: Tensor
    said: Tensor

    def log_credence(self, settings: Settings) -> Tensor:
        """⅓ [log Pr(h|r,t) + log Pr(r|h,t) + log Pr(r|m) + log Pr(t|h,r)], each term with its weight (Eqs 1, 6)."""
        weighted = (
            settings.head_weight * self.head
            + settings.relation_weight * self.relation
            + settings.mention_weight * self.said
            + settings.tail_weight * self.tail
        )
        return weighted / 3


def estimates(pbe: PBE, batch: Batch, candidates: Candidates, settings: Settings) -> Estimates:
    """The four terms of each belief by the estimator of the settings."""
    truth = pbe.logits(batch.head, batch.relation, batch.tail)
    about_triples = _estimator(settings, settings.epsilon)
    about_mentions = _estimator(settings, settings.eta)
    heads = pbe.head_logits(batch.relation, batch.tail, candidates.heads)
    tails = pbe.tail_logits(batch.head, batch.relation, candidates.tails)
    relations = pbe.relation_logits(batch.head, batch.tail, candidates.relations)
    own_relation = own_places(batch.relation, candidates.relations)
    said = torch.zeros_like(truth)
    if pbe.mention is not None and len(batch.words):
        vectors = pbe.mention.said(batch.words, batch.offsets)
        true_said = pbe.mention.each(vectors, pbe.score.relation(batch.relation))
        others = pbe.mention(vectors, pbe.score.relation(candidates.relations))
        said = torch.where(batch.mentioned, about_mentions(true_said, others, own_relation), said)
    return Estimates(
        head=about_triples(truth, heads, own_places(batch.head, candidates.heads)),
        relation=about_triples(truth, relations, own_relation),
        tail=about_triples(truth, tails, own_places(batch.tail, candidates.tails)),
        said=said,
    )


def own_places(truth: Tensor, candidates: Tensor) -> Places:
    """(rows, columns) where a belief's truth stands among the candidates, which are sorted and distinct."""
    column = torch.searchsorted(candidates, truth).clamp_max(len(candidates) - 1)
    rows = torch.nonzero(candidates[column] == truth).squeeze(1)
    return rows, column[rows]


def softmax_estimate(truth: Tensor, others: Tensor, own: Places) -> Tensor:
    """log of the truth's share in a softmax over itself and the other candidates.

    Exact when the candidates are all there are (Eqs 8–10, 12). `own` are the places of the truth among them.
    """
    share: Tensor = _SoftmaxShare.apply(truth, others, own)  # type: ignore[no-untyped-call]
    return share


class _SoftmaxShare(torch.autograd.Function):
    """log p = truth − log(exp truth + Σ exp others), own places left out.

    Gradient: 1 − p for the truth, −softmax for the others: the table of exponentials is made once and kept.
    """

    @staticmethod
    def forward(ctx: Any, truth: Tensor, others: Tensor, own: Places) -> Tensor:
        top = torch.maximum(others.amax(1), truth)
        weights = (others - top[:, None]).exp_()
        weights[own] = 0.0
        mine = (truth - top).exp()
        total = weights.sum(1) + mine
        ctx.save_for_backward(weights, mine / total, total)
        return truth - top - total.log()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, share, total = ctx.saved_tensors
        gradient = gradients[0]
        return gradient * (1 - share), weights * (-gradient / total)[:, None], None


def negative_estimate(truth: Tensor, others: Tensor, own: Places, negatives: int, floor: float) -> Tensor:
    """log Pr(1|truth) + k · mean over candidates of log Pr(0|candidate), the truth left out (Eqs 13–16)."""
    refused = log_logistic(-others, floor).index_put(own, others.new_zeros(()))
    count = torch.full_like(truth, others.shape[1])
    count[own[0]] -= 1
    return log_logistic(truth, floor) + negatives * refused.sum(1) / count.clamp_min(1)


def log_logistic(logits: Tensor, floor: float) -> Tensor:
    """log Pr(1|·) with Pr(1|·) = σ(logit) + floor, at most 1 (Eqs 17, 18)."""
    return (logits.sigmoid() + floor).clamp_max(1.0).log() if floor else logsigmoid(logits)


def likelihood_loss(found: Estimates, batch: Batch, settings: Settings) -> Tensor:
    """−log credence of each belief, weighted by its confidence where asked (Eq. 4)."""
    loss = -found.log_credence(settings)
    if settings.confidence == "weight":
        loss = loss * batch.confidence.nan_to_num(1.0).to(loss.dtype)
    return loss


def confidence_loss(found: Estimates, batch: Batch, settings: Settings) -> Tensor:
    """½ (log credence − log c)² of each belief; zero for beliefs that came without confidence (Eq. 5)."""
    given = batch.confidence.to(found.head.dtype)
    loss = 0.5 * (found.log_credence(settings) - given.nan_to_num(1.0).log()) ** 2
    return torch.where(given.isnan(), torch.zeros_like(loss), loss)


def objective(pbe: PBE, batch: Batch, candidates: Candidates, settings: Settings) -> Tensor:
    """What the settings make small, one number per belief, (B,)."""
    found = estimates(pbe, batch, candidates, settings)
    loss = (likelihood_loss if settings.objective == "likelihood" else confidence_loss)(found, batch, settings)
    if settings.n3:
        loss = loss + settings.n3 / 3 * pbe.score.cubes(batch.head, batch.relation, batch.tail)
    return loss


def _estimator(settings: Settings, floor: float) -> Callable[[Tensor, Tensor, Places], Tensor]:
    if settings.training_estimator != "negative":
        return softmax_estimate
    return lambda truth, others, own: negative_estimate(truth, others, own, settings.negatives, floor)
