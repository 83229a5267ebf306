"""The objective of training: Eqs 4 and 5, the weights of terms and beliefs, and regularization.

    likelihood   − Σ log credence                                    (Eq. 4)
    confidence   ½ Σ (log credence − log c)²                         (Eq. 5)

The systems before PBE minimize a hinge loss, which the estimators put in place of a log probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.estimators import (
    Candidates,
    Term,
    Vectors,
    WeightedSum,
    belief_confidence,
    estimator,
    terms,
    weighted_terms,
)
from doxa.pbe import PBE
from doxa.scores.base import VectorScore
from doxa.slots import Slot
from doxa.training.gradients import GradientSums

TermWeights = Mapping[str, Tensor]
"""By the name of a term, a factor for each belief of a batch, (B,)."""


def batch_loss(
    pbe: PBE,
    batch: Batch,
    candidates: Candidates,
    settings: Settings,
    term_weights: TermWeights | None = None,
    vectors: Vectors | None = None,
) -> Tensor:
    """The loss of a batch, summed over its beliefs. `vectors` are those of the batch and its candidates, if at hand."""
    parts = terms(pbe, batch, candidates, settings, vectors)
    if settings.objective == "confidence":
        loss = confidence_loss(weighted_terms(parts, batch, settings, pbe.score.entity.weight), batch, settings).sum()
    else:
        loss = likelihood_loss(parts, batch, settings, belief_weights(pbe, batch, settings), term_weights or {})
    return sum((penalty.sum() for penalty in penalties(pbe, batch, settings, vectors)), loss)


def loss_by_hand(
    pbe: PBE,
    batch: Batch,
    candidates: Candidates,
    settings: Settings,
    term_weights: TermWeights | None,
    vectors: Vectors,
    gradients: Vectors,
) -> float:
    """The likelihood loss of a batch (Eq. 4) by softmax, without mentions; writes its gradients by `vectors`.

    As `likelihood_loss` and `penalties`, with fewer and larger operations and without autograd.
    """
    assert isinstance(pbe.score, VectorScore)
    sums = GradientSums(pbe.score, pbe.scale, vectors, gradients)
    true, weights, loss = candidates.true_places(batch), belief_weights(pbe, batch, settings).numpy(), 0.0
    for slot, weight in zip(Slot, (settings.head_weight, settings.relation_weight, settings.tail_weight), strict=True):
        if weight:
            by_belief = weights * weights.dtype.type(weight / 3)
            if term_weights is not None and str(slot) in term_weights:
                by_belief *= term_weights[str(slot)].numpy()
            loss += sums.add(slot, by_belief, true[slot], candidates.log_share[slot])
        else:
            gradients.candidates(slot).zero_()
    return loss + sums.finish(settings)


def likelihood_loss(
    parts: Iterator[Term],
    batch: Batch,
    settings: Settings,
    weights: Tensor,
    term_weights: TermWeights,
) -> Tensor:
    """− Σ weight · log credence over a batch (Eq. 4); log credence is the weighted sum of its terms (Eq. 1)."""
    loss = weights.new_zeros(())
    factors = {**term_weights, "mention": batch.mentioned}
    for term in parts:
        by_belief = weights * -term.weight
        if term.name in factors:
            by_belief = by_belief * factors[term.name]
        rule = estimator(settings, term, batch)
        loss = loss + WeightedSum.apply(*term.inputs, rule, by_belief)  # type: ignore[no-untyped-call]
    return loss


def confidence_loss(log_credence: Tensor, batch: Batch, settings: Settings) -> Tensor:
    """½ (log credence − log c)² of each belief, (B,); zero for beliefs that came without confidence (Eq. 5).

    A confidence of 0 counts as the floor ε of the estimates.
    """
    confidence = batch.confidence.to(log_credence.dtype)
    target = confidence.nan_to_num(1.0).clamp_min(max(settings.epsilon, 1e-6)).log()
    loss = 0.5 * (log_credence - target) ** 2
    return torch.where(confidence.isnan(), torch.zeros_like(loss), loss)


def belief_weights(pbe: PBE, batch: Batch, settings: Settings) -> Tensor:
    """The weight of each belief in the likelihood, (B,): its confidence where the settings ask for it, else 1."""
    like = pbe.score.entity.weight
    return belief_confidence(batch, like) if settings.confidence == "weight" else like.new_ones(len(batch))


def penalties(pbe: PBE, batch: Batch, settings: Settings, vectors: Vectors | None) -> Iterator[Tensor]:
    """Regularization of each belief's parameters, (B,) each."""
    if settings.n3 or settings.l2:
        used = pbe.score.rows(batch.head, batch.relation, batch.tail) if vectors is None else vectors.triple
        if settings.n3:
            yield settings.n3 / 3 * pbe.score.cubes(used)
        if settings.l2:
            yield settings.l2 * pbe.score.squares(used)
    penalty = pbe.score.penalty(batch.relation)
    if penalty is not None:
        yield penalty
