"""A dataset: a folder that holds train, valid and test files, OpenKE's or PyKEEN's numbered ones among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from doxa.errors import DoxaError
from doxa.formats.formats import ENDINGS
from doxa.formats.packing import PACKINGS, STANDARD

PYKEEN = {"train": "training", "valid": "validation", "test": "testing"}


@dataclass(frozen=True)
class Dataset:
    """Where the parts lie. A single file is a dataset with nothing but train."""

    train: Path
    valid: Path | None = None
    test: Path | None = None

    def parts(self) -> dict[str, Path]:
        """The parts there are, by name."""
        return {name: path for name, path in vars(self).items() if path is not None}


def dataset(path: str | Path) -> Dataset:
    """The parts of a folder, or a single file as its own train part."""
    path = Path(path)
    if str(path) != STANDARD and not path.exists():
        raise DoxaError(f"no file or folder {path}")
    if not path.is_dir():
        return Dataset(train=path)
    train = _part(path, "train")
    if train is None:
        raise DoxaError(
            f"{path} holds no train file",
            f"expected train{', train'.join(ENDINGS)}, with .gz or .zst if packed, or OpenKE's train2id.txt",
        )
    return Dataset(train, _part(path, "valid"), _part(path, "test"))


def _part(folder: Path, name: str) -> Path | None:
    return next((path for path in _candidates(folder, name) if path.is_file()), None)


def _candidates(folder: Path, name: str) -> Iterator[Path]:
    for packed in ("", *PACKINGS):
        for ending in ENDINGS:
            yield folder / f"{name}{ending}{packed}"
    yield folder / f"{name}2id.txt"
    yield folder / PYKEEN[name] / "numeric_triples.tsv.gz"
    if name == "train":
        yield folder / "numeric_triples.tsv.gz"
