"""Cells: the entities that can be answers, grouped by similar vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.data.vocabulary import Ids
from doxa.index.centroids import nearest
from doxa.slots import Slot


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of similar entities, C of them, each with a centroid.

    `members` (n,) are the ids of the entities, cell by cell. Within a cell come those seen only as head in training,
    then those seen as both, then those seen only as tail; `bounds` (C, 4) are the places where the cell begins, where
    its tails begin, where its heads end, and where the cell ends. So the candidates of either slot are a range.
    `centroids` are (C, d); `spread` (C,) is the standard deviation of a member's coordinate from its centroid.
    """

    centroids: Tensor
    spread: Tensor
    members: Ids
    bounds: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.bounds)

    def first(self, slot: Slot) -> Ids:
        """The place of the first candidate of a slot in each cell, (C,)."""
        return self.bounds[:, 0] if slot is Slot.HEAD else self.bounds[:, 1]

    def counts(self, slot: Slot) -> Ids:
        """The number of candidates of a slot in each cell, (C,)."""
        return self._counts[slot]

    @cached_property
    def _counts(self) -> dict[Slot, Ids]:
        begin, tails_begin, heads_end, end = self.bounds.T
        return {Slot.HEAD: heads_end - begin, Slot.TAIL: end - tails_begin}

    @property
    def sizes(self) -> Ids:
        """The number of members of each cell, (C,)."""
        return self.bounds[:, 3] - self.bounds[:, 0]

    def tensors(self) -> dict[str, Tensor]:
        """Everything as tensors, to be stored."""
        small = torch.int32 if len(self.members) < 2**31 else torch.int64
        return {
            "centroids": self.centroids.contiguous(),
            "spread": self.spread.contiguous(),
            "members": torch.from_numpy(self.members).to(small),
            "bounds": torch.from_numpy(self.bounds),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], entities: int) -> Cells:
        """The cells that were stored; a ValueError where they are not cells of so many entities."""
        members, bounds = tensors["members"].long().numpy(), tensors["bounds"].long().numpy()
        cells = cls(tensors["centroids"].clone(), tensors["spread"].clone(), members, bounds)
        count, rising = len(members), bounds.ndim == 2 and bounds.shape[1] == 4 and len(bounds)
        if not rising or len(cells.centroids) != len(bounds) or len(cells.spread) != len(bounds):
            raise ValueError("centroids and bounds of the cells do not belong together")
        joined = bounds[0, 0] == 0 and bounds[-1, 3] == count and (bounds[1:, 0] == bounds[:-1, 3]).all()
        ordered = (bounds[:, :1] <= bounds).all() and (bounds <= bounds[:, 3:]).all()
        if not (joined and ordered and ((members >= 0) & (members < entities)).all()):
            raise ValueError("the cells are not a partition of the entities")
        return cells


def make_cells(
    vectors: Tensor,
    heads: Ids,
    tails: Ids,
    centroids: NDArray[np.float32],
    report: Callable[[float], None] = lambda share: None,
) -> Cells:
    """Put every candidate, by id seen as head or tail, into the cell of its nearest centroid (L2), or nearly so.

    `vectors` (E, d) are those of all entities. Cells without a member are dropped. `report` receives the share done.
    """
    is_head, is_tail = (np.zeros(len(vectors), bool) for _ in range(2))
    is_head[heads], is_tail[tails] = True, True
    ids = np.flatnonzero(is_head | is_tail)
    cell, squares = nearest(vectors, ids, centroids, report)
    group = 1 - is_head[ids].astype(np.int8) + is_tail[ids].astype(np.int8)  # 0 head only, 1 both, 2 tail only
    order = np.lexsort((group, cell))
    present, cell = np.unique(cell, return_inverse=True)
    sizes = np.bincount(3 * cell + group, minlength=3 * len(present)).reshape(-1, 3)
    ends = np.cumsum(sizes.ravel()).reshape(-1, 3)
    bounds = np.concatenate([ends[:, :1] - sizes[:, :1], ends], axis=1)
    spread = np.sqrt(np.bincount(cell, squares) / sizes.sum(1) / vectors.shape[1])
    return Cells(torch.from_numpy(centroids[present]), torch.from_numpy(spread.astype(np.float32)), ids[order], bounds)
