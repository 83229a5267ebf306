"""Relation prediction: which relation holds between two entities, given the words that were said (Eqs 6, 10, 12)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import torch
from torch import Tensor

from doxa.data.mentions import encode_words, words
from doxa.data.vocabulary import Ids
from doxa.inference.answer import Answer, Asked
from doxa.model import Model


@torch.no_grad()
def relations(
    model: Model,
    heads: Sequence[str],
    tails: Sequence[str],
    mentions: Sequence[str | None],
    top: int = 10,
    new_only: bool = False,
) -> list[Answer]:
    """Pr(r|h,t,m) over all relations (Eq. 6); Pr(r|h,t) when there is no mention or none of its words is known."""
    model.must_answer("relation")
    vocabularies, pbe = model.vocabularies, model.pbe
    h, t = vocabularies.entities.require(heads), vocabularies.entities.require(tails)
    head, tail = torch.from_numpy(h), torch.from_numpy(t)
    said = encode_words(words(pl.Series(mentions, dtype=pl.String)), vocabularies.words.ids)
    heat, heat_said = model.temperatures.relation, model.temperatures.relation_said

    def logits(rows: Ids) -> Tensor:
        of_rows = said.take(rows)
        values, offsets = torch.from_numpy(of_rows.values), torch.from_numpy(of_rows.offsets)
        if pbe.mention is None:
            values, offsets = values[:0], torch.zeros_like(offsets)
        found = pbe.log_relations_with_mention(head[rows], tail[rows], values, offsets)
        spoken = (offsets[1:] > offsets[:-1]).to(found.dtype)[:, None]
        return found / (heat_said * spoken + heat * (1 - spoken))

    asked = Asked(
        np.arange(pbe.relations), vocabularies.relations, logits, lambda rows: model.known.links(h[rows], t[rows])
    )
    answers = asked.answers(pbe.blocks(len(h), pbe.relations), top, new_only)
    questions = [(h, "?", t, m) for h, t, m in zip(heads, tails, mentions, strict=True)]
    return [Answer(question, found) for question, found in zip(questions, answers, strict=True)]
