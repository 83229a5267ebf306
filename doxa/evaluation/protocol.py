"""The ranking protocol of Section 5.2: the rank of each test belief's part among its candidates, raw and filtered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import Pairs, TripleIndex
from doxa.data.vocabulary import Ids
from doxa.evaluation.ranks import Ranks, rank
from doxa.pbe import PBE
from doxa.slots import Slot

CandidateRule = Literal["all", "relation", "answered"]
CANDIDATE_RULES = ("all", "relation", "answered")
"""All entities (the standard protocol); those seen in that slot of the relation; the candidates of `ask`."""


class Ranker(Protocol):
    """Anything that scores candidates: a model, or a baseline."""

    @property
    def entities(self) -> int: ...
    @property
    def relations(self) -> int: ...
    def logits(self, slot: Slot, batch: Batch, candidates: Tensor | None = None) -> Tensor: ...
    def mention_logits(self, batch: Batch) -> Tensor: ...
    def blocks(self, count: int, width: int | None = None, memory: int = 0) -> Iterator[Ids]: ...


class Answered:
    """Ranks as `ask` answers: among the entities seen in that slot in training, self-loops as rare as they are there.

    An entity that `ask` does not offer shares the last places with the others of its kind.
    """

    def __init__(self, pbe: PBE) -> None:
        self.pbe = pbe
        self.entities, self.relations = pbe.entities, pbe.relations
        self.mention_logits, self.blocks = pbe.mention_logits, pbe.blocks

    def logits(self, slot: Slot, batch: Batch, candidates: Tensor | None = None) -> Tensor:
        """The logits behind the probabilities of answers, (B, C); −∞ for what is no answer."""
        logits = self.pbe.answer_logits(slot, batch, candidates)
        if slot is not Slot.RELATION:
            ids = torch.arange(self.entities) if candidates is None else candidates
            logits[:, ~torch.isin(ids, self.pbe.seen[slot])] = -torch.inf
        return logits


@torch.no_grad()
def ranks(
    ranker: Ranker,
    slot: Slot,
    beliefs: Beliefs,
    known: TripleIndex,
    pool: Pairs | None = None,
    use: str = "both",
    mention_exponent: float = 1.0,
    memory: int = 0,
    from_sentence: Callable[[Beliefs], Tensor] | None = None,
) -> Ranks:
    """The rank of each belief's part in that slot, filtered by `known`.

    Candidates are all entities or relations; with a `pool` (`TripleIndex.seen`), the entities of the belief's relation.
    For relations, `use` is both, pair (without the mention) or mention (without the entities). A belief with an unknown
    name has the expected rank of a guess, unless its relation is ranked by the mention: by the mention alone, or by
    `from_sentence`, which scores all relations of such beliefs. `memory` bounds the tables of scores in bytes; 0 =
    automatic.
    """
    if pool is not None:
        return _ranks_among(ranker, slot, beliefs, known, pool, memory)
    count = ranker.relations if slot is Slot.RELATION else ranker.entities
    result = _guesses(len(beliefs), count)
    seen = np.flatnonzero(beliefs.seen) if slot is Slot.RELATION else _seen_by_relation(beliefs)
    for block in ranker.blocks(len(seen), count, memory):
        rows = seen[block]
        batch = Batch.of(beliefs, rows)
        scores = ranker.logits(slot, batch) if use != "mention" else torch.zeros(len(rows), count)
        if slot is Slot.RELATION and use != "pair":
            scores = scores + mention_exponent * ranker.mention_logits(batch)
        _put(result, rows, rank(scores, batch.column(slot), _answers(known, slot, beliefs, rows)))
    if slot is Slot.RELATION and use != "pair":
        _rank_unseen(result, ranker, beliefs, from_sentence if use == "both" else None, use, memory)
    return result


def _rank_unseen(
    result: Ranks,
    ranker: Ranker,
    beliefs: Beliefs,
    from_sentence: Callable[[Beliefs], Tensor] | None,
    use: str,
    memory: int,
) -> None:
    """Rank the relations of beliefs with an unseen entity and a mention, in place; none of them is a known fact."""
    if use == "both" and from_sentence is None:
        return
    unseen = np.flatnonzero(~beliefs.seen & (beliefs.relation >= 0) & (beliefs.mention.lengths > 0))
    nothing = np.zeros(0, np.int64)
    for block in ranker.blocks(len(unseen), ranker.relations, memory):
        part = beliefs.take(unseen[block])
        batch = Batch.of(part)
        scores = ranker.mention_logits(batch) if from_sentence is None else from_sentence(part)
        _put(result, unseen[block], rank(scores, batch.relation, (nothing, nothing)))


def _answers(known: TripleIndex, slot: Slot, beliefs: Beliefs, rows: Ids) -> Pairs:
    return known.answers(slot, beliefs.head[rows], beliefs.relation[rows], beliefs.tail[rows])


def _ranks_among(ranker: Ranker, slot: Slot, beliefs: Beliefs, known: TripleIndex, pool: Pairs, memory: int) -> Ranks:
    """Ranks among the entities of the pool of each belief's relation, relation by relation.

    A true entity that the pool lacks is a candidate of its own query alone.
    """
    result = _guesses(len(beliefs), ranker.entities)
    truth = beliefs.head if slot is Slot.HEAD else beliefs.tail
    seen = _seen_by_relation(beliefs)
    for relation in np.unique(beliefs.relation[beliefs.relation >= 0]):
        of_relation = seen[beliefs.relation[seen] == relation]
        members = pool[1][slice(*np.searchsorted(pool[0], [relation, relation + 1]))]
        unknown = (beliefs.relation == relation) & ~beliefs.seen
        _put(result, np.flatnonzero(unknown), _guesses(int(unknown.sum()), max(len(members), 1)))
        candidates = np.union1d(members, truth[of_relation])
        outside = torch.from_numpy(~np.isin(candidates, members))
        for block in ranker.blocks(len(of_relation), len(candidates), memory):
            rows = of_relation[block]
            query, answer = _answers(known, slot, beliefs, rows)
            place = np.minimum(np.searchsorted(candidates, answer), len(candidates) - 1)
            present = candidates[place] == answer
            column = torch.from_numpy(np.searchsorted(candidates, truth[rows]))
            scores = ranker.logits(slot, Batch.of(beliefs, rows), torch.from_numpy(candidates))
            true_scores = scores.gather(1, column[:, None])
            scores[:, outside] = -torch.inf
            scores.scatter_(1, column[:, None], true_scores)
            _put(result, rows, rank(scores, column, (query[present], place[present])))
    return result


def _seen_by_relation(beliefs: Beliefs) -> Ids:
    """Rows with known names, sorted by relation: scores with a matrix per relation map the candidates once for each."""
    seen = np.flatnonzero(beliefs.seen)
    return seen[np.argsort(beliefs.relation[seen], kind="stable")]


def _guesses(count: int, candidates: int) -> Ranks:
    """The expected rank of a guess, for beliefs with an unknown name."""
    return Ranks(np.full(count, (candidates + 1) / 2), np.full(count, (candidates + 1) / 2))


def _put(ranks: Ranks, rows: Ids, part: Ranks) -> None:
    ranks.raw[rows], ranks.filtered[rows] = part.raw, part.filtered
