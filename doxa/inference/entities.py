"""Entity inference: which tail, which head is missing (Eqs 8, 9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from doxa.data.triples import Pairs
from doxa.data.vocabulary import Ids
from doxa.inference.answer import Answer, Asked, Candidate
from doxa.model import Model


@torch.no_grad()
def tails(
    model: Model, heads: Sequence[str], relations: Sequence[str], top: int = 10, new_only: bool = False
) -> list[Answer]:
    """Pr(t|h,r) over all entities seen as a tail (Eq. 8). With `new_only`, among
    those that are not yet known."""
    model.must_answer("entity")
    vocabularies, pbe = model.vocabularies, model.pbe
    head_ids, relation_ids = vocabularies.entities.require(heads), vocabularies.relations.require(relations)
    head, relation = torch.from_numpy(head_ids), torch.from_numpy(relation_ids)

    def logits(rows: Ids, candidates: Tensor | None) -> Tensor:
        return pbe.tail_logits(head[rows], relation[rows], candidates).div_(model.temperatures.tail)

    def known(rows: Ids) -> Pairs:
        return model.known.tails(head_ids[rows], relation_ids[rows])

    answers = _answers(model, len(heads), pbe.seen_tails, logits, known, top, new_only)
    return [Answer((h, r, "?", None), found) for h, r, found in zip(heads, relations, answers, strict=True)]


@torch.no_grad()
def heads(
    model: Model, relations: Sequence[str], tails: Sequence[str], top: int = 10, new_only: bool = False
) -> list[Answer]:
    """Pr(h|r,t) over all entities seen as a head (Eq. 9). With `new_only`, among
    those that are not yet known."""
    model.must_answer("entity")
    vocabularies, pbe = model.vocabularies, model.pbe
    relation_ids, tail_ids = vocabularies.relations.require(relations), vocabularies.entities.require(tails)
    relation, tail = torch.from_numpy(relation_ids), torch.from_numpy(tail_ids)

    def logits(rows: Ids, candidates: Tensor | None) -> Tensor:
        return pbe.head_logits(relation[rows], tail[rows], candidates).div_(model.temperatures.head)

    def known(rows: Ids) -> Pairs:
        return model.known.heads(relation_ids[rows], tail_ids[rows])

    answers = _answers(model, len(relations), pbe.seen_heads, logits, known, top, new_only)
    return [Answer(("?", r, t, None), found) for r, t, found in zip(relations, tails, answers, strict=True)]


def _answers(
    model: Model,
    count: int,
    seen: Tensor,
    logits: Callable[[Ids, Tensor | None], Tensor],
    known: Callable[[Ids], Pairs],
    top: int,
    new_only: bool,
) -> list[tuple[Candidate, ...]]:
    """The best of the entities seen in that position.

    Where they are most of all entities, all are scored and the others struck out, which spares looking vectors up.
    """
    entities = model.pbe.entities
    if 2 * len(seen) < entities:
        asked = Asked(seen.numpy(), model.vocabularies.entities, lambda rows: logits(rows, seen), known)
        return asked.answers(model.pbe.blocks(count, len(seen)), top, new_only)
    never = torch.ones(entities, dtype=torch.bool).index_fill_(0, seen, False).nonzero().squeeze(1)
    asked = Asked(
        np.arange(entities),
        model.vocabularies.entities,
        lambda rows: logits(rows, None).index_fill_(1, never, -torch.inf),
        known,
    )
    return asked.answers(model.pbe.blocks(count, entities), top, new_only)
