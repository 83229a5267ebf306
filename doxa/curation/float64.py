"""Double precision: a float64 copy of the probability model, whose sums do not depend on the size of the blocks."""

from __future__ import annotations

import copy

import torch

from doxa.pbe import PBE


def float64_copy(pbe: PBE) -> PBE:
    """The same weights in float64; `pbe` itself where it is in float64 already."""
    return pbe if pbe.score.entity.weight.dtype == torch.float64 else copy.deepcopy(pbe).double()
