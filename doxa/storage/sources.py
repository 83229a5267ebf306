"""Beliefs from files or from a knowledge base: wherever a file of beliefs is read, a store is accepted too.

beliefs.tsv     a file in any format             kb.db, postgresql://…   a whole store
folder          train, valid and test files      kb.db#test              one part of it; kb.db@41 as of a snapshot
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from doxa import formats
from doxa.data.beliefs import Beliefs
from doxa.data.profile import Profile, profile
from doxa.errors import BadFile
from doxa.formats import Dataset, OnError, Options, Prefixes
from doxa.storage.store.place import Place, store_place

if TYPE_CHECKING:
    from doxa.model import Model
    from doxa.storage.store.publishing import ModelVersion


def read(
    path: str | Path,
    *,
    on_error: OnError = "raise",
    allow_zero_confidence: bool = False,
    format: str = "",
    delimiter: str = "",
    header: str = "auto",
    columns: str = "",
    literals: str = "keep",
    patterns: int = 3,
    prefixes: Mapping[str, str] | None = None,
    escapes: str = "no",
) -> Beliefs:
    """Read the beliefs of a file in any format, plain or compressed, or of a knowledge base; `-` is standard input.

    `on_error="skip"` leaves faulty lines out and logs their number. `allow_zero_confidence` accepts a confidence
    of 0, which marks a belief as false. The other arguments are the fields of `doxa.formats.Options`; `prefixes`
    adds to the well-known RDF prefixes. `kb.db#test` is one part of a knowledge base, `kb.db@41` a snapshot of it.
    """
    options = Options(format, delimiter, header, columns, literals, patterns, Prefixes.of(prefixes), escapes)
    return read_beliefs(path, on_error, allow_zero_confidence, options)


def read_beliefs(
    path: str | Path,
    on_error: OnError = "raise",
    allow_zero_confidence: bool = False,
    options: Options | None = None,
) -> Beliefs:
    """Read the beliefs of a file or store, with the RDF prefixes that their names use; see `blocks`."""
    options, place = options or Options(), store_place(path)
    if place is None:
        return formats.read_beliefs(path, on_error, allow_zero_confidence, options)
    from doxa.storage.store.knowledge_base import KnowledgeBase

    beliefs = KnowledgeBase(place, read_only=True).beliefs()
    if not len(beliefs):
        raise _nothing(place)
    options.prefixes.update(beliefs.vocabularies.prefixes)
    return beliefs.with_prefixes(options.prefixes.declared)


def blocks(
    path: str | Path,
    on_error: OnError = "raise",
    allow_zero_confidence: bool = False,
    options: Options | None = None,
) -> Iterator[pl.DataFrame]:
    """The beliefs of a file or store as frames, one block after the other; the column `line` numbers the rows."""
    place = store_place(path)
    if place is None:
        return formats.blocks(path, on_error, allow_zero_confidence, options)
    return _store_blocks(place, options or Options())


def _store_blocks(place: Place, options: Options) -> Iterator[pl.DataFrame]:
    from doxa.storage.store.knowledge_base import KnowledgeBase

    kb, start = KnowledgeBase(place, read_only=True), 0
    kb.place = place.at(kb.snapshot())
    options.prefixes.update(kb.prefixes())
    for table in kb.blocks():
        rows = pl.int_range(start + 1, start + len(table) + 1, eager=True).alias("line")
        start += len(table)
        yield table.insert_column(0, rows).drop("split", strict=False)
    if not start:
        raise _nothing(place)


def _nothing(place: Place) -> BadFile:
    return BadFile(f"{place}: no belief there", "import some: doxa kb import")


def dataset(path: str | Path) -> Dataset:
    """The parts of a folder, a file or a store; those of a store are fixed at its present snapshot."""
    place = store_place(path)
    if place is None:
        return formats.dataset(path)
    if place.part:
        return Dataset(train=Path(path))
    from doxa.storage.store.knowledge_base import KnowledgeBase

    kb = KnowledgeBase(place, read_only=True)
    fixed = place.at(kb.snapshot())
    present = kb.parts(int(fixed.moment))
    if "train" not in present:
        raise BadFile(f"{place}: no belief to train on", "import some: doxa kb import")
    return Dataset(**{part: Path(_text(fixed.only(part))) for part in present})


def _text(place: Place) -> str:
    """A place as text that `store_place` reads, with the password."""
    return f"{place.location}@{place.moment}#{place.part}"


def shown(path: str | Path) -> str:
    """A path as messages show it: the password of a URL is left out."""
    place = store_place(path)
    return str(path) if place is None else str(place)


def origin(path: str | Path) -> dict[str, Any]:
    """What a model remembers of the store that it is trained on; empty for a file."""
    place = store_place(path)
    if place is None:
        return {}
    from doxa.storage.store.knowledge_base import KnowledgeBase

    kb = KnowledgeBase(place, read_only=True)
    return {"store": {"place": str(Place(place.location)), "id": kb.settings["id"], "snapshot": kb.snapshot()}}


def pinned(path: str | Path, snapshot: int) -> Path:
    """The path of a store or of a part of it at a snapshot."""
    place = store_place(path)
    assert place is not None
    part = place.part and f"#{place.part}"
    return Path(f"{place.location}@{snapshot}{part}")


def register(path: str | Path, model: Model, folder: Path) -> ModelVersion:
    """Record a model that was trained on a store; the first one is live."""
    from doxa.storage.store.knowledge_base import KnowledgeBase
    from doxa.storage.store.publishing import checksum

    place = store_place(path)
    assert place is not None
    figures = {"metric": max((one["metric"] for one in model.curve if one["metric"] is not None), default=None)}
    snapshot = model.origin["store"]["snapshot"]
    return KnowledgeBase(Place(place.location)).models.register(
        folder, snapshot, sha256=checksum(folder), figures=figures
    )


def is_writable(path: str | Path) -> bool:
    """Whether a store is a file that this user may change; of a database only its server can tell."""
    place = store_place(path)
    if place is None or place.is_postgres:
        return False
    return all(os.access(one, os.W_OK) for one in (place.path, place.path.resolve().parent))


def inspect(source: Any, on_error: OnError = "raise", options: Options | None = None) -> Profile:
    """Profile a file, dataset folder or store: counts, duplicates, leaks, unseen names, inverse relations, mappings.

    Files are read block by block. A confidence of 0 is accepted. Beliefs, a frame or a list of tuples are profiled as
    the part train.
    """
    place = store_place(source) if isinstance(source, str | Path) else None
    if place is None:
        return formats.inspect(source, on_error, options)
    return profile({name: blocks(path) for name, path in dataset(source).parts().items()})
