"""Candidates of a training step: drawn once per batch and shared by its beliefs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.estimators import Candidates
from doxa.pbe import PBE
from doxa.scores import Mention


def candidate_pool(pbe: PBE, settings: Settings) -> Candidates:
    """The ids that candidates are drawn from: E_h, R and E_t; all entities in margin ranking; none without a weight."""
    pool = Candidates.every(pbe)
    if settings.objective == "margin":
        entities = torch.arange(pbe.entities)
        pool = replace(pool, heads=entities, tails=entities)
    nothing = pool.heads[:0]
    with_words = isinstance(pbe.mention, Mention) and settings.mention_weight
    with_relations = settings.relation_weight or with_words
    return replace(
        pool,
        heads=pool.heads if settings.head_weight else nothing,
        relations=pool.relations if with_relations else nothing,
        tails=pool.tails if settings.tail_weight else nothing,
    )


def draw_candidates(pool: Candidates, count: int, random: np.random.Generator) -> Candidates:
    """`count` distinct ids per slot, all equally likely; the whole pool where it has fewer."""

    def draw(ids: Tensor) -> Tensor:
        if count >= len(ids):
            return ids
        return ids[torch.from_numpy(np.sort(random.choice(len(ids), count, replace=False, shuffle=False)))]

    heads, relations = draw(pool.heads), draw(pool.relations)
    return Candidates(heads, relations, heads if pool.tails is pool.heads else draw(pool.tails))
