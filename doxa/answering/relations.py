"""Relation prediction: which relation holds between two entities, given the words that were said (Eqs 6, 10, 12)."""

from __future__ import annotations

import numpy as np
import polars as pl
import torch

from doxa.answering.answer import Answer, ranked
from doxa.learnt import Learnt
from doxa.mentions import words


@torch.no_grad()
def relations(
    learnt: Learnt, head: str, tail: str, mention: str | None = None, top: int = 10, new_only: bool = False
) -> Answer:
    """Pr(r|h,t,m) over all relations (Eq. 6); Pr(r|h,t) when there is no mention or none of its words is known."""
    learnt.must_answer("relation")
    names, pbe = learnt.names, learnt.pbe
    h, t = np.array([names.entities.id(head)]), np.array([names.entities.id(tail)])
    said = names.words.ids(words(pl.Series([mention], dtype=pl.String))[0])
    said = said[said >= 0] if pbe.mention is not None else said[:0]
    logits = pbe.log_relations_with_mention(
        torch.from_numpy(h), torch.from_numpy(t), torch.from_numpy(said), torch.tensor([0, len(said)])
    )[0]
    temperature = learnt.temperatures.relation_said if len(said) else learnt.temperatures.relation
    known = learnt.known.links(h, t)[1]
    answers = ranked(logits / temperature, np.arange(pbe.relations), known, names.relations, top, new_only)
    return Answer((head, "?", tail, mention), answers)
