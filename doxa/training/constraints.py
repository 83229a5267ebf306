"""Constraints on the vectors of entities, restored after every step for the rows it moved.

A vector is divided by its length, or by a least length where that is more.
"""

from __future__ import annotations

import torch

from doxa.pbe import PBE

LEAST = {"unit": 1e-12, "ball": 1.0}
"""Onto the unit sphere (TransE), into the unit ball (TransH)."""


def constraints(pbe: PBE, rule: str) -> dict[str, float]:
    """The least length by the name of each table of entities; none where they are free."""
    return {f"score.{name}.weight": LEAST[rule] for name in pbe.score.entity_tables} if rule in LEAST else {}


@torch.no_grad()
def constrain(pbe: PBE, rule: str) -> None:
    """Put every entity vector back, before the first step."""
    for name, least in constraints(pbe, rule).items():
        table = pbe.get_parameter(name)
        table.div_(torch.linalg.vector_norm(table, dim=1, keepdim=True).clamp_min_(least))
