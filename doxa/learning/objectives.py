"""Objectives: what learning makes small.

The logarithms of Pr(h|r,t), Pr(r|h,t), Pr(t|h,r) and Pr(r|m) are estimated in one of three ways: exactly
(Eqs 8–10, 12), by a softmax over the truth and sampled candidates, or by negative sampling (Eqs 13–18).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from doxa.learning.negatives import Candidates
from doxa.pbe import PBE, Batch
from doxa.settings import Settings

MASKED = -1e9
"""Logit of a candidate that is the truth itself: no probability and no gradient."""


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
    own_relation = batch.relation[:, None] == candidates.relations
    said = torch.zeros_like(truth)
    if pbe.mention is not None and len(batch.words):
        vectors = pbe.score.relation(batch.relation)
        true_said = pbe.mention.truth(batch.words, batch.offsets, vectors)
        others = pbe.mention_logits(batch.words, batch.offsets, candidates.relations)
        said = torch.where(batch.mentioned, about_mentions(true_said, others, own_relation), said)
    return Estimates(
        head=about_triples(truth, heads, batch.head[:, None] == candidates.heads),
        relation=about_triples(truth, relations, own_relation),
        tail=about_triples(truth, tails, batch.tail[:, None] == candidates.tails),
        said=said,
    )


def softmax_estimate(truth: Tensor, others: Tensor, own: Tensor) -> Tensor:
    """log of the truth's share in a softmax over itself and the other candidates.

    Exact when the candidates are all there are (Eqs 8–10, 12). `own` marks candidates that are the truth.
    """
    rest = others.masked_fill(own, MASKED).logsumexp(1)
    return truth - torch.logaddexp(truth, rest)


def negative_estimate(truth: Tensor, others: Tensor, own: Tensor, negatives: int, floor: float) -> Tensor:
    """log Pr(1|truth) + k · mean over candidates of log Pr(0|candidate), the truth left out (Eqs 13–16)."""
    refused = log_logistic(-others, floor).masked_fill(own, 0.0)
    count = (~own).sum(1).clamp_min(1)
    return log_logistic(truth, floor) + negatives * refused.sum(1) / count


def log_logistic(logits: Tensor, floor: float) -> Tensor:
    """log Pr(1|·) with Pr(1|·) = σ(logit) + floor, at most 1 (Eqs 17, 18)."""
    return (logits.sigmoid() + floor).clamp_max(1.0).log()


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
    loss = likelihood_loss if settings.objective == "likelihood" else confidence_loss
    return loss(found, batch, settings)


def _estimator(settings: Settings, floor: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    if settings.training_estimator != "negative":
        return softmax_estimate
    return lambda truth, others, own: negative_estimate(truth, others, own, settings.negatives, floor)
