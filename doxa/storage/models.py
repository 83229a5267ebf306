"""The model folder: self-contained, versioned, written whole or not at all.

model.json              settings, sizes, thresholds, calibrator, where it came from; bytes of the other files
weights.safetensors     the vectors
facts.safetensors       known facts of train and valid, as ids, and the confidence they came with
entities.parquet …      names in the order of their ids (also relations, words)
checkpoint.safetensors  only while a run is unfinished
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from doxa import config as knobs
from doxa.calibration.curves import Calibrator
from doxa.calibration.thresholds import Temperatures, Thresholds, Weighing
from doxa.data.vocabulary import UNKNOWN, Ids, Vocabularies, Vocabulary
from doxa.errors import DoxaError
from doxa.model import Model
from doxa.systems import assemble

FORMAT = "doxa model"
VERSION = 1
MANIFEST = "model.json"
CHECKPOINT = "checkpoint.safetensors"
VOCABULARIES = {"entities": "entity", "relations": "relation", "words": "word"}


def save(model: Model, folder: Path, force: bool = False, keep_checkpoint: bool = False) -> None:
    """Write the folder beside its place, then move it in. An existing model is replaced only with `force`.

    `keep_checkpoint` leaves an interrupted run's checkpoint in the folder, to be resumed.
    """
    if (folder / MANIFEST).exists() and not force:
        raise DoxaError(f"{folder} already holds a model", "pass --force (in Python: force=True) to replace it")
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
        raise DoxaError(f"cannot write the model to {folder}: {fault}") from fault


def load(folder: Path) -> Model:
    """Read a model folder; a truncated, unfinished or foreign one is refused with the reason."""
    manifest = _manifest(folder)
    for name, size in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise DoxaError(f"{folder} is not a whole model: {name} is missing", "train it again")
        if path.stat().st_size != size:
            found = path.stat().st_size
            raise DoxaError(f"{path} holds {found:,} bytes where {size:,} were written: the model is damaged")
    try:
        vocabularies = Vocabularies(**{
            plural: Vocabulary(pl.read_parquet(folder / f"{plural}.parquet", glob=False)["name"], kind)
            for plural, kind in VOCABULARIES.items()
        })  # fmt: skip
        settings = knobs.from_dict(manifest["settings"])
        weights = _aligned(load_file(folder / "weights.safetensors"))
        facts = load_file(folder / "facts.safetensors")
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
        by_relation = np.full(len(vocabularies.relations), np.nan)
        given = manifest["thresholds"]["by_relation"]
        by_relation[_known(vocabularies.relations, list(given))] = list(given.values())
        strangers = manifest.get("strangers")
        return Model(
            settings=settings,
            vocabularies=vocabularies,
            pbe=pbe.eval(),
            train=facts["train"].long().numpy(),
            valid=facts["valid"].long().numpy(),
            thresholds=Thresholds(by_relation, manifest["thresholds"]["overall"]),
            strangers=strangers and Thresholds(np.array(strangers["by_kind"], float), strangers["overall"]),
            temperatures=Temperatures(**manifest["temperatures"]),
            calibrator=_calibrator(manifest["calibrator"], vocabularies.relations),
            expected=_calibrator(manifest["expected"], vocabularies.relations) if manifest["expected"] else None,
            weighing=_weighing(manifest.get("weighing"), vocabularies.relations),
            given=facts["given"].double().numpy() if "given" in facts else np.zeros(0),
            origin=manifest["origin"],
            curve=tuple(manifest["curve"]),
        )
    except (
        OSError,
        SafetensorError,
        pl.exceptions.PolarsError,
        KeyError,
        TypeError,
        ValueError,
        RuntimeError,
    ) as fault:
        raise DoxaError(f"{folder} is not a whole model: {type(fault).__name__}: {fault}", "train it again") from fault


def _aligned(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies where torch would have put them: safetensors leaves tensors at odd addresses, and matrix products of those
    round differently on some processors."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _calibrator(stored: dict[str, Any], relations: Vocabulary) -> Calibrator:
    return Calibrator.from_dict(stored, len(relations), lambda names: _known(relations, names))


def _weighing(stored: dict[str, Any] | None, relations: Vocabulary) -> Weighing | None:
    if stored is None:
        return None
    overall, own = np.array(stored["overall"], float), stored["by_relation"]
    by_relation = np.tile(overall, (len(relations), 1))
    if own:
        by_relation[_known(relations, list(own))] = list(own.values())
    return Weighing(by_relation, overall)


def _known(vocabulary: Vocabulary, names: list[str]) -> Ids:
    """The ids of names that must all be there."""
    ids = vocabulary.ids(pl.Series(names, dtype=pl.String))
    if (ids == UNKNOWN).any():
        raise KeyError(names[int(np.argmin(ids))])
    return ids


def check_vacant(folder: Path, force: bool, resume: bool) -> None:
    """Refuse an output folder that is taken or cannot be written, before any work is done.

    `force` replaces a model or an unfinished run, and nothing else: other people's files are never removed.
    """
    if folder.exists() and not folder.is_dir():
        raise DoxaError(f"{folder} is a file; expected a folder to write the model to")
    _check_ours(folder)
    if resume:
        if not (folder / CHECKPOINT).exists():
            raise DoxaError(f"{folder} holds no unfinished run to resume", "start one without --resume")
    elif folder.exists() and any(folder.iterdir()) and not force:
        if (folder / CHECKPOINT).exists():
            raise DoxaError(
                f"{folder} already holds an unfinished run", "pass --resume to go on with it or --force to start anew"
            )
        raise DoxaError(f"{folder} already holds a model", "pass --force to replace it")
    nearest = folder.resolve()
    while not nearest.exists():
        nearest = nearest.parent
    try:
        os.rmdir(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=nearest))
    except OSError as fault:
        raise DoxaError(f"cannot write to {folder}: {fault.strerror} in {nearest}") from None


def _check_ours(folder: Path) -> None:
    """Refuse a folder that holds anything but a model or an unfinished run, or that one stands in."""
    ours = {MANIFEST, CHECKPOINT, "weights.safetensors", "facts.safetensors"}
    ours |= {f"{plural}.parquet" for plural in VOCABULARIES}
    present = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    foreign = sorted(name for name in present if name not in ours and not name.startswith(f".{CHECKPOINT}."))
    if foreign:
        raise DoxaError(
            f"{folder} holds files that are not a model's ({foreign[0]}{' …' if len(foreign) > 1 else ''})",
            "choose a new folder",
        )
    if folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise DoxaError(f"{folder} is the folder you stand in (or holds it)", "choose a new folder")


def discard_run(folder: Path) -> None:
    """Remove an unfinished run's checkpoint, and the folder if nothing else is in it."""
    for path in folder.glob(f"*{CHECKPOINT}*"):
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise DoxaError(f"no model folder {folder}", "train one with `doxa train DATA --out MODEL`")
    if not path.exists():
        if (folder / CHECKPOINT).exists():
            raise DoxaError(f"the training of {folder} is not finished", "go on with it: `doxa train … --resume`")
        raise DoxaError(f"{folder} is not a model folder: it holds no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        kind, version = manifest["format"], int(manifest["version"])
        dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DoxaError(f"{path} is not the manifest of a doxa model") from None
    if kind != FORMAT:
        raise DoxaError(f"{folder} is a {kind!r}; expected a {FORMAT!r}")
    if version > VERSION:
        raise DoxaError(f"{folder} has format version {version}, newer than this doxa reads ({VERSION})", "update doxa")
    return dict(manifest)


def _write(model: Model, folder: Path) -> None:
    save_file({name: t.contiguous() for name, t in model.pbe.state_dict().items()}, folder / "weights.safetensors")
    facts = {"train": model.train, "valid": model.valid}
    small = torch.int32 if len(model.vocabularies.entities) < 2**31 else torch.int64
    kept = {name: torch.from_numpy(np.ascontiguousarray(triples)).to(small) for name, triples in facts.items()}
    if len(model.given):
        kept["given"] = torch.from_numpy(model.given).float()
    save_file(kept, folder / "facts.safetensors")
    for plural in VOCABULARIES:
        pl.DataFrame({"name": getattr(model.vocabularies, plural).names}).write_parquet(folder / f"{plural}.parquet")
    by_relation = {
        model.vocabularies.relations[relation]: float(threshold)
        for relation, threshold in enumerate(model.thresholds.by_relation)
        if not np.isnan(threshold)
    }
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "settings": model.settings.as_dict(),
        "origin": model.origin,
        "thresholds": {"overall": model.thresholds.overall, "by_relation": by_relation},
        "strangers": model.strangers
        and {
            "overall": model.strangers.overall,
            "by_kind": [None if np.isnan(x) else float(x) for x in model.strangers.by_relation],
        },
        "weighing": model.weighing
        and {
            "overall": model.weighing.overall.tolist(),
            "by_relation": {
                model.vocabularies.relations[relation]: weights.tolist()
                for relation, weights in enumerate(model.weighing.by_relation)
                if (weights != model.weighing.overall).any()
            },
        },
        "temperatures": asdict(model.temperatures),
        "calibrator": model.calibrator.as_dict(model.vocabularies.relations.__getitem__),
        "expected": model.expected and model.expected.as_dict(model.vocabularies.relations.__getitem__),
        "curve": list(model.curve),
        "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir())},
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _move_in(unfinished: Path, folder: Path) -> None:
    """Put the finished folder in its place; the old one, if any, goes only once the new one is there."""
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
