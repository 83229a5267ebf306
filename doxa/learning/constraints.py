"""Constraints on the vectors of entities, restored after every step for the rows it moved."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from doxa.pbe import PBE

Constraint = Callable[[Tensor], Tensor]
"""Rows put back to where they may lie."""


def constraints(pbe: PBE, rule: str) -> dict[str, Constraint]:
    """By the name of each table of entities: onto the unit sphere (TransE), into the unit ball (TransH), or free."""
    if rule == "free":
        return {}
    least = 1e-12 if rule == "unit" else 1.0

    def put_back(rows: Tensor) -> Tensor:
        lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return rows / lengths.clamp_min_(least)

    return {f"score.{name}.weight": put_back for name in pbe.score.entity_tables}


@torch.no_grad()
def constrain(pbe: PBE, rule: str) -> None:
    """Put every entity vector back, before the first step."""
    for name, put_back in constraints(pbe, rule).items():
        table = pbe.get_parameter(name)
        table.copy_(put_back(table))
