"""The atlas: a small, real knowledge base about geography that ships with doxa (docs/atlas.md)."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa import formats

ATLAS = Path(__file__).with_name("atlas.tsv.zst")


@dataclass(frozen=True, eq=False)
class Atlas:
    """The three parts as frames of beliefs; `planted` marks the false beliefs of train."""

    train: pl.DataFrame
    valid: pl.DataFrame
    test: pl.DataFrame
    planted: NDArray[np.bool_]


def load() -> Atlas:
    """Load the shipped atlas."""
    schema = {"confidence": pl.Float64, "planted": pl.Int8}
    table = pl.read_csv(io.BytesIO(ATLAS.read_bytes()), separator="\t", quote_char=None, schema_overrides=schema)
    parts = {part: table.filter(pl.col("split") == part) for part in ("train", "valid", "test")}
    planted = parts["train"]["planted"].to_numpy() == 1
    return Atlas(**{name: part.drop("split", "planted") for name, part in parts.items()}, planted=planted)


def write(folder: Path) -> Atlas:
    """Write the atlas as a dataset folder."""
    world = load()
    for name in ("train", "valid", "test"):
        formats.write(getattr(world, name), folder / f"{name}.tsv")
    return world
