"""A dataset: a folder that holds train, valid and test files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from doxa.errors import DoxaError

ENDINGS = (".tsv", ".txt", ".tsv.gz", ".txt.gz", ".tsv.zst", ".txt.zst")


@dataclass(frozen=True)
class Dataset:
    """Where the parts lie. A single file is a dataset with nothing but train."""

    train: Path
    valid: Path | None = None
    test: Path | None = None


def dataset(path: str | Path) -> Dataset:
    """The parts of a folder, or a single file as its own train part."""
    path = Path(path)
    if not path.exists():
        raise DoxaError(f"no file or folder {path}")
    if path.is_file():
        return Dataset(train=path)
    train = _part(path, "train")
    if train is None:
        raise DoxaError(
            f"{path} holds no train file", f"expected one of {', '.join('train' + ending for ending in ENDINGS)}"
        )
    return Dataset(train, _part(path, "valid"), _part(path, "test"))


def _part(folder: Path, name: str) -> Path | None:
    return next((folder / (name + ending) for ending in ENDINGS if (folder / (name + ending)).is_file()), None)
