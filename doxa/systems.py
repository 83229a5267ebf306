"""Systems: the recipes of the paper. Each is a score, an objective, a sampler and constraints under one name."""

from __future__ import annotations

import numpy as np
import torch

from doxa.beliefs import Beliefs
from doxa.pbe import PBE
from doxa.scores import SCORES, Mention
from doxa.settings import Settings


def build(beliefs: Beliefs, settings: Settings) -> PBE:
    """An unlearnt model for these beliefs, its weights drawn from the seed alone."""
    return assemble(
        settings,
        entities=len(beliefs.names.entities),
        relations=len(beliefs.names.relations),
        words=len(beliefs.names.words),
        seen_heads=torch.from_numpy(np.unique(beliefs.head)),
        seen_tails=torch.from_numpy(np.unique(beliefs.tail)),
    )


def assemble(
    settings: Settings, *, entities: int, relations: int, words: int, seen_heads: torch.Tensor, seen_tails: torch.Tensor
) -> PBE:
    """The model of these sizes: PBE over the chosen score, with the mention term where there are words."""
    generator = torch.Generator().manual_seed(settings.seed)
    score = SCORES[settings.score](entities, relations, settings, generator)
    mention = Mention(words, settings.dimension) if settings.mentions and words else None
    return PBE(score, mention, seen_heads, seen_tails, settings.scale or score.default_scale)
