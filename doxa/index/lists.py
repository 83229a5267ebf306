"""The vectors of the cells as faiss holds them (an inverted file), and the search in it.

| metric | codes | compared by |
|---|---|---|
| product, L2 | one byte per coordinate, of the difference to the centroid | inner product, squared L2 distance |
| L1 | four bytes per coordinate: faiss has no shorter codes for L1 | L1 distance |

Codes make a shortlist, whose exact logits are computed from the model's vectors, and rough scores of the next members.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.data.vocabulary import Ids
from doxa.errors import BadModel
from doxa.index.cells import Cells
from doxa.index.engine import BLOCK, array_of, engine

Mask = NDArray[np.uint8]
"""Members by place, a bit for each."""


class Lists:
    """The encoded vectors of the members of cells, by place; in memory, or in a file that is mapped when needed."""

    def __init__(self, index: Any = None, path: Path | None = None) -> None:
        self._index, self._path = index, path

    @classmethod
    def build(cls, metric: str, vectors: Tensor, cells: Cells) -> Lists:
        """Encode the vectors of all members."""
        faiss, width = engine(), vectors.shape[1]
        middle = faiss.IndexFlatL2(width)
        middle.add(array_of(cells.centroids))
        if metric == "L1":
            index = faiss.IndexIVFFlat(middle, width, len(cells), faiss.METRIC_L1)
        else:
            kind = faiss.METRIC_L2 if metric == "L2" else faiss.METRIC_INNER_PRODUCT
            index = faiss.IndexIVFScalarQuantizer(middle, width, len(cells), faiss.ScalarQuantizer.QT_8bit, kind, True)
        sample = np.random.default_rng(0).permutation(len(cells.members))[:BLOCK]
        index.train(array_of(vectors[torch.from_numpy(np.sort(cells.members[sample]))]))
        number = np.repeat(np.arange(len(cells)), cells.sizes)
        for start in range(0, len(number), BLOCK):
            span = slice(start, start + BLOCK)
            rows = array_of(vectors[torch.from_numpy(cells.members[span])])
            places, assigned = np.arange(start, start + len(rows)), np.ascontiguousarray(number[span])
            pointers = [faiss.swig_ptr(array) for array in (rows, places, assigned)]
            index.add_core(len(rows), *pointers)
        return cls(index)

    @property
    def index(self) -> Any:
        """The index of faiss; read when first used, and not copied into memory."""
        if self._index is None:
            faiss = engine()
            try:
                self._index = faiss.read_index(str(self._path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
            except RuntimeError as fault:
                raise BadModel(f"cannot read {self._path}", "load the model again, or build its index again") from fault
        return self._index

    def write(self, path: Path) -> None:
        """Write the file."""
        if self._path is not None:
            shutil.copyfile(self._path, path)
        else:
            engine().write_index(self.index, str(path))

    def search(
        self, points: Tensor, cells: Ids, scores: NDArray[np.float32], count: int, mask: Mask | None
    ) -> tuple[Ids, NDArray[np.float32]]:
        """The places of the `count` best members of these cells for each point, (B, d), (B, P) → (B, count); −1 = none.

        The best comes first. The second array are inner products, or negative distances, by the codes. `scores` (B, P)
        are the inner products of points and centroids; distances do not need them. With a `mask`, only its members are
        looked at.
        """
        faiss, index, rows = engine(), self.index, array_of(points)
        best, distance = np.empty((len(rows), count), np.int64), np.empty((len(rows), count), np.float32)
        cells, scores = np.ascontiguousarray(cells, np.int64), np.ascontiguousarray(scores, np.float32)
        options = faiss.SearchParametersIVF(nprobe=cells.shape[1])
        if mask is not None:
            selector = faiss.IDSelectorBitmap(len(mask), faiss.swig_ptr(mask))
            options = faiss.SearchParametersIVF(nprobe=cells.shape[1], sel=selector)
        pointers = [faiss.swig_ptr(array) for array in (cells, scores, distance, best)]
        index.search_preassigned_c(len(rows), faiss.swig_ptr(rows), count, *pointers, False, options)
        if index.metric_type == faiss.METRIC_INNER_PRODUCT:
            return best, distance
        return best, -(np.sqrt(np.maximum(distance, 0)) if index.metric_type == faiss.METRIC_L2 else distance)


def mask_of(members: NDArray[np.bool_]) -> Mask:
    """The mask of these members, (n,), for `Lists.search`."""
    return np.packbits(members, bitorder="little")
