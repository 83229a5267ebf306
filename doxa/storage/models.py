"""Models in folders: written whole or not at all, read back as they were or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from doxa.calibration.judge import Judge
from doxa.config import Settings
from doxa.data.forks import read_texts
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.errors import BadModel, UsageError, resource_text
from doxa.model import Model
from doxa.pbe import PBE
from doxa.storage import folders, indexes
from doxa.storage.checks import check_judge
from doxa.storage.folders import AGAIN, MANIFEST
from doxa.storage.migrations import migrate
from doxa.systems import assemble, checked, from_saved

VOCABULARIES = {"entities": "entity", "relations": "relation", "words": "word"}

TRIES = 20
"""Times that a folder is read again because another process has replaced its model meanwhile."""


def save(model: Model, folder: Path, force: bool = False, keep_checkpoint: bool = False) -> None:
    """Write a model folder; `force` replaces an existing model, which readers see until the new one is whole.

    `keep_checkpoint` keeps the checkpoint of an interrupted run in the folder, so that it can be resumed.
    """
    if (folder / MANIFEST).exists() and not force:
        raise UsageError(f"{folder} already holds a model", "force=True replaces it", remedy="force")
    folders.check_ours(folder)
    with folders.writing(folder.resolve()):
        write(model, folder.resolve(), keep_checkpoint)


def write(model: Model, folder: Path, keep_checkpoint: bool = False) -> None:
    """Write a model into a folder whose lock the caller holds."""
    manifest = {
        "settings": model.settings.as_dict(),
        "origin": model.origin,
        "prefixes": model.vocabularies.prefixes,
        "judge": model.calibration.to_dict(model.vocabularies.relations),
        "curve": list(model.curve),
    }
    index = model.index if model.index is not None and model.index.pbe is model.pbe else None
    if index is not None:
        manifest["index"] = index.summary.as_dict()
    with folders.replaced(folder, manifest) as place:
        if index is not None:
            indexes.write(index, place)
        try:
            weights = {name: tensor.contiguous() for name, tensor in model.pbe.state_dict().items()}
            save_file(weights, place / "weights.safetensors")
            save_file(_facts(model), place / "facts.safetensors")
        except SafetensorError as fault:
            raise OSError(str(fault)) from fault
        try:
            for plural in VOCABULARIES:
                names = getattr(model.vocabularies, plural).names
                pl.DataFrame({"name": names}).write_parquet(place / f"{plural}.parquet")
        except pl.exceptions.PolarsError as fault:
            raise OSError(resource_text(fault) or str(fault)) from fault
    if not keep_checkpoint:
        folders.discard_run(folder)


def build_index(
    folder: Path,
    recall: float = 0.95,
    cells: int = 0,
    memory: int = 0,
    report: Callable[[float, str], None] | None = None,
) -> Model:
    """Build the index of a model folder and store it there, in place of an earlier one; see `Model.build_index`."""
    folder = folder.resolve()
    manifest, model = folders.read_manifest(folder), load(folder)
    if manifest["version"] < folders.VERSION:
        save(model, folder, force=True, keep_checkpoint=True)
        manifest = folders.read_manifest(folder)
    indexed = model.build_index(recall, cells, memory, report)
    assert indexed.index is not None
    indexes.add(indexed.index, folder, manifest["files"]["weights"]["sha256"])
    return indexed


def _facts(model: Model) -> dict[str, torch.Tensor]:
    small = torch.int32 if len(model.vocabularies.entities) < 2**31 else torch.int64
    facts = {
        name: torch.from_numpy(np.ascontiguousarray(triples)).to(small)
        for name, triples in (("train", model.train), ("valid", model.valid))
    }
    if len(model.known_confidence):
        facts["confidence"] = torch.from_numpy(model.known_confidence).float()
    return facts


def load(folder: Path, everything: bool = False, mapped: bool = False) -> Model:
    """Read a model folder; a damaged, unfinished or foreign folder is refused with the reason.

    Files are compared with their checksums, above `CHECKED_BYTES` only with `everything`. The vectors of a `mapped`
    model stay in their file, mapped into memory, so that several processes share them; the file is not checked.
    """
    for _ in range(TRIES):
        manifest = folders.read_manifest(folder)
        try:
            return _load(folder, manifest, everything, mapped)
        except BadModel:
            if folders.read_manifest(folder) == manifest:
                raise
    raise BadModel(f"{folder} is being replaced again and again", "try again later")


def _load(folder: Path, manifest: dict[str, Any], everything: bool, mapped: bool) -> Model:
    files = folders.entries(folder, manifest)
    if not mapped:
        folders.check_files(folder, files, everything)
    try:
        texts = read_texts([files[plural].path for plural in VOCABULARIES], "name")
        names = {
            plural: Vocabulary(column, kind, manifest.get("prefixes"))
            for (plural, kind), column in zip(VOCABULARIES.items(), texts, strict=True)
        }
        weights = load_file(files["weights"].path)
        weights = weights if mapped else _aligned(weights)
        facts = load_file(files["facts"].path)
        manifest, weights, facts = migrate(manifest, weights, facts)
        if not mapped:
            _check_finite(weights, folder)
        settings = checked(from_saved(manifest["settings"]))
        vocabularies = Vocabularies(**names, places=settings.marks_places)
        judge = Judge.from_dict(manifest["judge"], vocabularies.relations)
        check_judge(judge, len(vocabularies.relations))
        pbe = _pbe(settings, vocabularies, weights)
        model = Model(
            settings=settings,
            vocabularies=vocabularies,
            pbe=pbe,
            train=_triples(facts["train"], vocabularies),
            valid=_triples(facts["valid"], vocabularies),
            calibration=judge,
            known_confidence=facts["confidence"].double().numpy() if "confidence" in facts else np.zeros(0),
            origin=dict(manifest["origin"]),
            curve=tuple(dict(record) for record in manifest["curve"]),
            index=indexes.read(folder, manifest, pbe, everything),
        )
        pbe.count_loops(model.trained_facts)
        return model
    except BadModel:
        raise
    except PermissionError as fault:
        raise BadModel(f"cannot read {fault.filename or folder}: permission denied") from fault
    except (Exception, pl.exceptions.PanicException) as fault:  # whatever a damaged or forged file makes of it
        raise BadModel(f"{folder} is not a whole model: {type(fault).__name__}: {fault}", AGAIN) from fault


def _triples(stored: torch.Tensor, vocabularies: Vocabularies) -> NDArray[np.int64]:
    """Facts as ids, (n, 3), refused where an id has no name."""
    triples: NDArray[np.int64] = stored.long().numpy()
    entities, relations = len(vocabularies.entities), len(vocabularies.relations)
    if len(triples) and not ((triples >= 0) & (triples < [entities, relations, entities])).all():
        raise ValueError("a fact has a name that is not in the vocabulary")
    return triples


def _check_finite(weights: dict[str, torch.Tensor], folder: Path) -> None:
    for name, tensor in weights.items():
        if not bool(torch.isfinite(tensor).all()):
            raise BadModel(f"{folder}: the weights {name} have values that are not finite", AGAIN)


def _aligned(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies at aligned addresses: safetensors leaves tensors where the file has them, and matrix products of
    unaligned tensors round differently on some processors."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _pbe(settings: Settings, vocabularies: Vocabularies, weights: dict[str, torch.Tensor]) -> PBE:
    """The weights as a model; sizes that are not theirs are refused before any memory is taken for them."""
    with torch.device("meta"):
        pbe = assemble(
            settings,
            entities=len(vocabularies.entities),
            relations=len(vocabularies.relations),
            words=len(vocabularies.words),
            seen_heads=weights["seen_heads"],
            seen_tails=weights["seen_tails"],
            draw=False,
        )
    pbe.load_state_dict(weights, assign=True)
    return pbe.eval()
