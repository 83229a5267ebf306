"""The protocol of Section 5.2: rank the truth of every test belief among its candidates, raw and filtered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from doxa.data.beliefs import Beliefs
from doxa.data.triples import Pairs, TripleIndex
from doxa.data.vocabulary import Ids
from doxa.evaluation.ranks import Ranks, rank

CandidateRule = Literal["all", "relation"]


class Ranker(Protocol):
    """Anything that scores candidates: a learnt model, or a baseline."""

    @property
    def entities(self) -> int: ...
    @property
    def relations(self) -> int: ...
    @property
    def mention_exponent(self) -> Tensor | float: ...
    def tail_logits(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor: ...
    def head_logits(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor: ...
    def relation_logits(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor: ...
    def mention_logits(self, words: Tensor, offsets: Tensor, candidates: Tensor | None = None) -> Tensor: ...
    def blocks(self, count: int, width: int | None = None) -> Iterator[Ids]: ...


@torch.no_grad()
def tail_ranks(ranker: Ranker, beliefs: Beliefs, known: TripleIndex, pool: Pairs | None = None) -> Ranks:
    """Rank of each belief's tail among all entities, or among the pool of its relation."""

    def scores(rows: Ids, candidates: Tensor | None) -> Tensor:
        return ranker.tail_logits(_ids(beliefs.head, rows), _ids(beliefs.relation, rows), candidates)

    def answers(rows: Ids) -> Pairs:
        return known.tails(beliefs.head[rows], beliefs.relation[rows])

    return _entity_ranks(ranker, beliefs, beliefs.tail, scores, answers, pool)


@torch.no_grad()
def head_ranks(ranker: Ranker, beliefs: Beliefs, known: TripleIndex, pool: Pairs | None = None) -> Ranks:
    """Rank of each belief's head among all entities, or among the pool of its relation."""

    def scores(rows: Ids, candidates: Tensor | None) -> Tensor:
        return ranker.head_logits(_ids(beliefs.relation, rows), _ids(beliefs.tail, rows), candidates)

    def answers(rows: Ids) -> Pairs:
        return known.heads(beliefs.relation[rows], beliefs.tail[rows])

    return _entity_ranks(ranker, beliefs, beliefs.head, scores, answers, pool)


@torch.no_grad()
def relation_ranks(ranker: Ranker, beliefs: Beliefs, known: TripleIndex, use: str = "both") -> Ranks:
    """Rank of each belief's relation among all; `use` is both, pair (no mention) or mention (no entities)."""
    ranks = _uninformed(len(beliefs), ranker.relations)
    seen = np.flatnonzero(beliefs.seen)
    for block in ranker.blocks(len(seen), ranker.relations):
        rows = seen[block]
        mention = beliefs.mention.take(rows)
        logits = torch.zeros(len(rows), ranker.relations)
        if use != "mention":
            logits = logits + ranker.relation_logits(_ids(beliefs.head, rows), _ids(beliefs.tail, rows))
        if use != "pair":
            said = ranker.mention_logits(torch.from_numpy(mention.values), torch.from_numpy(mention.offsets))
            logits = logits + ranker.mention_exponent * said
        answers = known.links(beliefs.head[rows], beliefs.tail[rows])
        _put(ranks, rows, rank(logits, _ids(beliefs.relation, rows), answers))
    return ranks


def _entity_ranks(
    ranker: Ranker,
    beliefs: Beliefs,
    truth: Ids,
    scores: Callable[[Ids, Tensor | None], Tensor],
    answers: Callable[[Ids], Pairs],
    pool: Pairs | None,
) -> Ranks:
    ranks = _uninformed(len(beliefs), ranker.entities)
    seen = _seen_by_relation(beliefs)
    if pool is None:
        for block in ranker.blocks(len(seen), ranker.entities):
            rows = seen[block]
            _put(ranks, rows, rank(scores(rows, None), _ids(truth, rows), answers(rows)))
        return ranks
    for relation in np.unique(beliefs.relation[seen]):
        of_relation = seen[beliefs.relation[seen] == relation]
        seen_here = pool[1][slice(*np.searchsorted(pool[0], [relation, relation + 1]))]
        unseen_here = (beliefs.relation == relation) & ~beliefs.seen
        _put(ranks, np.flatnonzero(unseen_here), _uninformed(int(unseen_here.sum()), len(seen_here)))
        candidates = np.union1d(seen_here, truth[of_relation])
        strangers = torch.from_numpy(~np.isin(candidates, seen_here))
        for block in ranker.blocks(len(of_relation), len(candidates)):
            rows = of_relation[block]
            question, answer = answers(rows)
            place = np.minimum(np.searchsorted(candidates, answer), len(candidates) - 1)
            present = candidates[place] == answer
            own = torch.from_numpy(np.searchsorted(candidates, truth[rows]))
            found = scores(rows, torch.from_numpy(candidates))
            mine = found.gather(1, own[:, None])
            found[:, strangers] = -torch.inf  # a truth never seen there is a candidate of its own question alone
            found.scatter_(1, own[:, None], mine)
            _put(ranks, rows, rank(found, own, (question[present], place[present])))
    return ranks


def _seen_by_relation(beliefs: Beliefs) -> Ids:
    """Rows of beliefs with known names, those of one relation together: scores by matrices map candidates once each."""
    seen = np.flatnonzero(beliefs.seen)
    return seen[np.argsort(beliefs.relation[seen], kind="stable")]


def _uninformed(count: int, candidates: int) -> Ranks:
    """The expected rank of a guess: what a belief with a name the model never saw is worth."""
    return Ranks(np.full(count, (candidates + 1) / 2), np.full(count, (candidates + 1) / 2))


def _put(ranks: Ranks, rows: Ids, found: Ranks) -> None:
    ranks.raw[rows], ranks.filtered[rows] = found.raw, found.filtered


def _ids(column: Ids, rows: Ids) -> Tensor:
    return torch.from_numpy(column[rows])
