"""Entity inference: which tail, which head is missing (Eqs 8, 9)."""

from __future__ import annotations

import numpy as np
import torch

from doxa.answering.answer import Answer, ranked
from doxa.learnt import Learnt


@torch.no_grad()
def tails(learnt: Learnt, head: str, relation: str, top: int = 10, new_only: bool = False) -> Answer:
    """Pr(t|h,r) over all entities seen as a tail (Eq. 8). `new_only` lists only what is not yet known."""
    learnt.must_answer("entity")
    names, pbe = learnt.names, learnt.pbe
    h, r = np.array([names.entities.id(head)]), np.array([names.relations.id(relation)])
    logits = pbe.log_tails(torch.from_numpy(h), torch.from_numpy(r))[0] / learnt.temperatures.tail
    known = learnt.known.tails(h, r)[1]
    answers = ranked(logits, pbe.seen_tails.numpy(), known, names.entities, top, new_only)
    return Answer((head, relation, "?", None), answers)


@torch.no_grad()
def heads(learnt: Learnt, relation: str, tail: str, top: int = 10, new_only: bool = False) -> Answer:
    """Pr(h|r,t) over all entities seen as a head (Eq. 9). `new_only` lists only what is not yet known."""
    learnt.must_answer("entity")
    names, pbe = learnt.names, learnt.pbe
    r, t = np.array([names.relations.id(relation)]), np.array([names.entities.id(tail)])
    logits = pbe.log_heads(torch.from_numpy(r), torch.from_numpy(t))[0] / learnt.temperatures.head
    known = learnt.known.heads(r, t)[1]
    answers = ranked(logits, pbe.seen_heads.numpy(), known, names.entities, top, new_only)
    return Answer(("?", relation, tail, None), answers)
