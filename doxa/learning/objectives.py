"""Objectives: what learning makes small.

The logarithms of Pr(h|r,t), Pr(r|h,t), Pr(t|h,r) and Pr(r|m) are estimated in one of three ways: exactly
(Eqs 8–10, 12), by a softmax over the truth and sampled candidates, or by negative sampling (Eqs 13–18).
The systems before PBE rank instead: in place of each logarithm stands how far falsehoods come within a margin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from doxa.learning.negatives import Candidates, Places, own_places
from doxa.pbe import PBE, Batch
from doxa.settings import Settings

Estimator = Callable[[Tensor, Tensor, Places], Tensor]


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
    """The four terms of each belief by the estimator of the settings; a term without weight is 0 and costs nothing."""
    about_triples, about_mentions = _estimator(settings, settings.epsilon), _estimator(settings, settings.eta)
    truth = pbe.logits(batch.head, batch.relation, batch.tail)
    head = relation = tail = said = torch.zeros_like(truth)
    if settings.head_weight:
        others = pbe.head_logits(batch.relation, batch.tail, candidates.heads)
        own = candidates.true_heads or own_places(batch.head, candidates.heads)
        head = about_triples(truth, others, own)
    if settings.tail_weight:
        others = pbe.tail_logits(batch.head, batch.relation, candidates.tails)
        own = candidates.true_tails or own_places(batch.tail, candidates.tails)
        tail = about_triples(truth, others, own)
    own = candidates.true_relations or own_places(batch.relation, candidates.relations)
    if settings.relation_weight:
        others = pbe.relation_logits(batch.head, batch.tail, candidates.relations)
        relation = about_triples(truth, others, own)
    if settings.mention_weight and pbe.mention is not None and len(batch.words):
        vectors = pbe.mention.said(batch.words, batch.offsets)
        true_said = pbe.mention.each(vectors, pbe.relation_vectors(batch.relation))
        others = pbe.mention(vectors, pbe.relation_vectors(candidates.relations))
        said = torch.where(batch.mentioned, about_mentions(true_said, others, own), said)
    return Estimates(head, relation, tail, said)


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
        places = (own.rows, own.columns)
        if (
            others[places] > truth[own.rows] + 1
        ).any():  # known answers other than the truth: keep them off the maximum
            others = others.index_put(places, others.new_tensor(-torch.inf))
        top = torch.maximum(others.amax(1), truth)
        weights = (others - top[:, None]).exp_()
        weights[places] = 0.0
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
    refused = log_logistic(-others, floor).index_put((own.rows, own.columns), others.new_zeros(()))
    return log_logistic(truth, floor) + negatives * refused.sum(1) / _false_ones(others, own)


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


def margin_estimate(truth: Tensor, others: Tensor, own: Places, margin: float) -> Tensor:
    """− mean over candidates of [γ + candidate − truth]₊, those that are true left out: margin ranking."""
    shortfall: Tensor = _Shortfall.apply(truth, others, own, margin)  # type: ignore[no-untyped-call]
    return -shortfall


class _Shortfall(torch.autograd.Function):
    """mean [γ + other − truth]₊; every candidate within the margin pulls alike."""

    @staticmethod
    def forward(ctx: Any, truth: Tensor, others: Tensor, own: Places, margin: float) -> Tensor:
        within = (others - (truth - margin)[:, None]).clamp_min_(0)
        within[own.rows, own.columns] = 0.0
        count = _false_ones(within, own)
        ctx.save_for_backward(within > 0, count)
        return within.sum(1) / count

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        within, count = ctx.saved_tensors
        each = within * (gradients[0] / count)[:, None]
        return -each.sum(1), each, None, None


def _false_ones(others: Tensor, own: Places) -> Tensor:
    """How many candidates of each belief are false, (B,), 1 at least."""
    true = torch.bincount(own.rows, minlength=len(others))
    return (others.shape[1] - true).clamp_min(1).to(others.dtype)


def objective(
    pbe: PBE, batch: Batch, candidates: Candidates, settings: Settings, head_share: Tensor | None = None
) -> Tensor:
    """What the settings make small, one number per belief, (B,).

    `head_share` is how often each belief has its head rather than its tail corrupted, ½ when left out.
    """
    found = estimates(pbe, batch, candidates, settings)
    if head_share is not None:
        found = replace(found, head=2 * head_share * found.head, tail=2 * (1 - head_share) * found.tail)
    loss = (confidence_loss if settings.objective == "confidence" else likelihood_loss)(found, batch, settings)
    triple = (batch.head, batch.relation, batch.tail)
    if settings.n3:
        loss = loss + settings.n3 / 3 * pbe.score.cubes(*triple)
    if settings.l2:
        loss = loss + settings.l2 * pbe.score.squares(*triple)
    if settings.orthogonality:
        loss = loss + settings.orthogonality * pbe.score.slant(batch.relation)
    return loss


def _estimator(settings: Settings, floor: float) -> Estimator:
    if settings.training_estimator == "margin":
        return lambda truth, others, own: margin_estimate(truth, others, own, settings.margin)
    if settings.training_estimator == "negative":
        return lambda truth, others, own: negative_estimate(truth, others, own, settings.negatives, floor)
    return softmax_estimate
