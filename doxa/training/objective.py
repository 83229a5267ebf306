"""Objectives: what learning makes small.

The logarithms of Pr(h|r,t), Pr(r|h,t), Pr(t|h,r) and Pr(r|m) are estimated in one of three ways: exactly
(Eqs 8–10, 12), by a softmax over the truth and sampled candidates, or by negative sampling (Eqs 13–18).
The systems before PBE rank instead: in place of each logarithm stands how far falsehoods come within a margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.pbe import PBE
from doxa.scores.base import VectorScore
from doxa.scores.pairwise import Compared, Comparison, Places, Scores, scaled, table_of
from doxa.training.candidates import Candidates
from doxa.training.weights import TermWeights


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


class _Term(NamedTuple):
    """One logarithm of Eq. 1 for a batch: its weight, the truth's score, the others', and where these are true too.

    `floor` is ε or η of its logistic (Eqs 17, 18).
    """

    name: str
    weight: float
    truth: Tensor
    others: Scores
    own: Places
    floor: float


def _terms(pbe: PBE, batch: Batch, candidates: Candidates, settings: Settings, rows: Rows | None) -> Iterator[_Term]:
    """Those with a weight, one after the other."""
    asked = _ById(pbe, batch, candidates) if rows is None else _ByVector(pbe, rows)
    own, truth, floor = candidates.own_places(batch), asked.truth(), settings.epsilon
    if settings.head_weight:
        yield _Term("head", settings.head_weight, truth, asked.heads(), own.heads, floor)
    if settings.tail_weight:
        yield _Term("tail", settings.tail_weight, truth, asked.tails(), own.tails, floor)
    if settings.relation_weight:
        yield _Term("relation", settings.relation_weight, truth, asked.relations(), own.relations, floor)
    if settings.mention_weight and pbe.mention is not None and len(batch.words):
        words = pbe.mention.said(batch.words, batch.offsets)
        true_vectors, vectors = asked.relation_vectors()
        true_said = pbe.mention.each(words, true_vectors)
        yield _Term(
            "said", settings.mention_weight, true_said, pbe.mention(words, vectors), own.relations, settings.eta
        )


def estimates(
    pbe: PBE, batch: Batch, candidates: Candidates, settings: Settings, rows: Rows | None = None
) -> Estimates:
    """The four terms of each belief by the estimator of the settings; a term without weight is 0 and costs nothing.

    A score that needs vectors alone may be given those of the batch and its candidates.
    """
    none = pbe.score.entity.weight.new_zeros(len(batch))
    found = {"head": none, "relation": none, "tail": none, "said": none}
    for term in _terms(pbe, batch, candidates, settings, rows):
        found[term.name] = _estimate(term, batch, settings)
    found["said"] = torch.where(batch.mentioned, found["said"], none)
    return Estimates(**found)


def _estimate(term: _Term, batch: Batch, settings: Settings) -> Tensor:
    if settings.training_estimator == "margin":
        return margin_estimate(term.truth, table_of(term.others), term.own, settings.margin)
    if settings.training_estimator == "negative":
        true = _given(batch, term.truth) if settings.confidence == "label" else None
        return negative_estimate(term.truth, table_of(term.others), term.own, settings.negatives, term.floor, true)
    return softmax_estimate(term.truth, table_of(term.others), term.own)


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
        self._tails = scaled(self.score.with_tails(rows.head, rows.relation, rows.tails), self.scale)

    def truth(self) -> Tensor:
        if isinstance(self._tails, Compared):
            return self._tails.beside(self.given.tail)
        return self.scale * self.score.each(self.given.head, self.given.relation, self.given.tail)

    def heads(self) -> Scores:
        return scaled(self.score.with_heads(self.given.relation, self.given.tail, self.given.heads), self.scale)

    def relations(self) -> Scores:
        return scaled(self.score.with_relations(self.given.head, self.given.tail, self.given.relations), self.scale)

    def tails(self) -> Scores:
        return self._tails

    def relation_vectors(self) -> tuple[Tensor, Tensor]:
        return self.given.relation, self.given.relations


def softmax_estimate(truth: Tensor, others: Tensor, own: Places) -> Tensor:
    """log of the truth's share in a softmax over itself and the other candidates.

    Exact when the candidates are all there are (Eqs 8–10, 12). `own` are the places of the truth among them.
    """
    found: Tensor = _OfTable.apply(truth, others, own, _share)  # type: ignore[no-untyped-call]
    return found


def margin_estimate(truth: Tensor, others: Tensor, own: Places, margin: float) -> Tensor:
    """− mean over candidates of [γ + candidate − truth]₊, those that are true left out: margin ranking."""
    found: Tensor = _OfTable.apply(truth, others, own, partial(_shortfall, margin=margin))  # type: ignore[no-untyped-call]
    return found


class _Estimate(NamedTuple):
    """What is estimated of each belief, (B,), and its derivatives by the truth, (B,), and by the others.

    The latter are factor · weights, (B, 1) · (B, C). All estimates here depend on differences of scores alone.
    """

    value: Tensor
    by_truth: Tensor
    weights: Tensor
    factor: Tensor


_Rule = Callable[[Tensor, Tensor, Places], _Estimate]
"""truth, others, own places → estimate; the others are overwritten."""


def _share(truth: Tensor, others: Tensor, own: Places) -> _Estimate:
    """log p = log exp(truth) / (exp(truth) + Σ exp(other)), own places left out.

    Derivatives: 1 − p by the truth, −softmax by the others. All relative to the largest score: nothing overflows.
    """
    others[own.rows, own.columns] = -torch.inf
    top = torch.maximum(others.amax(1), truth) if others.shape[1] else truth
    weights = others.sub_(top[:, None]).exp_()
    mine = (truth - top).exp_()
    total = weights.sum(1).add_(mine)
    return _Estimate(truth - top - total.log(), 1 - mine / total, weights, -1 / total[:, None])


def _shortfall(truth: Tensor, others: Tensor, own: Places, margin: float) -> _Estimate:
    """− mean [γ + other − truth]₊; every candidate within the margin pulls alike."""
    short = others.add_((margin - truth)[:, None]).clamp_min_(0)
    short[own.rows, own.columns] = 0.0
    share = 1 / _false_ones(others, own)
    value = -short.sum(1) * share
    within = short.sign_()
    return _Estimate(value, within.sum(1) * share, within, -share[:, None])


class _OfTable(torch.autograd.Function):
    """An estimate from a table of scores."""

    @staticmethod
    def forward(ctx: Any, truth: Tensor, table: Tensor, own: Places, rule: _Rule) -> Tensor:
        found = rule(truth, table.clone(), own)
        ctx.save_for_backward(found.by_truth, found.weights, found.factor)
        return found.value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        by_truth, weights, factor = ctx.saved_tensors
        return gradients[0] * by_truth, weights * (gradients[0][:, None] * factor), None, None


def _weighted_sum(term: _Term, rule: _Rule, weights: Tensor) -> Tensor:
    """Σ weight · estimate over the beliefs of a batch; its gradient is made while the table of scores is at hand."""
    if isinstance(term.others, Tensor):
        each: Tensor = _OfTable.apply(term.truth, term.others, term.own, rule)  # type: ignore[no-untyped-call]
        return (weights * each).sum()
    points, candidates, offset = term.others.points, term.others.candidates, term.others.offset
    others = (points, candidates, offset, term.others.slope, term.others.comparison)
    found: Tensor = _WeightedSum.apply(term.truth, *others, term.own, rule, weights)  # type: ignore[no-untyped-call]
    return found


class _WeightedSum(torch.autograd.Function):
    """The table of scores becomes that of its derivatives and is let go; what is kept has the size of the batch."""

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
        weights: Tensor,
    ) -> Tensor:
        others = Compared(points, candidates, comparison, slope, offset)
        found = (_share_compared(truth, others, own) if rule is _share else None) or _compared(truth, others, own, rule)
        pulled = comparison.pull(found.weights, found.factor * (weights * slope)[:, None], points, candidates)
        ctx.save_for_backward(found.by_truth * weights, *pulled)
        return found.value.dot(weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_truth, of_points, of_candidates = ctx.saved_tensors
        factor = gradients[0].item()
        if factor != 1:
            of_truth, of_points, of_candidates = of_truth * factor, of_points * factor, of_candidates * factor
        of_offset = -of_truth.sum() if ctx.needs_input_grad[3] else None
        return of_truth, of_points, of_candidates, of_offset, *[None] * 5


def _compared(truth: Tensor, others: Compared, own: Places, rule: _Rule) -> _Estimate:
    """An estimate whose weights are as `pull` takes them."""
    table = others.comparison.table(others.points, others.candidates)
    found = rule(truth, torch.add(torch.as_tensor(others.offset), table, alpha=others.slope), own)
    return found._replace(weights=others.comparison.weights(found.weights, table))


LARGE = 1e30
"""Sums of exponentials beyond this are made again, relative to the largest."""


def _share_compared(truth: Tensor, others: Compared, own: Places) -> _Estimate | None:
    """The same by `_share`, relative to the truth, in one pass over the table: log p = −log(1 + Σ exp(other − truth)).

    None where the truth lies so far below others that exponentials overflow.
    """
    levels = others.offset - truth
    weights, total = others.comparison.shares(others.points, others.candidates, levels, others.slope, own)
    share = total.add_(1.0).reciprocal_()
    if not share.amin().item() > 1 / LARGE:
        return None
    return _Estimate(share.log(), 1 - share, weights, -share[:, None])


def negative_estimate(
    truth: Tensor, others: Tensor, own: Places, negatives: int, floor: float, true: Tensor | None = None
) -> Tensor:
    """log Pr(1|truth) + k · mean over candidates of log Pr(0|candidate), the truth left out (Eqs 13–16).

    Beliefs that are not wholly `true`, (B,), have (1 − true) · log Pr(0|truth) beside true · log Pr(1|truth).
    """
    held = log_logistic(truth, floor)
    if true is not None:
        held = true * held + (1 - true) * log_logistic(-truth, floor)
    refused = log_logistic(-others, floor).index_put((own.rows, own.columns), others.new_zeros(()))
    return held + negatives * refused.sum(1) / _false_ones(others, own)


def log_logistic(logits: Tensor, floor: float) -> Tensor:
    """log Pr(1|·) with Pr(1|·) = σ(logit) + floor, at most 1 (Eqs 17, 18)."""
    return (logits.sigmoid() + floor).clamp_max(1.0).log() if floor else logsigmoid(logits)


def likelihood_loss(found: Estimates, batch: Batch, settings: Settings) -> Tensor:
    """−log credence of each belief, weighted by its confidence where asked (Eq. 4)."""
    return -_importance(batch, settings, found.head) * found.log_credence(settings)


def _importance(batch: Batch, settings: Settings, like: Tensor) -> Tensor:
    """How much each belief counts in the likelihood, (B,): its confidence where asked and given, else 1."""
    return _given(batch, like) if settings.confidence == "weight" else like.new_ones(len(batch))


def _given(batch: Batch, like: Tensor) -> Tensor:
    """The confidence of each belief, (B,); 1 where none was given."""
    return batch.confidence.nan_to_num(1.0).to(like.dtype)


def confidence_loss(found: Estimates, batch: Batch, settings: Settings) -> Tensor:
    """½ (log credence − log c)² of each belief; zero for beliefs that came without confidence (Eq. 5).

    A confidence of 0 counts as the floor ε of the estimates.
    """
    given = batch.confidence.to(found.head.dtype)
    asked = given.nan_to_num(1.0).clamp_min(max(settings.epsilon, 1e-6)).log()
    loss = 0.5 * (found.log_credence(settings) - asked) ** 2
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
    term_weights: TermWeights | None = None,
    rows: Rows | None = None,
) -> Tensor:
    """What the settings make small, one number per belief, (B,).

    `rows` are the vectors of the batch and its candidates, if at hand.
    """
    found = estimates(pbe, batch, candidates, settings, rows)
    if term_weights is not None:
        found = replace(found, head=term_weights.head * found.head, tail=term_weights.tail * found.tail)
    loss = (confidence_loss if settings.objective == "confidence" else likelihood_loss)(found, batch, settings)
    return sum(_penalties(pbe, batch, settings, rows), loss)


def total(
    pbe: PBE,
    batch: Batch,
    candidates: Candidates,
    settings: Settings,
    term_weights: TermWeights | None = None,
    rows: Rows | None = None,
) -> Tensor:
    """The sum of `objective` over a batch: a shorter way to it where each belief's part is a sum of weighted terms."""
    if settings.objective == "confidence" or settings.training_estimator == "negative":
        return objective(pbe, batch, candidates, settings, term_weights, rows).sum()
    margin = settings.training_estimator == "margin"
    rule = partial(_shortfall, margin=settings.margin) if margin else _share
    importance = _importance(batch, settings, pbe.score.entity.weight)
    more = {} if term_weights is None else term_weights._asdict()
    more["said"] = batch.mentioned
    parts = []
    for term in _terms(pbe, batch, candidates, settings, rows):
        weights = importance * (-term.weight / 3)
        parts.append(_weighted_sum(term, rule, weights * more[term.name] if term.name in more else weights))
    parts += [penalty.sum() for penalty in _penalties(pbe, batch, settings, rows)]
    return sum(parts, importance.new_zeros(()))


def _penalties(pbe: PBE, batch: Batch, settings: Settings, rows: Rows | None) -> Iterator[Tensor]:
    """What is added to each belief's loss, (B,) each."""
    if settings.n3 or settings.l2:
        used = pbe.score.rows(batch.head, batch.relation, batch.tail) if rows is None else rows.triple
        if settings.n3:
            yield settings.n3 / 3 * pbe.score.cubes(used)
        if settings.l2:
            yield settings.l2 * pbe.score.squares(used)
    if settings.orthogonality:
        yield settings.orthogonality * pbe.score.slant(batch.relation)
