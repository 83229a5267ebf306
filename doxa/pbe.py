"""Probabilistic Belief Embedding: probabilities over any score D(h, r, t) and the mention term F(r, m).

    Pr(h, r, t, m) = (Pr(h|r,t) · Pr(r|h,t,m) · Pr(t|h,r))^(1/3)                          (Eq. 1)

Logarithms of probabilities everywhere; every softmax here is exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from doxa.data import memory
from doxa.data.batch import Batch
from doxa.data.vocabulary import Ids
from doxa.scores import Mention, Score
from doxa.scores.base import rows
from doxa.scores.pairwise import scaled, table_of

BLOCK_BYTES, BLOCK_ROWS = 8 * 2**20, 16
"""Table of scores held at once when answering: small enough for the processor's cache, yet a few rows at least."""

TABLES = 4
"""Tables of that size that ranking and answering hold at a time."""


class PBE(nn.Module):
    """The probabilities of the paper. `seen_heads` and `seen_tails` are E_h and E_t.

    `mention_exponent` is how much words count beside the entities in Eq. 6, 1 in the paper.
    """

    mention_exponent: Tensor
    seen_heads: Tensor
    seen_tails: Tensor

    def __init__(
        self, score: Score, mention: Mention | None, seen_heads: Tensor, seen_tails: Tensor, scale: float
    ) -> None:
        super().__init__()
        self.score = score
        self.mention = mention
        self.scale = scale
        self.memory = 0
        """Bytes that tables of scores may take when ranking and answering; 0 = a quarter of what is free."""
        self.register_buffer("mention_exponent", torch.ones(()))
        self.register_buffer("seen_heads", seen_heads)
        self.register_buffer("seen_tails", seen_tails)

    def logits(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Scaled D of each triple, (B,)."""
        triple: Tensor = self.score(head, relation, tail)
        return self.scale * triple

    def tail_logits(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._scaled(self.score.tails(head, relation, candidates))

    def head_logits(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._scaled(self.score.heads(relation, tail, candidates))

    def relation_logits(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._scaled(self.score.relations(head, tail, candidates))

    def _scaled(self, scores: Tensor) -> Tensor:
        return table_of(scaled(scores, self.scale))

    def mention_logits(self, words: Tensor, offsets: Tensor, candidates: Tensor | None = None) -> Tensor:
        """F(r, m) for every candidate relation; zero for all where the model has learnt no words."""
        if self.mention is None:
            return torch.zeros(len(offsets) - 1, self.relations if candidates is None else len(candidates))
        scores: Tensor = self.mention(self.mention.said(words, offsets), rows(self.relation_vectors, candidates))
        return scores

    @property
    def relation_vectors(self) -> nn.Embedding:
        """r of Eq. 11: the vectors words point to, which are the score's own where it has such."""
        own = self.mention.relation if self.mention is not None else None
        table = self.score.get_submodule("relation") if own is None else own
        assert isinstance(table, nn.Embedding)
        return table

    def log_tails(self, head: Tensor, relation: Tensor) -> Tensor:
        """log Pr(t|h,r) over E_t, (B, |E_t|) (Eq. 8)."""
        return self.tail_logits(head, relation, self.seen_tails).log_softmax(1)

    def log_heads(self, relation: Tensor, tail: Tensor) -> Tensor:
        """log Pr(h|r,t) over E_h, (B, |E_h|) (Eq. 9)."""
        return self.head_logits(relation, tail, self.seen_heads).log_softmax(1)

    def log_relations(self, head: Tensor, tail: Tensor) -> Tensor:
        """log Pr(r|h,t) over R, (B, |R|) (Eq. 10)."""
        return self.relation_logits(head, tail).log_softmax(1)

    def log_relations_said(self, words: Tensor, offsets: Tensor) -> Tensor:
        """log Pr(r|m) over R, (B, |R|) (Eq. 12)."""
        return self.mention_logits(words, offsets).log_softmax(1)

    def log_relations_with_mention(self, head: Tensor, tail: Tensor, words: Tensor, offsets: Tensor) -> Tensor:
        """log Pr(r|h,t,m) ∝ Pr(r|h,t) · Pr(r|m)^share, renormalized over R; Pr(r|h,t) without any word (Eq. 6)."""
        said = self.log_relations_said(words, offsets)
        return (self.log_relations(head, tail) + self.mention_exponent * said).log_softmax(1)

    def log_terms(self, batch: Batch) -> Tensor:
        """(B, 3): log Pr(h|r,t), log Pr(r|h,t,m) and log Pr(t|h,r) of each belief itself.

        An entity never seen in its position joins the candidates of its own question.
        """
        truth = self.logits(batch.head, batch.relation, batch.tail)
        heads = self.head_logits(batch.relation, batch.tail, self.seen_heads).logsumexp(1)
        tails = self.tail_logits(batch.head, batch.relation, self.seen_tails).logsumexp(1)
        heads = torch.where(_member(batch.head, self.seen_heads), heads, torch.logaddexp(heads, truth))
        tails = torch.where(_member(batch.tail, self.seen_tails), tails, torch.logaddexp(tails, truth))
        relations = self.log_relations_with_mention(batch.head, batch.tail, batch.words, batch.offsets)
        relation = relations.gather(1, batch.relation[:, None]).squeeze(1)
        return torch.stack([truth - heads, relation, truth - tails], dim=1).clamp_max(0.0)

    def log_credence(self, batch: Batch) -> Tensor:
        """log Pr(h,r,t,m), a third of the sum of the three terms (Eq. 1)."""
        return self.log_terms(batch).mean(1)

    @property
    def entities(self) -> int:
        return self.score.entity_count

    @property
    def relations(self) -> int:
        return self.score.relation_count

    def blocks(self, count: int, width: int | None = None) -> Iterator[Ids]:
        """Row numbers in blocks whose tables of scores against `width` candidates fit the cache and the memory."""
        row = 4 * (width or max(self.entities, self.relations))
        size = max(BLOCK_ROWS, BLOCK_BYTES // row)
        size = max(1, min(size, (self.memory or memory.free() // 4) // (TABLES * row)))
        return (np.arange(start, min(start + size, count)) for start in range(0, count, size))


def _member(ids: Tensor, sorted_set: Tensor) -> Tensor:
    place = torch.searchsorted(sorted_set, ids).clamp_max(len(sorted_set) - 1)
    return sorted_set[place] == ids
