"""A dataset: a folder with train, valid and test files in any format, OpenKE's and PyKEEN's included.

A part may also be a folder `train`, `valid` or `test` of many files, such as Spark writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from doxa.errors import BadFile
from doxa.formats.packing import PACKINGS, STANDARD
from doxa.formats.registry import ENDINGS, format_by_ending

PYKEEN = {"train": "training", "valid": "validation", "test": "testing"}


@dataclass(frozen=True)
class Dataset:
    """The paths of the parts. A single file is a dataset with a train part only."""

    train: Path
    valid: Path | None = None
    test: Path | None = None

    def parts(self) -> dict[str, Path]:
        """The paths of the existing parts, by name."""
        return {name: path for name, path in vars(self).items() if path is not None}


def dataset(path: str | Path) -> Dataset:
    """The dataset of a folder, or of a single file as its train part."""
    path = Path(path)
    if str(path) != STANDARD and not path.exists():
        raise BadFile(f"no file or folder {path}")
    if not path.is_dir():
        return Dataset(train=path)
    train = _part(path, "train")
    if train is None:
        raise BadFile(
            f"{path} holds no train file",
            f"expected train{', train'.join(ENDINGS)}, with .gz or .zst if packed, a folder train of such files, or "
            "OpenKE's train2id.txt",
        )
    return Dataset(train, _part(path, "valid"), _part(path, "test"))


def parts_of(path: Path) -> dict[str, Path]:
    """The parts train, valid and test that a folder has, by name; none of a file or of a folder of other files."""
    return {name: part for name in PYKEEN if (part := _part(path, name)) is not None} if path.is_dir() else {}


def _part(folder: Path, name: str) -> Path | None:
    file = next((path for path in _candidates(folder, name) if path.is_file()), None)
    return file or (folder / name if part_files(folder / name) else None)


def part_files(folder: Path) -> list[Path]:
    """The files of beliefs in a folder of parts, by name; hidden files and notes such as _SUCCESS are no parts."""
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and path.name[0] not in "._" and format_by_ending(path) is not None
    )


def _candidates(folder: Path, name: str) -> Iterator[Path]:
    for packing in ("", *PACKINGS):
        for ending in ENDINGS:
            yield folder / f"{name}{ending}{packing}"
    yield folder / f"{name}2id.txt"
    yield folder / PYKEEN[name] / "numeric_triples.tsv.gz"
    if name == "train":
        yield folder / "numeric_triples.tsv.gz"
