"""Read files of beliefs: as frames block by block, as one frame, or as `Beliefs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from doxa.data.beliefs import Beliefs
from doxa.data.profile import Profile, profile
from doxa.errors import BadFile, one_of
from doxa.formats import packing
from doxa.formats.columns import check
from doxa.formats.dataset import dataset, part_files
from doxa.formats.faults import EXPECTED, Faults, OnError
from doxa.formats.options import Options
from doxa.formats.parts import read_parts
from doxa.formats.registry import TABULAR, format_by_ending, format_to_read, module_of

PARALLEL_BYTES = 2**26
"""Bytes of a folder of files from which on several processes read it."""


def read_beliefs(
    path: str | Path,
    on_error: OnError = "raise",
    allow_zero_confidence: bool = False,
    options: Options | None = None,
) -> Beliefs:
    """Read the beliefs of a file, with the RDF prefixes that their names use; see `blocks`."""
    options, files = options or Options(), part_files(Path(path))
    tabular = all(format_by_ending(file) in TABULAR for file in files)
    if len(files) > 1 and tabular and sum(file.stat().st_size for file in files) > PARALLEL_BYTES:
        one = partial(_blocks, on_error=on_error, allow_zero_confidence=allow_zero_confidence, options=options)
        beliefs = read_parts(files, one)
    else:
        beliefs = Beliefs.from_frames(blocks(path, on_error, allow_zero_confidence, options))
    return beliefs.with_prefixes(options.prefixes.declared)


def read_frame(
    path: str | Path,
    on_error: OnError = "raise",
    allow_zero_confidence: bool = False,
    options: Options | None = None,
) -> pl.DataFrame:
    """Read the beliefs of a file as one frame, with the line each stands on; see `blocks`."""
    return pl.concat(list(blocks(path, on_error, allow_zero_confidence, options)))


def blocks(
    path: str | Path,
    on_error: OnError = "raise",
    allow_zero_confidence: bool = False,
    options: Options | None = None,
) -> Iterator[pl.DataFrame]:
    """Read the beliefs of a file as frames, one block after the other; memory stays bounded.

    A folder of files is read file by file. The first column, `line`, is the line, row or statement of its file. The
    format follows from the file's ending or from `options.format`; `-` is standard input. A faulty line is an error, or
    with `on_error="skip"` is left out and counted.
    """
    one_of("on_error", on_error, ("raise", "skip"))
    files: Sequence[str | Path] = part_files(Path(path)) or [path]
    return chain.from_iterable(_blocks(file, on_error, allow_zero_confidence, options or Options()) for file in files)


def _blocks(
    path: str | Path, on_error: OnError, allow_zero_confidence: bool, options: Options
) -> Iterator[pl.DataFrame]:
    with packing.source(path) as source:
        options = replace(options, format=format_to_read(source, options.format))
        module = module_of(options.format)
        faults = Faults(source.name, on_error, module.UNIT)
        count = 0
        for table in module.blocks(source, options, faults):
            block = check(table, faults, allow_zero_confidence)
            count += len(block)
            if len(block):
                yield block
        faults.log_skipped(count)
        if not count:
            raise BadFile(f"{source.name}: no belief in this file", EXPECTED)


def inspect(source: Any, on_error: OnError = "raise", options: Options | None = None) -> Profile:
    """Profile a file or dataset folder: counts, duplicates, leaks, unseen names, inverse relations, mapping kinds.

    Files are read block by block. A confidence of 0 is accepted. Beliefs, a frame or a list of tuples are profiled as
    the part train.
    """
    if not isinstance(source, str | Path):
        return profile({"train": Beliefs.of(source).frames()})
    parts = dataset(source).parts()
    return profile({name: blocks(file, on_error, True, options) for name, file in parts.items()})
