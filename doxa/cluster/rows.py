"""Row functions on a Ray cluster: blocks of rows on a memory-mapped model, their tables in Parquet files.

The file of a block is named by its content, so a command that is run again goes on from the files that are there.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl

from doxa.cluster.connection import cores_of, error_of, is_lost
from doxa.data.atomic import written
from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Ids, Vocabularies
from doxa.errors import BadModel, DoxaError
from doxa.inference.rows import RowFunction
from doxa.model import Model
from doxa.storage import folders
from doxa.storage.models import load

log = logging.getLogger(__name__)

BLOCK = 2000
"""Rows of a block, unless the caller says otherwise."""

AHEAD = 2
"""Blocks that wait for each core, so that no core waits for the next block."""

ATTEMPTS = 20
"""Times that a block is started before the command gives up."""

NO_NAMES = Vocabularies.empty()


class ClusterRows:
    """Runs row functions on a cluster, for the model of a folder that all its nodes can read."""

    def __init__(
        self, ray: ModuleType, folder: Path, parts: Path, report: Callable[[float], None] | None = None
    ) -> None:
        self._ray, self._folder, self._parts, self._report = ray, folder.resolve(), parts, report
        self._model_sum = _model_sum(folder)

    def run(
        self, function: RowFunction, count: int, rows_of: Callable[[Ids], Any], options: Any, block: int = 0
    ) -> pl.DataFrame:
        """The tables of all blocks, in their order; those of an earlier run are read from their files."""
        ray, size = self._ray, block or BLOCK
        shared = ray.put((str(self._folder), self._model_sum, function, options))
        about = hashlib.sha256(pickle.dumps((self._model_sum, function.__name__, options)))
        task = ray.remote(_run_block).options(max_retries=0, num_cpus=1)
        starts = list(range(0, count, size)) or [0]
        paths: list[Path] = []
        running: dict[Any, tuple[Path, Any, int]] = {}
        for number, start in enumerate(starts):
            rows = _without_names(rows_of(np.arange(start, min(start + size, count))))
            digest = about.copy()
            digest.update(pickle.dumps(rows))
            paths.append(self._parts / f"{function.__name__}-{number:06d}-{digest.hexdigest()[:16]}.parquet")
            if not paths[-1].exists():
                running[task.remote([shared], rows)] = (paths[-1], rows, 1)
            while len(running) > AHEAD * cores_of(ray):
                self._collect(task, shared, running)
            self._tell((number + 1 - len(running)) / len(starts))
        while running:
            self._collect(task, shared, running)
            self._tell(1 - len(running) / len(starts))
        return pl.concat([pl.read_parquet(path) for path in paths])

    def _collect(self, task: Any, shared: Any, running: dict[Any, tuple[Path, Any, int]]) -> None:
        """Write the table of a block that is done; a block that was lost is started again."""
        done, _ = self._ray.wait(list(running), num_returns=1)
        path, rows, attempts = running.pop(done[0])
        try:
            table: pl.DataFrame = self._ray.get(done[0])
        except Exception as fault:  # Ray raises many kinds
            if not is_lost(fault):
                raise error_of(fault) from fault
            if attempts >= ATTEMPTS:
                raise DoxaError(f"the cluster lost a block {ATTEMPTS} times: {fault}", "look at its nodes") from fault
            log.warning("a worker of the cluster was lost; its block is run again")
            running[task.remote([shared], rows)] = (path, rows, attempts + 1)
            return
        with written(path) as unfinished:
            table.write_parquet(unfinished)

    def _tell(self, share: float) -> None:
        if self._report:
            self._report(share)


def _without_names(rows: Any) -> Any:
    """Beliefs without vocabularies and text, which the other side has or needs not."""
    return replace(rows, vocabularies=NO_NAMES, text=None) if isinstance(rows, Beliefs) else rows


def _run_block(shared: list[Any], rows: Any) -> pl.DataFrame:
    """One block in a worker of the cluster."""
    folder, model_sum, function, options = _inputs(shared[0])
    model = _model(folder, model_sum)
    if isinstance(rows, Beliefs):
        rows = replace(rows, vocabularies=model.vocabularies)
    return function(model, rows, options)


@lru_cache(maxsize=2)
def _inputs(reference: Any) -> tuple[str, str, RowFunction, Any]:
    """What all blocks of a command share; read once by a worker, so that it is the same object for all of them."""
    import ray

    inputs: tuple[str, str, RowFunction, Any] = ray.get(reference)
    return inputs


@lru_cache(maxsize=1)
def _model(folder: str, model_sum: str) -> Model:
    """The model of a worker, mapped into memory; all workers of a machine share its pages.

    `model_sum` is that of the command's model: a folder whose model was replaced has another one, and is refused.
    """
    import torch

    torch.set_num_threads(1)
    model = load(Path(folder), mapped=True)
    if _model_sum(Path(folder)) != model_sum:
        raise BadModel(f"the model in {folder} was replaced while the command was using it", "run the command again")
    return model


def _model_sum(folder: Path) -> str:
    return str(folders.read_manifest(folder).get("sha256", ""))
