"""Questions whose right answer is given, to see how probable the model held it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import Pairs, TripleIndex
from doxa.data.vocabulary import Ids
from doxa.pbe import PBE

KINDS = ("head", "tail", "relation", "relation_said")
"""What can be missing; the last is a relation that was stated in words."""


@dataclass(frozen=True, eq=False)
class Posed:
    """Questions of one kind: the place of each right answer among the candidates, (n,), and the table of log
    probabilities of some of them, (rows, C), in which other answers already known are struck out: the missing one is
    asked for."""

    truth: Tensor
    table: Callable[[Tensor], Tensor]


def posed(pbe: PBE, beliefs: Beliefs, known: TripleIndex, kind: str) -> Posed:
    """The beliefs as questions of that kind, as far as the answer is a candidate; `known` are the facts left aside."""
    b = Batch.of(beliefs)
    if kind == "head":
        return _posed(b.head, pbe.seen_heads, lambda rows: pbe.log_heads(b.relation[rows], b.tail[rows]),
                      lambda rows: known.heads(beliefs.relation[rows], beliefs.tail[rows]))  # fmt: skip
    if kind == "tail":
        return _posed(b.tail, pbe.seen_tails, lambda rows: pbe.log_tails(b.head[rows], b.relation[rows]),
                      lambda rows: known.tails(beliefs.head[rows], beliefs.relation[rows]))  # fmt: skip
    said = torch.nonzero(b.mentioned if kind == "relation_said" else torch.ones(len(b), dtype=torch.bool)).squeeze(1)
    some = beliefs if len(said) == len(b) else beliefs.take(said.numpy())

    def table(rows: Tensor) -> Tensor:
        asked = Batch.of(some, rows.numpy())
        if kind == "relation":
            return pbe.log_relations(asked.head, asked.tail)
        return pbe.log_relations_with_mention(asked.head, asked.tail, asked.words, asked.offsets)

    return _posed(b.relation[said], torch.arange(pbe.relations), table,
                  lambda rows: known.links(some.head[rows], some.tail[rows]))  # fmt: skip


def _posed(truth: Tensor, seen: Tensor, table: Callable[[Tensor], Tensor], known: Callable[[Ids], Pairs]) -> Posed:
    """`truth` are ids, `seen` the ids of the candidates, sorted."""
    place, there = _places(truth, seen)
    asked = torch.nonzero(there).squeeze(1)

    def left_aside(rows: Tensor) -> Tensor:
        found = table(asked[rows])
        question, answer = (torch.from_numpy(part) for part in known(asked[rows].numpy()))
        column, candidate = _places(answer, seen)
        other = candidate & (column != place[asked[rows]][question])
        found[question[other], column[other]] = -torch.inf
        return found

    return Posed(place[asked], left_aside)


def _places(ids: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Where each id stands among those seen, and whether it does."""
    place = torch.searchsorted(seen, ids).clamp_max(len(seen) - 1)
    return place, seen[place] == ids
