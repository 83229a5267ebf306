"""The index of a model in its folder: two more files that model.json lists, with the weights that they belong to."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from doxa.errors import BadModel
from doxa.index.cells import Cells
from doxa.index.entity_index import EntityIndex, IndexSummary
from doxa.index.lists import Lists
from doxa.pbe import PBE
from doxa.storage import folders

log = logging.getLogger(__name__)

REBUILD = "build it again: doxa index MODEL"


def write(index: EntityIndex, place: Path) -> None:
    """Write the two files of an index into a workspace."""
    try:
        save_file(index.cells.tensors(), place / "cells.safetensors")
        index.lists.write(place / "lists.faiss")
    except (SafetensorError, RuntimeError) as fault:
        raise OSError(str(fault)) from fault


def add(index: EntityIndex, folder: Path, weights: str) -> None:
    """Add an index to a model folder, in place of an earlier index; nothing else changes.

    `weights` is the SHA-256 of the weights that it was made of; a folder that has others meanwhile is refused.
    """
    with folders.writing(folder):
        manifest = folders.read_manifest(folder)
        if manifest["files"]["weights"]["sha256"] != weights:
            raise BadModel(f"the model in {folder} was replaced while its index was built", REBUILD)
        files = {part: manifest["files"][part] for part in folders.ENDINGS}
        with folders.replaced(folder, manifest | {"files": files, "index": index.summary.as_dict()}) as place:
            write(index, place)


def read(folder: Path, manifest: dict[str, Any], pbe: PBE, everything: bool = False) -> EntityIndex | None:
    """The index of a model folder; None where there is none, or where it is damaged or of other weights.

    With `everything`, checksums are compared whatever the sizes, and a damaged index is an error.
    """
    if "index" not in manifest:
        return None
    try:
        files = folders.index_entries(folder, manifest)
        folders.check_files(folder, files, everything)
        summary = dict(manifest["index"])
        if summary.pop("weights", None) != manifest["files"]["weights"]["sha256"]:
            raise BadModel(f"the index of {folder} is of other weights", REBUILD)
        cells = Cells.from_tensors(load_file(files["cells"].path), pbe.entities)
        if cells.centroids.shape[1] != pbe.score.entity.weight.shape[1]:
            raise ValueError("the centroids have another dimension than the entities")
        return EntityIndex(pbe, cells, Lists(path=files["lists"].path), IndexSummary(**summary))
    except BadModel as fault:
        if everything:
            raise
        log.warning("%s; it is not used: %s", fault.message, REBUILD)
    except Exception as fault:  # whatever a damaged or forged file makes of it
        if everything:
            raise BadModel(f"the index of {folder} is damaged: {type(fault).__name__}: {fault}", REBUILD) from fault
        log.warning("the index of %s is damaged (%s); it is not used: %s", folder, fault, REBUILD)
    return None
