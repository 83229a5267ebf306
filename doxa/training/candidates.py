"""Negatives: candidates shared by a batch for training, and corrupted beliefs for classification."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import Pairs, TripleIndex
from doxa.data.vocabulary import Ids
from doxa.pbe import PBE
from doxa.scores.pairwise import Places


class Own(NamedTuple):
    """Where candidates must not count as false."""

    heads: Places
    relations: Places
    tails: Places


@dataclass(frozen=True)
class Candidates:
    """Ids that every belief of a batch is compared with as head, as relation and as tail; each sorted and distinct.

    `own` are the places where they must not count as false: None is each belief's own truth alone.
    """

    heads: Tensor
    relations: Tensor
    tails: Tensor
    own: Own | None = None

    def for_terms(self, settings: Settings, with_words: bool) -> Candidates:
        """Those that terms with a weight compare with; none for the others."""
        none = self.heads[:0]
        about_relations = settings.relation_weight or (with_words and settings.mention_weight)
        return replace(
            self,
            heads=self.heads if settings.head_weight else none,
            relations=self.relations if about_relations else none,
            tails=self.tails if settings.tail_weight else none,
        )

    def own_places(self, batch: Batch) -> Own:
        """Where they must not count as false for the beliefs of a batch."""
        return self.own or Own(
            _where(batch.head, self.heads),
            _where(batch.relation, self.relations),
            _where(batch.tail, self.tails),
        )

    def without_known(self, beliefs: Beliefs, rows: Ids, known: TripleIndex) -> Candidates:
        """The same candidates, of which none that completes a known fact counts as false."""
        head, relation, tail = (column[rows] for column in (beliefs.head, beliefs.relation, beliefs.tail))
        own = Own(
            _places(known.heads(relation, tail), self.heads),
            _places(known.links(head, tail), self.relations),
            _places(known.tails(head, relation), self.tails),
        )
        return replace(self, own=own)


def _places(known: Pairs, candidates: Tensor) -> Places:
    question, answer = (torch.from_numpy(part) for part in known)
    found = _where(answer, candidates)
    return Places(question[found.rows], found.columns)


def _where(truth: Tensor, candidates: Tensor) -> Places:
    """Where each belief's truth stands among the candidates, which are sorted and distinct, if it is there."""
    from doxa.scores import kernels  # slow to load, and for learning alone

    rows, columns = kernels.find(truth.numpy(), candidates.numpy())
    return Places(torch.from_numpy(rows), torch.from_numpy(columns))


def every_candidate(pbe: PBE) -> Candidates:
    """All of E_h, R and E_t, for exact probabilities."""
    return Candidates(pbe.seen_heads, torch.arange(pbe.relations), pbe.seen_tails)


def draw_candidates(every: Candidates, count: int, random: np.random.Generator) -> Candidates:
    """`count` distinct ones of each kind, all equally likely; all there are where that is fewer."""

    def some(ids: Tensor) -> Tensor:
        if count >= len(ids):
            return ids
        return ids[torch.from_numpy(np.sort(random.choice(len(ids), count, replace=False, shuffle=False)))]

    heads, relations = some(every.heads), some(every.relations)
    return Candidates(heads, relations, heads if every.tails is every.heads else some(every.tails))
