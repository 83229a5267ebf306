"""Objectives: what learning makes small.

The logarithms of Pr(h|r,t), Pr(r|h,t), Pr(t|h,r) and Pr(r|m) are estimated in one of three ways: exactly
(Eqs 8–10, 12), by a softmax over the truth and sampled candidates, or by negative sampling (Eqs 13–18).
The systems before PBE rank instead: in place of each logarithm stands how far falsehoods come within a margin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from doxa.learning.negatives import Candidates, Places, own_places
from doxa.pbe import PBE, Batch
from doxa.scores.comparison import Compared, Comparison, Scores, scaled, table_of
from doxa.scores.score import VectorScore
from doxa.settings import Settings

Estimator = Callable[[Tensor, Scores, Places], Tensor]


@dataclass(frozen=True, eq=False)
class Rows:
    """Vectors of the heads, relations and tails of a batch, (B, d), and of its candidates, (C, d)."""

    head: Tensor
    relation: Tensor
    tail: Tensor
    heads: Tensor
    relations: Tensor
    tails: Tensor

    @property
    def triple(self) -> list[Tensor]:
        return [self.head, self.relation, self.tail]


@dataclass(frozen=True)
class Estimates:
    """Estimated log probabilities of each belief of a batch, (B,) each; `said` is 0 where there is no mention."""

    head: Tensor
    relation: Tensor
    tail: Tensor
    said: Tensor

    def log_credence(self, settings: Settings) -> Tensor:
        """⅓ [log Pr(h|r,t) + log Pr(r|h,t) + log Pr(r|m) + log Pr(t|h,r)], each term with its weight (Eqs 1, 6)."""
        weights = (settings.head_weight, settings.relation_weight, settings.mention_weight, settings.tail_weight)
        terms = (self.head, self.relation, self.said, self.tail)
        return torch.stack([weight / 3 * term for weight, term in zip(weights, terms, strict=True) if weight]).sum(0)


def estimates(
    pbe: PBE, batch: Batch, candidates: Candidates, settings: Settings, rows: Rows | None = None
) -> Estimates:
    """The four terms of each belief by the estimator of the settings; a term without weight is 0 and costs nothing.

    A score that needs vectors alone may be given those of the batch and its candidates.
    """
    about_triples, about_mentions = _estimator(settings, settings.epsilon), _estimator(settings, settings.eta)
    asked = _ById(pbe, batch, candidates) if rows is None else _ByVector(pbe, rows)
    truth = asked.truth()
    head = relation = tail = said = torch.zeros_like(truth)
    if settings.head_weight:
        head = about_triples(truth, asked.heads(), candidates.true_heads or own_places(batch.head, candidates.heads))
    if settings.tail_weight:
        tail = about_triples(truth, asked.tails(), candidates.true_tails or own_places(batch.tail, candidates.tails))
    own = candidates.true_relations or own_places(batch.relation, candidates.relations)
    if settings.relation_weight:
        relation = about_triples(truth, asked.relations(), own)
    if settings.mention_weight and pbe.mention is not None and len(batch.words):
        words = pbe.mention.said(batch.words, batch.offsets)
        true_vectors, vectors = asked.relation_vectors()
        true_said = pbe.mention.each(words, true_vectors)
        said = torch.where(batch.mentioned, about_mentions(true_said, pbe.mention(words, vectors), own), said)
    return Estimates(head, relation, tail, said)


@dataclass(frozen=True, eq=False)
class _ById:
    """Scaled scores of a batch and its candidates, looked up where each is needed."""

    pbe: PBE
    batch: Batch
    candidates: Candidates

    def truth(self) -> Tensor:
        return self.pbe.logits(self.batch.head, self.batch.relation, self.batch.tail)

    def heads(self) -> Scores:
        return self.pbe.head_logits(self.batch.relation, self.batch.tail, self.candidates.heads)

    def relations(self) -> Scores:
        return self.pbe.relation_logits(self.batch.head, self.batch.tail, self.candidates.relations)

    def tails(self) -> Scores:
        return self.pbe.tail_logits(self.batch.head, self.batch.relation, self.candidates.tails)

    def relation_vectors(self) -> tuple[Tensor, Tensor]:
        table = self.pbe.relation_vectors
        return table(self.batch.relation), table(self.candidates.relations)


class _ByVector:
    """The same from vectors at hand, the tables of scores not yet made."""

    def __init__(self, pbe: PBE, rows: Rows) -> None:
        assert isinstance(pbe.score, VectorScore)
        self.score, self.scale, self.given = pbe.score, pbe.scale, rows

    def truth(self) -> Tensor:
        return self.scale * self.score.each(self.given.head, self.given.relation, self.given.tail)

    def heads(self) -> Scores:
        return scaled(self.score.with_heads(self.given.relation, self.given.tail, self.given.heads), self.scale)

    def relations(self) -> Scores:
        return scaled(self.score.with_relations(self.given.head, self.given.tail, self.given.relations), self.scale)

    def tails(self) -> Scores:
        return scaled(self.score.with_tails(self.given.head, self.given.relation, self.given.tails), self.scale)

    def relation_vectors(self) -> tuple[Tensor, Tensor]:
        return self.given.relation, self.given.relations


def softmax_estimate(truth: Tensor, others: Scores, own: Places) -> Tensor:
    """log of the truth's share in a softmax over itself and the other candidates.

    Exact when the candidates are all there are (Eqs 8–10, 12). `own` are the places of the truth among them.
    """
    return _estimated(truth, others, own, _share)


def margin_estimate(truth: Tensor, others: Scores, own: Places, margin: float) -> Tensor:
    """− mean over candidates of [γ + candidate − truth]₊, those that are true left out: margin ranking."""
    return _estimated(truth, others, own, partial(_shortfall, margin=margin))


class _Estimate(NamedTuple):
    """What is estimated of each belief, (B,), and its derivatives by the truth, (B,), and by the others.

    The latter are factor · weights, (B, 1) · (B, C). All estimates here depend on differences of scores alone.
    """

    value: Tensor
    by_truth: Tensor
    weights: Tensor
    factor: Tensor


LARGE = 1e30
"""Sums of exponentials beyond this are made again, relative to the largest."""

_Rule = Callable[[Tensor, Tensor, float, Tensor | float, Places], _Estimate]
"""truth, table, slope, offset, own places: the scores are offset + slope · table, which is left as it is."""


def _share(truth: Tensor, table: Tensor, slope: float, offset: Tensor | float, own: Places) -> _Estimate:
    """log p = −log(1 + Σ exp(other − truth)), own places left out.

    Derivatives: 1 − p by the truth, −softmax by the others.
    """
    weights = torch.add((offset - truth)[:, None], table, alpha=slope).exp_()
    weights[own.rows, own.columns] = 0.0
    total = weights.sum(1).add_(1.0)
    if not total.amax().item() < LARGE:
        return _share_far_below(truth, table, slope, offset, own)
    share = total.reciprocal()
    return _Estimate(share.log(), 1 - share, weights, -share[:, None])


def _share_far_below(truth: Tensor, table: Tensor, slope: float, offset: Tensor | float, own: Places) -> _Estimate:
    """The same where the truth lies so far below others that exponentials of the differences overflow."""
    places = (own.rows, own.columns)
    others = (table * slope + offset).index_put_(places, table.new_tensor(-torch.inf))
    top = torch.maximum(others.amax(1), truth)
    weights = others.sub_(top[:, None]).exp_()
    mine = (truth - top).exp_()
    total = weights.sum(1).add_(mine)
    return _Estimate(truth - top - total.log(), 1 - mine / total, weights, -1 / total[:, None])


def _shortfall(
    truth: Tensor, table: Tensor, slope: float, offset: Tensor | float, own: Places, margin: float
) -> _Estimate:
    """− mean [γ + other − truth]₊; every candidate within the margin pulls alike."""
    short = torch.add((offset + margin - truth)[:, None], table, alpha=slope).clamp_min_(0)
    short[own.rows, own.columns] = 0.0
    share = 1 / _false_ones(table, own)
    value = -short.sum(1) * share
    within = short.sign_()
    return _Estimate(value, within.sum(1) * share, within, -share[:, None])


def _estimated(truth: Tensor, others: Scores, own: Places, rule: _Rule) -> Tensor:
    if isinstance(others, Compared):
        given = (others.points, others.candidates, others.offset, others.slope, others.comparison)
        found: Tensor = _OfCompared.apply(truth, *given, own, rule)  # type: ignore[no-untyped-call]
    else:
        found = _OfTable.apply(truth, others, own, rule)  # type: ignore[no-untyped-call]
    return found


class _OfTable(torch.autograd.Function):
    """An estimate from a table of scores."""

    @staticmethod
    def forward(ctx: Any, truth: Tensor, table: Tensor, own: Places, rule: _Rule) -> Tensor:
        found = rule(truth, table, 1.0, 0.0, own)
        ctx.save_for_backward(found.by_truth, found.weights, found.factor)
        return found.value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        by_truth, weights, factor = ctx.saved_tensors
        return gradients[0] * by_truth, weights * (gradients[0][:, None] * factor), None, None


class _OfCompared(torch.autograd.Function):
    """An estimate from points and candidates: the table of scores becomes that of its derivatives on the way."""

    @staticmethod
    def forward(
        ctx: Any,
        truth: Tensor,
        points: Tensor,
        candidates: Tensor,
        offset: Tensor | float,
        slope: float,
        comparison: Comparison,
        own: Places,
        rule: _Rule,
    ) -> Tensor:
        table = comparison.table(points, candidates)
        found = rule(truth, table, slope, offset, own)
        ctx.comparison, ctx.slope = comparison, slope
        kept = table if comparison.keeps_table else None
        ctx.save_for_backward(points, candidates, found.by_truth, found.weights, found.factor, kept)
        return found.value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        points, candidates, by_truth, weights, factor, table = ctx.saved_tensors
        of_truth = gradients[0] * by_truth
        factors = gradients[0][:, None] * factor * ctx.slope
        of_points, of_candidates = ctx.comparison.pull(weights, factors, points, candidates, table)
        of_offset = -of_truth.sum() if ctx.needs_input_grad[3] else None
        return of_truth, of_points, of_candidates, of_offset, None, None, None, None


def negative_estimate(truth: Tensor, others: Scores, own: Places, negatives: int, floor: float) -> Tensor:
    """log Pr(1|truth) + k · mean over candidates of log Pr(0|candidate), the truth left out (Eqs 13–16)."""
    others = table_of(others)
    refused = log_logistic(-others, floor).index_put((own.rows, own.columns), others.new_zeros(()))
    return log_logistic(truth, floor) + negatives * refused.sum(1) / _false_ones(others, own)


def log_logistic(logits: Tensor, floor: float) -> Tensor:
    """log Pr(1|·) with Pr(1|·) = σ(logit) + floor, at most 1 (Eqs 17, 18)."""
    return (logits.sigmoid() + floor).clamp_max(1.0).log() if floor else logsigmoid(logits)


def likelihood_loss(found: Estimates, batch: Batch, settings: Settings) -> Tensor:
    """−log credence of each belief, weighted by its confidence where asked (Eq. 4)."""
    loss = -found.log_credence(settings)
    if settings.confidence == "weight" and not batch.certain:
        loss = loss * batch.confidence.nan_to_num(1.0).to(loss.dtype)
    return loss


def confidence_loss(found: Estimates, batch: Batch, settings: Settings) -> Tensor:
    """½ (log credence − log c)² of each belief; zero for beliefs that came without confidence (Eq. 5)."""
    given = batch.confidence.to(found.head.dtype)
    loss = 0.5 * (found.log_credence(settings) - given.nan_to_num(1.0).log()) ** 2
    return torch.where(given.isnan(), torch.zeros_like(loss), loss)


def _false_ones(others: Tensor, own: Places) -> Tensor:
    """How many candidates of each belief are false, (B,), 1 at least."""
    true = torch.bincount(own.rows, minlength=len(others))
    return (others.shape[1] - true).clamp_min(1).to(others.dtype)


def objective(
    pbe: PBE,
    batch: Batch,
    candidates: Candidates,
    settings: Settings,
    head_share: Tensor | None = None,
    rows: Rows | None = None,
) -> Tensor:
    """What the settings make small, one number per belief, (B,).

    `head_share` is how often each belief has its head rather than its tail corrupted, ½ when left out; `rows` are the
    vectors of the batch and its candidates, if at hand.
    """
    found = estimates(pbe, batch, candidates, settings, rows)
    if head_share is not None:
        found = replace(found, head=2 * head_share * found.head, tail=2 * (1 - head_share) * found.tail)
    loss = (confidence_loss if settings.objective == "confidence" else likelihood_loss)(found, batch, settings)
    if settings.n3 or settings.l2:
        used = pbe.score.rows(batch.head, batch.relation, batch.tail) if rows is None else rows.triple
        loss = loss + settings.n3 / 3 * pbe.score.cubes(used) if settings.n3 else loss
        loss = loss + settings.l2 * pbe.score.squares(used) if settings.l2 else loss
    if settings.orthogonality:
        loss = loss + settings.orthogonality * pbe.score.slant(batch.relation)
    return loss


def _estimator(settings: Settings, floor: float) -> Estimator:
    if settings.training_estimator == "margin":
        return lambda truth, others, own: margin_estimate(truth, others, own, settings.margin)
    if settings.training_estimator == "negative":
        return lambda truth, others, own: negative_estimate(truth, others, own, settings.negatives, floor)
    return softmax_estimate
