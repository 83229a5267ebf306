"""Held-out queries: beliefs with one part removed, to see how probable the model holds the right answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from doxa.data.beliefs import Beliefs, Ids
from doxa.data.triples import Pairs, TripleIndex
from doxa.pbe import PBE, Batch

KINDS = ("head", "tail", "relation", "relation_with_mention")
"""Kinds of query: the missing slot, and for relations whether a mention is given."""


@dataclass(frozen=True, eq=False)
class HeldOutQueries:
    """Queries of one kind.

    `truth`, (n,), is the column of each right answer among the candidates. `log_probabilities(rows)` is the table of
    log probabilities, (rows, C), with -inf for the other known answers: the query asks for the missing one.
    """

    truth: Tensor
    log_probabilities: Callable[[Tensor], Tensor]


def held_out_queries(
    pbe: PBE, beliefs: Beliefs, known: TripleIndex, kind: str, mention_exponent: float = 1.0
) -> HeldOutQueries:
    """The beliefs as queries of that kind, as far as the answer is a candidate; `known` are the facts to leave out."""
    b = Batch.of(beliefs)
    if kind == "head":
        return _queries(b.head, pbe.seen_heads, lambda rows: pbe.log_heads(b.relation[rows], b.tail[rows]),
                        lambda rows: known.heads(beliefs.relation[rows], beliefs.tail[rows]))  # fmt: skip
    if kind == "tail":
        return _queries(b.tail, pbe.seen_tails, lambda rows: pbe.log_tails(b.head[rows], b.relation[rows]),
                        lambda rows: known.tails(beliefs.head[rows], beliefs.relation[rows]))  # fmt: skip
    with_mention = kind == "relation_with_mention"
    asked = beliefs.where(b.mentioned.numpy()) if with_mention else beliefs

    def table(rows: Tensor) -> Tensor:
        batch = Batch.of(asked, rows.numpy())
        if not with_mention:
            return pbe.log_relations(batch.head, batch.tail)
        return pbe.log_relations_with_mention(batch.head, batch.tail, batch.words, batch.offsets)

    return _queries(torch.from_numpy(asked.relation), torch.arange(pbe.relations), table,
                    lambda rows: known.links(asked.head[rows], asked.tail[rows]))  # fmt: skip


def _queries(
    truth: Tensor, candidates: Tensor, table: Callable[[Tensor], Tensor], known: Callable[[Ids], Pairs]
) -> HeldOutQueries:
    """`truth` are ids; `candidates` are ids too, sorted."""
    column, present = _columns(truth, candidates)
    asked = torch.nonzero(present).squeeze(1)

    def log_probabilities(rows: Tensor) -> Tensor:
        logs = table(asked[rows])
        question, answer = (torch.from_numpy(part) for part in known(asked[rows].numpy()))
        place, is_candidate = _columns(answer, candidates)
        other = is_candidate & (place != column[asked[rows]][question])
        logs[question[other], place[other]] = -torch.inf
        return logs

    return HeldOutQueries(column[asked], log_probabilities)


def _columns(ids: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """The column of each id among the candidates, and whether it is one."""
    column = torch.searchsorted(candidates, ids).clamp_max(len(candidates) - 1)
    return column, candidates[column] == ids
