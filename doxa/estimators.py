"""Estimators of the log probabilities that training maximizes: value and derivative together.

    exact, sampled   softmax over the truth and all (sampled) candidates          (Eqs 8–10, 12)
    negative         negative sampling                                            (Eqs 13–18)
    margin           − mean hinge loss: in place of a log probability, for the systems before PBE

A term is one log probability of Eq. 1 for a batch. An estimator maps the truth's score and the candidates' scores to a
value per belief and its derivatives by both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.triples import Pairs, TripleIndex
from doxa.pbe import PBE
from doxa.scores import Mention
from doxa.scores.base import VectorScore
from doxa.scores.pairwise import Distances, PairScores, Places, Products, Scores, scaled, shifted, table_of
from doxa.slots import Slot

LARGE = 1e30
"""Sums of exponentials beyond this are computed again, relative to the largest."""


class Estimate(NamedTuple):
    """Value per belief, (B,), and its derivatives by the truth's score, (B,), and by the candidates' scores.

    The latter are factor · weights, (B, 1) · (B, C).
    """

    value: Tensor
    by_truth: Tensor
    weights: Tensor
    factor: Tensor


Estimator = Callable[[Tensor, Tensor, Places], Estimate]
"""truth (B,), candidates' scores (B, C), places of true candidates → estimate; the scores are overwritten."""


def softmax(truth: Tensor, scores: Tensor, true: Places) -> Estimate:
    """log p = log exp(truth) / (exp(truth) + Σ exp(score)), true candidates left out.

    Exact when the candidates are all there are (Eqs 8–10, 12). Derivatives: 1 − p by the truth, −softmax by the scores.
    Everything is relative to the largest score, so nothing overflows.
    """
    scores[true.rows, true.columns] = -torch.inf
    top = torch.maximum(scores.amax(1), truth) if scores.shape[1] else truth
    weights = scores.sub_(top[:, None]).exp_()
    share = (truth - top).exp_()
    total = weights.sum(1).add_(share)
    return Estimate(truth - top - total.log(), 1 - share / total, weights, -1 / total[:, None])


def fused_softmax(truth: Tensor, scores: PairScores, true: Places) -> Estimate | None:
    """`softmax` relative to the truth, in one pass over the table: log p = −log(1 + Σ exp(score − truth)).

    None where the truth lies so far below other scores that exponentials overflow.
    """
    kernel, arrays, weights, totals = scores.exponentials(scores.offset - truth, true)
    kernel(*arrays)
    share = totals.add_(1.0).reciprocal_()
    if not share.amin().item() > 1 / LARGE:
        return None
    return Estimate(share.log(), 1 - share, weights, -share[:, None])


def margin_ranking(truth: Tensor, scores: Tensor, true: Places, margin: float) -> Estimate:
    """− mean [γ + score − truth]₊ over false candidates. Every candidate within the margin has the same derivative."""
    short = scores.add_((margin - truth)[:, None]).clamp_min_(0)
    short[true.rows, true.columns] = 0.0
    share = 1 / _count_false(scores, true)
    value = -short.sum(1) * share
    within = short.sign_()
    return Estimate(value, within.sum(1) * share, within, -share[:, None])


def negative_sampling(
    truth: Tensor, scores: Tensor, true: Places, weight: int, floor: float, label: Tensor | None = None
) -> Estimate:
    """log Pr(1|truth) + k · mean log Pr(0|candidate) over false candidates (Eqs 13–16).

    A belief with a soft `label` c, (B,), has c · log Pr(1|truth) + (1 − c) · log Pr(0|truth) as its first part.
    """
    value, by_truth = log_logistic(truth, floor)
    if label is not None:
        refused, by_refused = log_logistic(-truth, floor)
        value, by_truth = label * value + (1 - label) * refused, label * by_truth - (1 - label) * by_refused
    values, slopes = log_logistic(-scores, floor)
    values[true.rows, true.columns] = 0.0
    slopes[true.rows, true.columns] = 0.0
    share = weight / _count_false(scores, true)
    return Estimate(value + values.sum(1) * share, by_truth, slopes, -share[:, None])


def log_logistic(logits: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """log Pr(1|·) with Pr(1|·) = σ(logit) + floor, at most 1 (Eqs 17, 18), and its derivative by the logit.

    d log(σ + floor) = σ (1 − σ) / (σ + floor), 0 where the probability is cut to 1.
    """
    sigmoid = logits.sigmoid()
    if not floor:
        return torch.nn.functional.logsigmoid(logits), 1 - sigmoid
    probability = (sigmoid + floor).clamp_max_(1.0)
    slope = (sigmoid * (1 - sigmoid)).div_(probability)
    return probability.log(), slope.masked_fill_(probability == 1.0, 0.0)


def _count_false(scores: Tensor, true: Places) -> Tensor:
    """How many candidates of each belief are false, (B,), at least 1."""
    count = torch.bincount(true.rows, minlength=len(scores))
    return (scores.shape[1] - count).clamp_min(1).to(scores.dtype)


@dataclass(frozen=True)
class Candidates:
    """Ids that the beliefs of a batch are compared with in each slot.

    Shared by all beliefs, (C,), sorted and distinct; or drawn for each belief, (B, k), in any order.

    `true` are the places that must not count as false, by slot; None stands for each belief's own truth alone.
    `log_share` is by slot the logarithm of how many of the pool each candidate stands for: with N of n drawn, n / N.
    """

    heads: Tensor
    relations: Tensor
    tails: Tensor
    true: dict[Slot, Places] | None = None
    log_share: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @classmethod
    def every(cls, pbe: PBE) -> Candidates:
        """All of E_h, R and E_t, for exact probabilities."""
        return cls(pbe.seen[Slot.HEAD], pbe.seen[Slot.RELATION], pbe.seen[Slot.TAIL])

    @property
    def shared(self) -> bool:
        """Whether all beliefs of the batch have the same candidates."""
        return self.heads.ndim == 1

    def of(self, slot: Slot) -> Tensor:
        return (self.heads, self.relations, self.tails)[slot]

    def true_places(self, batch: Batch) -> dict[Slot, Places]:
        """Where candidates must not count as false for the beliefs of a batch."""
        if self.true is not None:
            return self.true
        return {slot: _find_truth(batch.column(slot), self.of(slot)) for slot in Slot}

    def without_known(self, batch: Batch, known: TripleIndex) -> Candidates:
        """The same candidates, of which none that completes a known fact counts as false."""
        if not self.shared:
            return replace(self, true={slot: _find_known(batch, slot, self.of(slot), known) for slot in Slot})
        columns = (batch.head.numpy(), batch.relation.numpy(), batch.tail.numpy())
        return replace(self, true={slot: _find_pairs(known.answers(slot, *columns), self.of(slot)) for slot in Slot})


def find(ids: Tensor, candidates: Tensor) -> Places:
    """The place of each id among the candidates, which are sorted and distinct, where it is there."""
    from doxa.scores import kernels  # slow to load, and for training alone

    rows, columns = kernels.find(ids.numpy(), candidates.numpy())
    return Places(torch.from_numpy(rows), torch.from_numpy(columns))


def _find_truth(ids: Tensor, candidates: Tensor) -> Places:
    """The places of each belief's truth among its candidates."""
    return find(ids, candidates) if candidates.ndim == 1 else Places(*(candidates == ids[:, None]).nonzero().T)


def _find_known(batch: Batch, slot: Slot, candidates: Tensor, known: TripleIndex) -> Places:
    """Where candidates (B, k), drawn for each belief, complete a known fact."""
    columns = [column[:, None].expand_as(candidates).reshape(-1).numpy() for column in map(batch.column, Slot)]
    columns[slot] = candidates.reshape(-1).numpy()
    return Places(*torch.from_numpy(known.contains(*columns)).view(candidates.shape).nonzero().T)


def _find_pairs(known: Pairs, candidates: Tensor) -> Places:
    query, answer = (torch.from_numpy(part) for part in known)
    places = find(answer, candidates)
    return Places(query[places.rows], places.columns)


class Vectors(NamedTuple):
    """Vectors of the heads, relations and tails of a batch, (B, d), and of its candidates, (C, d) or (B, k, d)."""

    head: Tensor
    relation: Tensor
    tail: Tensor
    heads: Tensor
    relations: Tensor
    tails: Tensor

    @classmethod
    def of(cls, pbe: PBE, batch: Batch, candidates: Candidates) -> Vectors:
        """Look them up in the tables of a score of vectors."""
        assert isinstance(pbe.score, VectorScore)
        entity, relation = pbe.score.entity, pbe.score.relation
        return cls(
            entity(batch.head), relation(batch.relation), entity(batch.tail),
            entity(candidates.heads), relation(candidates.relations), entity(candidates.tails),
        )  # fmt: skip

    @property
    def triple(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.head, self.relation, self.tail

    def candidates(self, slot: Slot) -> Tensor:
        return (self.heads, self.relations, self.tails)[slot]


class Term(NamedTuple):
    """One log probability of Eq. 1 for a batch: head, relation or tail given the rest, or relation given the mention.

    `weight` is its weight in log credence: a third of its setting (Eq. 1). `floor` is ε or η (Eqs 17, 18).
    """

    name: str
    weight: float
    truth: Tensor
    scores: Scores
    true: Places
    floor: float

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments of `WeightedSum` for this term: a table of scores, or the two sides of one."""
        scores = self.scores
        if isinstance(scores, Products | Distances):
            return self.truth, scores.points, scores.candidates, scores.offset, scores, self.true
        return self.truth, table_of(scores), None, 0.0, None, self.true


def terms(
    pbe: PBE, batch: Batch, candidates: Candidates, settings: Settings, vectors: Vectors | None = None
) -> Iterator[Term]:
    """The terms that have a weight, one after the other; from `vectors` where the score needs no more than those.

    From vectors, the tables of scores are not computed yet.
    """
    true, score, tails = candidates.true_places(batch), pbe.score, None
    if vectors is None and not candidates.shared:
        vectors = Vectors.of(pbe, batch, candidates)
    if vectors is None:
        truth = pbe.logit(batch)
    else:
        assert isinstance(score, VectorScore)
        tails = score.pairs(Slot.TAIL, *vectors.triple, vectors.tails) if candidates.shared else None
        if isinstance(tails, Products):  # D = point · t, and the points are at hand
            truth = pbe.scale * (tails.points * vectors.tail).sum(-1)
        else:
            truth = pbe.scale * score.each(*vectors.triple)
    for slot, weight in (
        (Slot.HEAD, settings.head_weight),
        (Slot.TAIL, settings.tail_weight),
        (Slot.RELATION, settings.relation_weight),
    ):
        if not weight:
            continue
        if vectors is None:
            scores: Scores = pbe.logits(slot, batch, candidates.of(slot))
        elif slot is Slot.TAIL and tails is not None:
            scores = scaled(tails, pbe.scale)
        else:
            compare = score.pairs if candidates.shared else score.each_candidate
            scores = scaled(compare(slot, *vectors.triple, vectors.candidates(slot)), pbe.scale)  # type: ignore[operator]
        scores = shifted(scores, candidates.log_share[slot])
        yield Term(str(slot), weight / 3, truth, scores, true[slot], settings.epsilon)
    if settings.mention_weight and isinstance(pbe.mention, Mention) and len(batch.words):
        mentions = pbe.mention.embed(batch.words, batch.offsets)
        if vectors is None:
            table = pbe.relation_vectors
            relation, relations = table(batch.relation), table(candidates.relations)
        else:
            relation, relations = vectors.relation, vectors.relations
        by_mention = pbe.mention.each(mentions, relation)
        by_candidate = pbe.mention if candidates.shared else pbe.mention.each_candidate
        scores = shifted(by_candidate(mentions, relations), candidates.log_share[Slot.RELATION])
        yield Term("mention", settings.mention_weight / 3, by_mention, scores, true[Slot.RELATION], settings.eta)


def estimator(settings: Settings, term: Term, batch: Batch) -> Estimator:
    """The estimator that the settings name, for one term."""
    if settings.training_estimator == "margin":
        return partial(margin_ranking, margin=settings.margin)
    if settings.training_estimator == "negative":
        label = belief_confidence(batch, term.truth) if settings.confidence == "label" else None
        return partial(negative_sampling, weight=settings.negative_weight, floor=term.floor, label=label)
    return softmax


def belief_confidence(batch: Batch, like: Tensor) -> Tensor:
    """The confidence of each belief, (B,); 1 for a belief that came without."""
    return batch.confidence.nan_to_num(1.0).to(like.dtype)


def estimate(term: Term, batch: Batch, settings: Settings) -> Tensor:
    """The estimated log probability of each belief, (B,), with gradients."""
    rule = estimator(settings, term, batch)
    values: Tensor = _OfTable.apply(term.truth, table_of(term.scores), term.true, rule)  # type: ignore[no-untyped-call]
    return values


def estimated_log_credence(pbe: PBE, batch: Batch, candidates: Candidates, settings: Settings) -> Tensor:
    """Estimated log credence of each belief, (B,): ⅓ of the weighted sum of its terms (Eqs 1, 6)."""
    return weighted_terms(terms(pbe, batch, candidates, settings), batch, settings, pbe.score.entity.weight)


def weighted_terms(parts: Iterator[Term], batch: Batch, settings: Settings, like: Tensor) -> Tensor:
    """Σ weight · estimate over the terms, (B,); a belief without mention has no mention term."""
    total = like.new_zeros(len(batch))
    for term in parts:
        values = estimate(term, batch, settings)
        if term.name == "mention":
            values = torch.where(batch.mentioned, values, torch.zeros_like(values))
        total = total + term.weight * values
    return total


class _OfTable(torch.autograd.Function):
    """An estimate from a table of scores."""

    @staticmethod
    def forward(ctx: Any, truth: Tensor, table: Tensor, true: Places, rule: Estimator) -> Tensor:
        result = rule(truth, table.clone(), true)
        ctx.save_for_backward(result.by_truth, result.weights, result.factor)
        return result.value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        by_truth, weights, factor = ctx.saved_tensors
        return gradients[0] * by_truth, weights * (gradients[0][:, None] * factor), None, None


class WeightedSum(torch.autograd.Function):
    """Σ weight · estimate over the beliefs of a batch; the gradient is computed while the table of scores is at hand.

    From two sides, the table of scores becomes the table of its derivatives and is freed: what is kept has the size of
    the batch. From a table (`scores` is None), its derivatives are kept.
    """

    @staticmethod
    def forward(
        ctx: Any,
        truth: Tensor,
        points: Tensor,
        candidates: Tensor | None,
        offset: Tensor | float,
        scores: PairScores | None,
        true: Places,
        rule: Estimator,
        weights: Tensor,
    ) -> Tensor:
        if scores is None or candidates is None:
            result = rule(truth, points.clone(), true)
            of_points = result.weights.mul_(result.factor * weights[:, None])
            ctx.save_for_backward(result.by_truth * weights, of_points, None, None)
            return result.value.dot(weights)
        scores = replace(scores, points=points, candidates=candidates, offset=offset)
        fused = fused_softmax(truth, scores, true) if rule is softmax else None
        if fused is not None:
            result, by_offset = fused, -fused.by_truth
        else:
            result, by_offset = _of_pairs(truth, scores, true, rule)
        factors = result.factor * (weights * scores.slope)[:, None]
        sides = scores.pull(result.weights, factors, points, candidates)
        ctx.save_for_backward(result.by_truth * weights, *sides, by_offset.dot(weights))
        return result.value.dot(weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        factor = gradients[0].item()
        parts = [part if part is None or factor == 1 else part * factor for part in ctx.saved_tensors]
        if not ctx.needs_input_grad[3]:
            parts[3] = None
        return *parts, None, None, None, None


def _of_pairs(truth: Tensor, scores: PairScores, true: Places, rule: Estimator) -> tuple[Estimate, Tensor]:
    """An estimate whose weights are as `pull` takes them, and its derivative by the offset of the scores, (B,)."""
    values = scores.values(scores.points, scores.candidates)
    result = rule(truth, torch.add(torch.as_tensor(scores.offset), values, alpha=scores.slope), true)
    by_offset = result.factor[:, 0] * result.weights.sum(1)
    return result._replace(weights=scores.weights(result.weights, values)), by_offset
