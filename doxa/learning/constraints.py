"""Constraints on the vectors of entities, restored after every step for the rows it moved."""

from __future__ import annotations

import torch
from torch import Tensor

from doxa.scores import Score


@torch.no_grad()
def constrain(score: Score, entities: Tensor, rule: str) -> None:
    """Put entity vectors back: onto the unit sphere (TransE), into the unit ball (TransH), or leave them free."""
    if rule == "free":
        return
    for name in score.entity_tables:
        table = score.get_parameter(f"{name}.weight")
        rows = table.index_select(0, entities)
        lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        least = 1e-12 if rule == "unit" else 1.0
        table.index_copy_(0, entities, rows / lengths.clamp_min(least))
