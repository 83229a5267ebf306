"""Held-out queries: beliefs with one part removed, to see how probable the model holds the right answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.pbe import PBE
from doxa.slots import Slot

KINDS = ("head", "tail", "relation", "relation_with_mention")
"""Kinds of query: the missing slot, and for relations whether a mention is given."""


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries of one kind.

    `truth`, (n,), is the column of each right answer among the candidates. `log_probabilities(rows)` is the table of
    log probabilities, (rows, C), with -inf for the other known answers: the query asks for the missing one.
    """

    truth: Tensor
    log_probabilities: Callable[[Tensor], Tensor]


def held_out_queries(
    pbe: PBE, beliefs: Beliefs, known: TripleIndex, kind: str, mention_exponent: float = 1.0
) -> Queries:
    """The beliefs as queries of that kind, as far as the answer is a candidate; `known` are the facts to leave out."""
    slot = Slot.RELATION if kind.startswith("relation") else Slot[kind.upper()]
    if kind == "relation_with_mention":
        beliefs = beliefs.where(beliefs.mention.lengths > 0)
    candidates = (pbe.seen_heads, torch.arange(pbe.relations), pbe.seen_tails)[slot]
    column, present = _columns(Batch.of(beliefs).column(slot), candidates)
    beliefs, truth = beliefs.where(present.numpy()), column[present]

    def log_probabilities(rows: Tensor) -> Tensor:
        numbers = rows.numpy()
        logs = _log_probabilities(pbe, kind, Batch.of(beliefs, numbers), mention_exponent)
        triples = (beliefs.head[numbers], beliefs.relation[numbers], beliefs.tail[numbers])
        query, answer = (torch.from_numpy(part) for part in known.answers(slot, *triples))
        place, is_candidate = _columns(answer, candidates)
        other = is_candidate & (place != truth[rows][query])
        logs[query[other], place[other]] = -torch.inf
        return logs

    return Queries(truth, log_probabilities)


def _log_probabilities(pbe: PBE, kind: str, batch: Batch, mention_exponent: float) -> Tensor:
    """Log probabilities of all candidates, (B, C) (Eqs 8, 9, 10, 6)."""
    if kind == "head":
        return pbe.log_heads(batch.relation, batch.tail)
    if kind == "tail":
        return pbe.log_tails(batch.head, batch.relation)
    if kind == "relation":
        return pbe.log_relations(batch.head, batch.tail)
    return pbe.log_relations_with_mention(batch.head, batch.tail, batch.words, batch.offsets)


def _columns(ids: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """The column of each id among the candidates, and whether it is one."""
    column = torch.searchsorted(candidates, ids).clamp_max(len(candidates) - 1)
    return column, candidates[column] == ids
