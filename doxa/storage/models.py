"""The model folder: self-contained, versioned, written whole or not at all.

model.json              version, settings, judge, origin, learning curve; sizes of the other files
weights.safetensors     the vectors
facts.safetensors       known facts of train and valid as ids, and their confidence
entities.parquet …      names in the order of their ids (also relations, words)
checkpoint.safetensors  only while a run is unfinished
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from doxa.calibration.judge import Judge
from doxa.config import Settings
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.errors import BadModel, UsageError
from doxa.model import Model
from doxa.pbe import PBE
from doxa.storage.migrations import migrate
from doxa.systems import assemble, from_saved

FORMAT = "doxa model"
VERSION = 2
MANIFEST = "model.json"
CHECKPOINT = "checkpoint.safetensors"
VOCABULARIES = {"entities": "entity", "relations": "relation", "words": "word"}


def save(model: Model, folder: Path, force: bool = False, keep_checkpoint: bool = False) -> None:
    """Write the folder under another name, then move it into place. `force` replaces an existing model.

    `keep_checkpoint` keeps the checkpoint of an interrupted run in the folder, so that it can be resumed.
    """
    if (folder / MANIFEST).exists() and not force:
        raise UsageError(f"{folder} already holds a model", "force=True replaces it", remedy="force")
    _check_ours(folder)
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            _write(model, unfinished)
            unfinished.chmod(0o755)
            if keep_checkpoint and (folder / CHECKPOINT).exists():
                shutil.copy2(folder / CHECKPOINT, unfinished / CHECKPOINT)
            _move_in(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except (OSError, SafetensorError) as fault:
        raise BadModel(f"cannot write the model to {folder}: {fault}") from fault


def load(folder: Path) -> Model:
    """Read a model folder; a damaged, unfinished or foreign folder is refused with the reason."""
    manifest = _manifest(folder)
    _check_files(folder, manifest["files"])
    try:
        names = {
            plural: Vocabulary(
                pl.read_parquet(folder / f"{plural}.parquet", glob=False)["name"], kind, manifest.get("prefixes")
            )
            for plural, kind in VOCABULARIES.items()
        }
        weights = _aligned(load_file(folder / "weights.safetensors"))
        facts = load_file(folder / "facts.safetensors")
        manifest, weights, facts = migrate(manifest, weights, facts)
        settings = from_saved(manifest["settings"])
        vocabularies = Vocabularies(**names, places=settings.marks_places)
        judge = Judge.from_dict(manifest["judge"], vocabularies.relations)
        model = Model(
            settings=settings,
            vocabularies=vocabularies,
            pbe=_pbe(settings, vocabularies, weights),
            train=facts["train"].long().numpy(),
            valid=facts["valid"].long().numpy(),
            calibration=judge,
            known_confidence=facts["confidence"].double().numpy() if "confidence" in facts else np.zeros(0),
            origin=manifest["origin"],
            curve=tuple(manifest["curve"]),
        )
        model.pbe.count_loops(model.trained_facts)
        return model
    except (OSError, SafetensorError, pl.exceptions.PolarsError, LookupError, TypeError, ValueError, AttributeError,
            RuntimeError) as fault:  # fmt: skip
        raise BadModel(f"{folder} is not a whole model: {type(fault).__name__}: {fault}", "train it again") from fault


def _check_files(folder: Path, sizes: dict[str, int]) -> None:
    """Refuse a folder whose files are missing or have another size than was written."""
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file():
            raise BadModel(f"{folder} is not a whole model: {name} is missing", "train it again")
        if path.stat().st_size != size:
            message = f"{path} holds {path.stat().st_size:,} bytes where {size:,} were written: the model is damaged"
            raise BadModel(message, "train it again")


def _aligned(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies at aligned addresses: safetensors leaves tensors where the file has them, and matrix products of
    unaligned tensors round differently on some processors."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _pbe(settings: Settings, vocabularies: Vocabularies, weights: dict[str, torch.Tensor]) -> PBE:
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


def check_vacant(folder: Path, force: bool, resume: bool) -> None:
    """Refuse an output folder that is taken or cannot be written, before any work is done.

    `force` replaces a model or an unfinished run. Files of any other kind are never removed.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; expected a folder to write the model to")
    _check_ours(folder)
    if resume:
        if not (folder / CHECKPOINT).exists():
            raise UsageError(f"{folder} holds no unfinished run to resume", "start a new run")
    elif folder.exists() and any(folder.iterdir()) and not force:
        if (folder / CHECKPOINT).exists():
            message, hint = f"{folder} already holds an unfinished run", "resume=True goes on, force=True starts again"
            raise UsageError(message, hint, remedy="resume")
        raise UsageError(f"{folder} already holds a model", "force=True replaces it", remedy="force")
    nearest = folder.resolve()
    while not nearest.exists():
        nearest = nearest.parent
    try:
        os.rmdir(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=nearest))
    except OSError as fault:
        raise UsageError(f"cannot write to {folder}: {fault.strerror} in {nearest}") from None


def _check_ours(folder: Path) -> None:
    """Refuse a folder with files that are not a model's, and the current folder or one above it."""
    ours = {MANIFEST, CHECKPOINT, "weights.safetensors", "facts.safetensors"}
    ours |= {f"{plural}.parquet" for plural in VOCABULARIES}
    present = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    foreign = sorted(name for name in present if name not in ours and not name.startswith(f".{CHECKPOINT}."))
    if foreign:
        raise UsageError(
            f"{folder} holds files that are not a model's ({foreign[0]}{' …' if len(foreign) > 1 else ''})",
            "choose a new folder",
        )
    if folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise UsageError(f"{folder} is or contains the current folder", "choose a new folder")


def discard_run(folder: Path) -> None:
    """Remove an unfinished run's checkpoint, and the folder if nothing else is in it."""
    for path in folder.glob(f"*{CHECKPOINT}*"):
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise BadModel(f"no model folder {folder}", "train a model and save it there")
    if not path.exists():
        if (folder / CHECKPOINT).exists():
            raise BadModel(f"the training of {folder} is not finished", "resume it", remedy="resume")
        raise BadModel(f"{folder} is not a model folder: it holds no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        kind, version = manifest["format"], int(manifest["version"])
        dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BadModel(f"{path} is not the manifest of a doxa model") from None
    if kind != FORMAT:
        raise BadModel(f"{folder} is a {kind!r}; expected a {FORMAT!r}")
    if version > VERSION:
        raise BadModel(f"{folder} has format version {version}, newer than this doxa reads ({VERSION})", "update doxa")
    return dict(manifest)


def _write(model: Model, folder: Path) -> None:
    save_file({name: t.contiguous() for name, t in model.pbe.state_dict().items()}, folder / "weights.safetensors")
    small = torch.int32 if len(model.vocabularies.entities) < 2**31 else torch.int64
    facts = {
        name: torch.from_numpy(np.ascontiguousarray(triples)).to(small)
        for name, triples in (("train", model.train), ("valid", model.valid))
    }
    if len(model.known_confidence):
        facts["confidence"] = torch.from_numpy(model.known_confidence).float()
    save_file(facts, folder / "facts.safetensors")
    for plural in VOCABULARIES:
        pl.DataFrame({"name": getattr(model.vocabularies, plural).names}).write_parquet(folder / f"{plural}.parquet")
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "settings": model.settings.as_dict(),
        "origin": model.origin,
        "prefixes": model.vocabularies.prefixes,
        "judge": model.calibration.to_dict(model.vocabularies.relations),
        "curve": list(model.curve),
        "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir())},
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _move_in(unfinished: Path, folder: Path) -> None:
    """Move the finished folder into place; an old folder is removed only after that."""
    if not folder.exists():
        os.rename(unfinished, folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    os.rename(folder, old / "model")
    try:
        os.rename(unfinished, folder)
    except BaseException:
        os.rename(old / "model", folder)
        old.rmdir()
        raise
    shutil.rmtree(old, ignore_errors=True)
