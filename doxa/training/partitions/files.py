"""Files of partitioned training, on any storage that fsspec reaches: arrays of rows, sorted by where they go.

A file holds columns of equal length. Rows with the same destination stand together, so that a reader takes its part
alone. Local files are mapped into memory; of other storage whole files are read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from doxa.data.atomic import to_disk
from doxa.errors import BadFile, UsageError

Columns = dict[str, NDArray[Any]]

BOUNDS = "bounds"
"""The column that says where the rows of each destination begin and end."""


class Storage:
    """A folder of columns and notes (JSON). Files are replaced whole: a reader never sees a part of one."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.url = url if "://" in url else str(Path(url).resolve())
        try:
            self._system, self._root = url_to_fs(self.url)
        except (ImportError, ValueError) as fault:
            raise UsageError(f"storage {url}: {fault}", "use a path, or a URL that fsspec knows") from fault
        self.is_local = isinstance(self._system, LocalFileSystem)

    def __reduce__(self) -> tuple[type[Storage], tuple[str]]:
        return Storage, (self.url,)

    def path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def write(self, name: str, columns: Mapping[str, NDArray[Any]]) -> int:
        """Write columns as one file; returns its bytes."""
        content = save({key: np.asarray(column, order="C") for key, column in columns.items()})
        self._put(name, content)
        return len(content)

    def read(self, name: str, columns: Sequence[str] = ()) -> Columns:
        """These columns of a file, or all; arrays of their own that may be written to."""
        return self._opened(name, None, columns)

    def read_part(self, name: str, destination: int) -> Columns:
        """The rows of a file that go to this destination."""
        return self._opened(name, destination, ())

    def _opened(self, name: str, destination: int | None, columns: Sequence[str]) -> Columns:
        try:
            if not self.is_local:
                return _part(load(self._system.cat_file(self.path(name))), destination, columns)
            with safe_open(self.path(name), framework="np") as stored:
                kept = columns or [key for key in stored.keys() if key != BOUNDS]  # noqa: SIM118
                if destination is None:
                    return {key: stored.get_tensor(key) for key in kept}
                start, end = stored.get_tensor(BOUNDS)[destination : destination + 2].tolist()
                if start == end:  # which slices refuse
                    return {key: stored.get_tensor(key)[:0] for key in kept}
                return {key: stored.get_slice(key)[start:end] for key in kept}
        except (OSError, SafetensorError, KeyError, ValueError) as fault:
            raise BadFile(f"cannot read {self.path(name)} of a partitioned run: {fault}") from fault

    def checksum(self, name: str) -> str:
        """The SHA-256 of a file, which is on the disk when this returns."""
        try:
            if self.is_local:
                to_disk(Path(self.path(name)))
            with self._system.open(self.path(name), "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as fault:
            raise BadFile(f"cannot read {self.path(name)} of a partitioned run: {fault}") from fault

    def write_note(self, name: str, content: Mapping[str, Any]) -> None:
        self._put(name, json.dumps(content, indent=1).encode())

    def read_note(self, name: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self._system.cat_file(self.path(name))))
        except (OSError, ValueError) as fault:
            raise BadFile(f"cannot read {self.path(name)} of a partitioned run: {fault}") from fault

    def names(self, folder: str = "") -> list[str]:
        """The names of what a folder of the storage holds."""
        place = self.path(folder) if folder else self._root
        if not self._system.exists(place):
            return []
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in self._system.ls(place, detail=False))

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there."""
        if self._system.exists(self.path(name)):
            self._system.rm(self.path(name), recursive=True)

    def _put(self, name: str, content: bytes) -> None:
        path = self.path(name)
        try:
            if not self.is_local:
                self._system.pipe_file(path, content)
                return
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            unfinished = Path(f"{path}.{os.getpid()}.partial")
            with unfinished.open("wb") as file:
                file.write(content)
            unfinished.replace(path)
        except OSError as fault:
            raise BadFile(f"cannot write {path}: {fault.strerror or fault}") from fault


def by_destination(columns: Mapping[str, NDArray[Any]], destination: NDArray[Any], count: int) -> Columns:
    """The rows sorted by destination, in their order where it is the same, and the bounds of each destination."""
    order = np.argsort(destination, kind="stable")
    bounds = np.searchsorted(destination[order], np.arange(count + 1)).astype(np.int64)
    return {name: column[order] for name, column in columns.items()} | {BOUNDS: bounds}


def _part(whole: Columns, destination: int | None, columns: Sequence[str]) -> Columns:
    kept = columns or [key for key in whole if key != BOUNDS]
    rows = slice(None) if destination is None else slice(*whole[BOUNDS][destination : destination + 2].tolist())
    return {key: whole[key][rows].copy() if whole[key].ndim else whole[key].copy() for key in kept}
