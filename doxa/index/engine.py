"""faiss, which is optional, and arrays as it takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.errors import CannotAnswer

BLOCK = 65_536
"""Vectors that are compared with the centroids, or encoded, at a time."""


def engine() -> Any:
    """faiss, with as many threads as torch; an error that says what to install where it is missing."""
    try:
        import faiss  # optional
    except ImportError:
        raise CannotAnswer(
            "an index needs faiss, which is not installed", "install it: pip install 'doxa[index]'", remedy="exact"
        ) from None
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def array_of(vectors: Tensor) -> NDArray[np.float32]:
    """Vectors as an array of faiss."""
    return np.ascontiguousarray(vectors.detach().float().numpy())
