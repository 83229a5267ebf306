"""Folders of many files, read by several processes, with vocabularies made by hash partitions.

    1. every file: its blocks to Parquet, and its distinct names, each in the hash partition that it belongs to
    2. every hash partition: the distinct names of all files, sorted; their places are their ids
    3. every file: names to ids, one hash partition after the other

No process has more than one file and one hash partition in memory. Names are never Python objects. Ids follow the hash
partitions, not the first appearance as in a single file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.beliefs import Beliefs
from doxa.data.mentions import encode_words, words
from doxa.data.vocabulary import Vocabularies, Vocabulary, VocabularyBuilder

Blocks = Callable[[Path], Iterator[pl.DataFrame]]
"""Reads the blocks of one file."""

Item, Result = TypeVar("Item"), TypeVar("Result")

PARTITIONS = 64
"""Hash partitions of the names: 100 million names of 30 bytes are 50 MB each."""

SEED = 7
"""Of the hash that decides the partition of a name."""

KINDS = {"entity": ("head", "tail"), "relation": ("relation",)}


def read_parts(files: Sequence[Path], blocks: Blocks, processes: int = 0) -> Beliefs:
    """The beliefs of several files, in the order of the files. `blocks` reads one of them; 0 = a process per core."""
    count = min(len(files), processes or len(os.sched_getaffinity(0)))
    with TemporaryDirectory(prefix="doxa-") as place, _mapped(count) as each:
        folder = Path(place)
        each(partial(_scatter, folder, blocks), list(enumerate(files)))
        names = {kind: _numbered(folder, kind, each) for kind in KINDS}
        starts = {kind: _starts(parts) for kind, parts in names.items()}
        each(partial(_encode, folder, starts), range(len(files)))
        return _collected(folder, names, len(files))


@contextmanager
def _mapped(processes: int) -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]]:
    """Apply a function to items, in new processes where there are several; forked ones could not use polars."""
    if processes < 2:
        yield lambda function, items: [function(item) for item in items]
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield lambda function, items: list(pool.map(function, items))


def _scatter(folder: Path, blocks: Blocks, numbered: tuple[int, Path]) -> None:
    """Write the blocks of a file and its distinct names by hash partition."""
    number, file = numbered
    frame = pl.concat(list(blocks(file)))
    frame.drop("line").write_parquet(folder / f"rows-{number}.parquet")
    for kind, columns in KINDS.items():
        names = pl.concat([frame[column].alias("name") for column in columns]).unique()
        for partition, part in enumerate(_by_hash(names.to_frame())):
            part.write_parquet(folder / f"names-{kind}-{partition}-{number}.parquet")


def _by_hash(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows of each hash partition by the column `name`, which may be empty."""
    partition = (frame["name"].hash(SEED) % PARTITIONS).to_numpy()
    order = np.argsort(partition, kind="stable")
    bounds = np.searchsorted(partition[order], np.arange(PARTITIONS + 1))
    frame = frame[order]
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield frame[start:end]


def _numbered(folder: Path, kind: str, each: Callable[..., list[Any]]) -> list[pl.Series]:
    """The distinct names of every hash partition, sorted."""
    return each(partial(_distinct, folder, kind), range(PARTITIONS))


def _distinct(folder: Path, kind: str, partition: int) -> pl.Series:
    files = sorted(folder.glob(f"names-{kind}-{partition}-*.parquet"))
    names = pl.concat([pl.read_parquet(file) for file in files])["name"].unique().sort()
    names.to_frame().write_parquet(folder / f"vocabulary-{kind}-{partition}.parquet")
    return names


def _starts(parts: Sequence[pl.Series]) -> list[int]:
    return [0, *np.cumsum([len(part) for part in parts]).tolist()]


def _encode(folder: Path, starts: dict[str, list[int]], number: int) -> None:
    """Write the ids of the names of a file."""
    frame = pl.read_parquet(folder / f"rows-{number}.parquet")
    ids = {column: np.empty(len(frame), np.int32) for columns in KINDS.values() for column in columns}
    for kind, columns in KINDS.items():
        for column in columns:
            rows = pl.DataFrame({"name": frame[column], "row": np.arange(len(frame))})
            for partition, part in enumerate(_by_hash(rows)):
                vocabulary = pl.read_parquet(folder / f"vocabulary-{kind}-{partition}.parquet")["name"]
                places = vocabulary.search_sorted(part["name"]).to_numpy()
                ids[column][part["row"].to_numpy()] = starts[kind][partition] + places
    pl.DataFrame(ids).write_parquet(folder / f"ids-{number}.parquet")


def _collected(folder: Path, names: dict[str, list[pl.Series]], files: int) -> Beliefs:
    """The beliefs of all files; words of mentions are numbered here."""
    columns: dict[str, list[NDArray[Any]]] = {}
    word, texts, total = VocabularyBuilder("word"), [], 0
    for number in range(files):
        rows = pl.read_parquet(folder / f"rows-{number}.parquet")
        total += len(rows)
        for name, column in pl.read_parquet(folder / f"ids-{number}.parquet").to_dict().items():
            columns.setdefault(name, []).append(column.to_numpy())
        if "mention" in rows.columns:
            mention = encode_words(words(rows["mention"]), word.codes)
            columns.setdefault("words", []).append(mention.values)
            columns.setdefault("lengths", []).append(mention.lengths)
            texts.append(rows["mention"])
        for name, kind in (("confidence", pl.Float64), ("label", pl.Int8)):
            if name in rows.columns:
                columns.setdefault(name, []).append(rows[name].cast(kind).to_numpy())

    entities, relations = (Vocabulary(pl.concat(names[kind]), kind) for kind in ("entity", "relation"))
    vocabularies = Vocabularies(entities, relations, word.vocabulary())
    return Beliefs.from_columns(vocabularies, columns, texts, total)
