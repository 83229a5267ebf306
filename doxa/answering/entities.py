"""Entity inference: which tail, which head is missing (Eqs 8, 9)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from doxa.answering.answer import Answer, Asked
from doxa.learnt import Learnt


@torch.no_grad()
def tails(
    learnt: Learnt, heads: Sequence[str], relations: Sequence[str], top: int = 10, new_only: bool = False
) -> list[Answer]:
    """Pr(t|h,r) over all entities seen as a tail (Eq. 8). `new_only` lists only what is not yet known."""
    learnt.must_answer("entity")
    names, pbe = learnt.names, learnt.pbe
    head_ids, relation_ids = names.entities.every(heads), names.relations.every(relations)
    head, relation = torch.from_numpy(head_ids), torch.from_numpy(relation_ids)
    asked = Asked(
        pbe.seen_tails.numpy(),
        names.entities,
        lambda rows: pbe.tail_logits(head[rows], relation[rows], pbe.seen_tails).div_(learnt.temperatures.tail),
        lambda rows: learnt.known.tails(head_ids[rows], relation_ids[rows]),
    )
    answers = asked.answers(pbe.blocks(len(heads), len(pbe.seen_tails)), top, new_only)
    return [Answer((h, r, "?", None), found) for h, r, found in zip(heads, relations, answers, strict=True)]


@torch.no_grad()
def heads(
    learnt: Learnt, relations: Sequence[str], tails: Sequence[str], top: int = 10, new_only: bool = False
) -> list[Answer]:
    """Pr(h|r,t) over all entities seen as a head (Eq. 9). `new_only` lists only what is not yet known."""
    learnt.must_answer("entity")
    names, pbe = learnt.names, learnt.pbe
    relation_ids, tail_ids = names.relations.every(relations), names.entities.every(tails)
    relation, tail = torch.from_numpy(relation_ids), torch.from_numpy(tail_ids)
    asked = Asked(
        pbe.seen_heads.numpy(),
        names.entities,
        lambda rows: pbe.head_logits(relation[rows], tail[rows], pbe.seen_heads).div_(learnt.temperatures.head),
        lambda rows: learnt.known.heads(relation_ids[rows], tail_ids[rows]),
    )
    answers = asked.answers(pbe.blocks(len(relations), len(pbe.seen_heads)), top, new_only)
    return [Answer(("?", r, t, None), found) for r, t, found in zip(relations, tails, answers, strict=True)]
