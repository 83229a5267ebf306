"""Probabilistic Belief Embedding: probabilities over any score D(h, r, t) and the mention term F(r, m).

    Pr(h, r, t, m) = (Pr(h|r,t) · Pr(r|h,t,m) · Pr(t|h,r))^(1/3)                          (Eq. 1)

The only place where a softmax over entities or relations is written. Every softmax here is exact; where there are
millions of entities, `doxa.index` estimates its sum of exponentials.

A self-loop ⟨e, r, e⟩ is as rare among the answers as it is among the training facts of r. Without this, a translation
with a short vector r answers (e, r, ?) with e itself:

    D′(h, r, t) = D(h, r, t) + [h = t] · log λ_r / scale,    λ_r = min(1, share of self-loops in r / COMMON_LOOPS)

Training and the ranking protocols use D, probabilities use D′.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from doxa.data.batch import Batch
from doxa.data.blocks import row_blocks
from doxa.data.triples import Pairs, TripleIndex
from doxa.data.vocabulary import Ids
from doxa.scores import Mention, Score, SeparateMention
from doxa.scores.base import rows
from doxa.scores.pairwise import PairScores, scaled
from doxa.slots import Slot

COMMON_LOOPS = 0.1
"""Share of self-loops among a relation's facts from which on they are answers like any other."""

Terms = TypeVar("Terms", Tensor, NDArray[np.float64])


@dataclass(frozen=True, eq=False)
class Distribution:
    """A softmax over the candidates of each query: Pr = exp(logit − log_total).

    `logits` (B, C) are those of the candidates `columns` (C,), given by id and sorted; −∞ marks a candidate that is
    left out. `log_total` (B,) is the logarithm of the sum of exponentials. `relative_error` (B,) is the standard error
    of that sum as a share of it where it is estimated from a sample, None where it is exact.
    """

    logits: Tensor
    log_total: Tensor
    columns: Tensor
    relative_error: Tensor | None = None

    @property
    def log_probabilities(self) -> Tensor:
        """log Pr of every candidate, (B, C)."""
        return self.logits - self.log_total[:, None]


class PBE(nn.Module):
    """The probabilities of the paper over a score and a mention term.

    `seen` are the candidates of each slot: E_h, R and E_t, the entities seen as head (tail) in training.
    `log_loop_factor` is log λ of each relation, (R,), 0 until `count_loops`.
    """

    seen_heads: Tensor
    seen_tails: Tensor
    log_loop_factor: Tensor

    def __init__(
        self,
        score: Score,
        mention: Mention | SeparateMention | None,
        seen_heads: Tensor,
        seen_tails: Tensor,
        scale: float,
    ) -> None:
        super().__init__()
        self.score = score
        self.mention = mention
        self.scale = scale
        self._kept_columns: dict[Slot, tuple[Tensor, Tensor, Tensor]] = {}
        self.register_buffer("seen_heads", seen_heads)
        self.register_buffer("seen_tails", seen_tails)
        self.register_buffer("log_loop_factor", torch.zeros(score.relation_count), persistent=False)

    def count_loops(self, facts: TripleIndex) -> None:
        """Set λ from the training facts; called when the model is built or loaded."""
        factor = np.minimum(facts.loop_shares / COMMON_LOOPS, 1.0)
        self.log_loop_factor = torch.from_numpy(np.log(factor)).to(self.score.entity.weight.dtype)

    @property
    def entities(self) -> int:
        return self.score.entity_count

    @property
    def relations(self) -> int:
        return self.score.relation_count

    @property
    def seen(self) -> dict[Slot, Tensor]:
        """The candidates of each slot by id, sorted: E_h, R, E_t."""
        return {Slot.HEAD: self.seen_heads, Slot.RELATION: torch.arange(self.relations), Slot.TAIL: self.seen_tails}

    def blocks(self, count: int, width: int | None = None, memory: int = 0) -> Iterator[Ids]:
        """Row numbers in blocks whose tables of scores against `width` candidates fit the cache and the memory."""
        return row_blocks(count, width or max(self.entities, self.relations), memory)

    def logit(self, batch: Batch) -> Tensor:
        """scale · D(h, r, t) of each belief, (B,)."""
        scores: Tensor = self.score(batch.head, batch.relation, batch.tail)
        return self.scale * scores

    def logits(self, slot: Slot, batch: Batch, candidates: Tensor | None = None) -> Tensor:
        """scale · D of each query with every candidate in the missing slot, (B, C); all of them when None."""
        scores = scaled(self.score.against(slot, batch.head, batch.relation, batch.tail, candidates), self.scale)
        table = scores.table() if isinstance(scores, PairScores) else scores
        return table.contiguous()  # a score without relations expands one column

    def belief_logit(self, batch: Batch) -> Tensor:
        """scale · D′(h, r, t) of each belief, (B,): `logit`, and the loop factor of a self-loop."""
        return self.logit(batch) + (batch.head == batch.tail) * self.log_loop_factor[batch.relation]

    def answer_logits(self, slot: Slot, batch: Batch, candidates: Tensor | None = None) -> Tensor:
        """scale · D′ of each query with every candidate, (B, C): `logits`, and the loop factor of self-loops."""
        return self._with_loops(self.logits(slot, batch, candidates), slot, batch, candidates)

    def _with_loops(self, logits: Tensor, slot: Slot, batch: Batch, candidates: Tensor | None) -> Tensor:
        """The logits of sorted candidates with the loop factor; in place where no gradient is needed."""
        if slot is Slot.RELATION:
            factor = self.log_loop_factor if candidates is None else self.log_loop_factor[candidates]
            rows = (batch.head == batch.tail).nonzero().squeeze(1)
            return _added(logits, (rows,), factor.expand(len(rows), -1))
        asked = batch.column(slot.other)
        rows = torch.arange(len(asked)) if candidates is None else _member(asked, candidates).nonzero().squeeze(1)
        place = asked[rows] if candidates is None else torch.searchsorted(candidates, asked[rows])
        return _added(logits, (rows, place), self.log_loop_factor[batch.relation[rows]])

    def mention_logits(self, batch: Batch, candidates: Tensor | None = None) -> Tensor:
        """F(r, m) of every candidate relation, (B, C); zero without a mention term (Eq. 11)."""
        if self.mention is None:
            return torch.zeros(len(batch), self.relations if candidates is None else len(candidates))
        mentions = self.mention.embed(batch.words, batch.offsets)
        if isinstance(self.mention, SeparateMention):
            return mentions if candidates is None else mentions[:, candidates]
        scores: Tensor = self.mention(mentions, rows(self.relation_vectors, candidates))
        return scores

    def word_addends(self, words: Tensor) -> Tensor:
        """What each word adds to F(r, m) of every relation, (n,) → (n, R) (Eq. 11)."""
        assert self.mention is not None
        vectors = self.mention.word.weight[words]
        return vectors if self.mention.separate else vectors @ self.relation_vectors.weight.T

    @property
    def relation_vectors(self) -> nn.Embedding:
        """r of Eq. 11: the relation vectors of the score, or of the mention term where the score has none."""
        table: nn.Module | None = self.mention.relation if isinstance(self.mention, Mention) else None
        table = table if table is not None else self.score.get_submodule("relation")
        assert isinstance(table, nn.Embedding)
        return table

    def distribution(
        self, slot: Slot, batch: Batch, *, temperature: float = 1.0, without: Pairs | None = None
    ) -> Distribution:
        """The softmax of one slot: Pr(t|h,r) over E_t (Eq. 8), Pr(h|r,t) over E_h (Eq. 9), Pr(r|h,t) over R (Eq. 10).

        `without` pairs queries with ids that are no candidates, such as known answers.
        """
        columns, dropped = self._columns(slot)
        candidates = None if len(columns) == self._width(slot) else columns
        logits = self._with_loops(self.logits(slot, batch, candidates), slot, batch, candidates)
        if len(dropped):
            logits.index_fill_(1, dropped, -torch.inf)
        return softmax(logits, columns, temperature, without)

    def mention_distribution(self, batch: Batch) -> Distribution:
        """Pr(r|m) over R: the softmax of F(r, m) (Eq. 12)."""
        return softmax(self.mention_logits(batch), torch.arange(self.relations))

    def relation_distribution(
        self,
        batch: Batch,
        *,
        mention_exponent: float = 1.0,
        temperature: float | Tensor = 1.0,
        without: Pairs | None = None,
    ) -> Distribution:
        """Pr(r|h,t,m) over R, from the entities and the mention together (Eqs 6, 10, 12)."""
        by_entities, by_mention = self.distribution(Slot.RELATION, batch), self.mention_distribution(batch)
        return with_mention(by_entities, by_mention, mention_exponent, temperature, without)

    def log_terms(
        self, batch: Batch, mention_exponent: float = 1.0, log_totals: Mapping[Slot, Tensor] | None = None
    ) -> Tensor:
        """log Pr(h|r,t), log Pr(r|h,t,m) and log Pr(t|h,r) of each belief itself, (B, 3).

        An entity never seen in its slot joins the candidates of its own query. `log_totals` are the logarithms of the
        sums of exponentials of both entity queries, (B,) each, where they are known already.
        """
        truth = self.belief_logit(batch)
        columns = []
        for slot in Slot:
            if slot is Slot.RELATION:
                relations = self.relation_distribution(batch, mention_exponent=mention_exponent).log_probabilities
                columns.append(relations.gather(1, batch.relation[:, None]).squeeze(1))
                continue
            total = self.distribution(slot, batch).log_total if log_totals is None else log_totals[slot]
            seen = _member(batch.column(slot), self.seen[slot])
            columns.append(torch.where(seen, truth - total, log_probability_of_newcomer(truth, total)))
        return torch.stack(columns, dim=1).clamp_max(0.0)

    def _width(self, slot: Slot) -> int:
        return self.relations if slot is Slot.RELATION else self.entities

    def _columns(self, slot: Slot) -> tuple[Tensor, Tensor]:
        """The columns of a slot's softmax and which of them are no candidates.

        Where most entities were seen in the slot, all are scored and the others dropped: no vectors need looking up.
        """
        width = self._width(slot)
        if slot is Slot.RELATION:
            return torch.arange(width), torch.arange(0)
        seen = self.seen[slot]
        if 2 * len(seen) < width:
            return seen, seen[:0]
        kept = self._kept_columns.get(slot)
        if kept is None or kept[0] is not seen:
            dropped = torch.ones(width, dtype=torch.bool).index_fill_(0, seen, False).nonzero().squeeze(1)
            kept = self._kept_columns[slot] = (seen, torch.arange(width), dropped)
        return kept[1:]


def with_mention(
    by_entities: Distribution,
    by_mention: Distribution,
    mention_exponent: float = 1.0,
    temperature: float | Tensor = 1.0,
    without: Pairs | None = None,
) -> Distribution:
    """Pr(r|h,t,m) ∝ Pr(r|h,t) · Pr(r|m)^exponent, renormalized over R; Pr(r|h,t) without any word (Eq. 6).

    The exponent is 1 in the paper; here it is fitted on validation beliefs with mentions.
    """
    logits = by_entities.log_probabilities + mention_exponent * by_mention.log_probabilities
    return softmax(logits, by_entities.columns, temperature, without)


def log_credence(terms: Terms) -> Terms:
    """log Pr(h,r,t,m), a third of the sum of the three terms, (…, 3) → (…) (Eq. 1)."""
    mean: Terms = terms.mean(-1)
    return mean


def renormalized(log_probabilities: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
    """log softmax(log Pr / temperature), (B, C) → (B, C): the probabilities at another temperature."""
    return (log_probabilities / temperature).log_softmax(1)


def log_probability_of_newcomer(logit: Tensor, log_total: Tensor) -> Tensor:
    """log Pr of a candidate that joins the others of its query, (B,): logit − log(Σ exp + exp logit)."""
    return logit - torch.logaddexp(log_total, logit)


def softmax(
    logits: Tensor, columns: Tensor, temperature: float | Tensor = 1.0, without: Pairs | None = None
) -> Distribution:
    """The softmax of Eqs 6, 8–10 and 12 over logits (B, C), written once for all; the logits may be overwritten."""
    if without is not None:
        query, answer = (torch.from_numpy(part) for part in without)
        place = torch.searchsorted(columns, answer).clamp_max(len(columns) - 1)
        present = columns[place] == answer
        logits[query[present], place[present]] = -torch.inf
    if isinstance(temperature, Tensor) or temperature != 1:
        logits = logits / temperature
    return Distribution(logits, logits.logsumexp(1), columns)


def _added(table: Tensor, places: tuple[Tensor, ...], values: Tensor) -> Tensor:
    """The table with values added at these places; in place where no gradient is needed."""
    values = values.to(table.dtype)
    if table.requires_grad:
        return table.index_put(places, values, accumulate=True)
    return table.index_put_(places, values, accumulate=True)


def _member(ids: Tensor, sorted_set: Tensor) -> Tensor:
    place = torch.searchsorted(sorted_set, ids).clamp_max(len(sorted_set) - 1)
    return sorted_set[place] == ids
