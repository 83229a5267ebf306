"""Candidates of a training step: drawn once per batch and shared by its beliefs, or drawn for each belief."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.estimators import Candidates
from doxa.pbe import PBE
from doxa.scores import Mention
from doxa.slots import ENTITY_SLOTS, Slot


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


def draw_candidates(pool: Candidates, count: int, random: np.random.Generator, corrected: bool = False) -> Candidates:
    """`count` distinct ids per slot, all equally likely; the whole pool where it has fewer.

    `corrected` candidates count for all that they stand for: Σ over the pool ≈ n / N · Σ over N of n candidates.
    """

    def draw(ids: Tensor) -> Tensor:
        if count >= len(ids):
            return ids
        return ids[torch.from_numpy(np.sort(random.choice(len(ids), count, replace=False, shuffle=False)))]

    heads, relations = draw(pool.heads), draw(pool.relations)
    drawn = Candidates(heads, relations, heads if pool.tails is pool.heads else draw(pool.tails))
    if not corrected:
        return drawn
    head, relation, tail = (_log_share(pool.of(slot), drawn.of(slot)) for slot in Slot)
    return replace(drawn, log_share=(head, relation, tail))


def corrected_for_part(
    drawn: Candidates, pool: Candidates, whole: tuple[int, int, int], settings: Settings
) -> Candidates:
    """Candidates of a part of the entities that count for as many false ones as those of the whole would.

    The truth of a belief is in its part for certain, every other entity by chance: by a random cut, m − 1 of the n − 1
    others of a pool of n are in a part whose pool has m. Drawn from the part are M, and false are M (m − 1) / m of them
    on average. Of the whole, N would be drawn and N (n − 1) / n false, or all n − 1 with the sampling correction:

        share = (false of the whole) / (M (m − 1) / m)
    """
    log_share = list(drawn.log_share)
    for slot in ENTITY_SLOTS:
        taken, part, every = len(drawn.of(slot)), len(pool.of(slot)), whole[slot]
        if taken == 0 or part < 2:
            continue
        exact = settings.sampling_correction or settings.training_estimator == "exact"
        share_of_whole = 1.0 if exact else min(settings.num_candidates, every) / every
        log_share[slot] = math.log(share_of_whole * (every - 1) / (taken * (part - 1) / part))
    return replace(drawn, log_share=(log_share[0], log_share[1], log_share[2]))


def draw_negatives(pool: Candidates, beliefs: int, count: int, random: np.random.Generator) -> Candidates:
    """`count` ids per slot for each of so many beliefs, (B, k), all equally likely and with repetition (Eqs 13–16)."""

    def draw(ids: Tensor) -> Tensor:
        if not len(ids):
            return ids.new_zeros(beliefs, 0)
        return ids[torch.from_numpy(random.integers(0, len(ids), (beliefs, count)))]

    return Candidates(draw(pool.heads), draw(pool.relations), draw(pool.tails))


def _log_share(pool: Tensor, drawn: Tensor) -> float:
    return math.log(len(pool) / len(drawn)) if len(drawn) else 0.0
