"""Tables of a model as columns of partitions: entity rows with their optimizer sums, and what all tasks share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.vocabulary import Ids
from doxa.pbe import PBE
from doxa.scores import base
from doxa.slots import Slot
from doxa.systems import assemble
from doxa.training.candidates import candidate_pool
from doxa.training.partitions.cuts import Cut
from doxa.training.partitions.files import Columns, Storage, by_destination

ID, SEEN, SUM, ROW = "id", "seen", "sum.", "row"
"""Columns beside the tables: the ids, in which slots an entity was seen, sums of the optimizer; the row to go to."""

HEAD_BIT, TAIL_BIT = 1, 2

BLOCK = 200_000
"""Rows of a large table that are copied at a time."""


@contextlib.contextmanager
def mapped_tables(folder: Path | None) -> Iterator[None]:
    """Let tables of new models live in files that are mapped into memory, so that they may be larger than it.

    The files have no name any more; their space is freed with the model. Without a folder nothing changes.
    """
    if folder is None:
        yield
        return

    def allocate(count: int, width: int) -> Tensor:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder, prefix=".table-") as file:
            if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and a signal in a mapped file
                os.posix_fallocate(file.fileno(), 0, max(1, 4 * count * width))
            table: Tensor = torch.from_file(file.name, shared=True, size=count * width, dtype=torch.float32)
            return table.view(count, width)

    before, base.allocate = base.allocate, allocate
    try:
        yield
    finally:
        base.allocate = before


def entity_names(pbe: PBE) -> list[str]:
    """The parameters that have a row for each entity."""
    return [f"score.{name}.weight" for name in pbe.score.entity_tables]


def shared_columns(pbe: PBE, settings: Settings) -> Columns:
    """Everything but the rows of entities, as arrays, with zeros for the sums of the optimizer."""
    left_out = {*entity_names(pbe), "seen_heads", "seen_tails"}
    columns = {name: each.detach().numpy().copy() for name, each in pbe.state_dict().items() if name not in left_out}
    if settings.optimizer == "adagrad":
        for name, parameter in pbe.named_parameters():
            if parameter.requires_grad and name not in left_out:
                columns[SUM + name] = np.zeros_like(columns[name])
    return columns


def load_shared(pbe: PBE, columns: Columns) -> None:
    """Copy the shared tables into a model."""
    state = pbe.state_dict()
    for name, column in columns.items():
        if not name.startswith(SUM):
            state[name].copy_(torch.from_numpy(column))


def entity_blocks(pbe: PBE, settings: Settings) -> Iterator[Columns]:
    """The rows of all entities of a model at its start, a block at a time."""
    seen = np.zeros(pbe.entities, np.uint8)
    seen[pbe.seen_heads.numpy()] |= HEAD_BIT
    seen[pbe.seen_tails.numpy()] |= TAIL_BIT
    for start in range(0, pbe.entities, BLOCK):
        rows = slice(start, min(start + BLOCK, pbe.entities))
        columns: Columns = {ID: np.arange(rows.start, rows.stop), SEEN: seen[rows]}
        for name in entity_names(pbe):
            table = pbe.get_parameter(name).detach()[rows].numpy()
            columns[name] = table
            if settings.optimizer == "adagrad":
                columns[SUM + name] = np.zeros_like(table)
        yield columns


@torch.no_grad()
def load_entities(pbe: PBE, columns: Columns) -> None:
    """Copy the rows of a partition into a model."""
    rows = torch.from_numpy(columns[ID])
    for name in entity_names(pbe):
        pbe.get_parameter(name)[rows] = torch.from_numpy(columns[name])


def write_cut(storage: Storage, target: str, columns: Columns, cut: Cut) -> None:
    """Write rows of entities sorted by the partition that they go to, and with their row there."""
    columns = columns | {ROW: cut.row[columns[ID]]}
    storage.write(target, by_destination(columns, cut.partition[columns[ID]], len(cut.sizes)))


def gather_partition(storage: Storage, files: Sequence[str], partition: int) -> Columns:
    """One partition from the files of a cut, its rows in the order of the cut."""
    parts = [storage.read_part(name, partition) for name in files]
    size = sum(len(part[ID]) for part in parts)
    whole = {name: np.empty((size, *column.shape[1:]), column.dtype) for name, column in parts[0].items()}
    del whole[ROW]
    for part in parts:
        rows = part[ROW]
        for name, column in whole.items():
            column[rows] = part[name]
    return whole


@dataclass(frozen=True)
class WholeSizes:
    """Sizes of the whole model: its relations and words, and the ids that candidates of each slot are drawn from."""

    relations: int
    words: int
    pool: tuple[int, int, int]

    @classmethod
    def of(cls, pbe: PBE, settings: Settings) -> WholeSizes:
        words = 0 if pbe.mention is None else pbe.mention.word.num_embeddings
        head, relation, tail = (len(candidate_pool(pbe, settings).of(slot)) for slot in Slot)
        return cls(pbe.relations, words, (head, relation, tail))


def local_model(
    settings: Settings, sizes: WholeSizes, parts: Sequence[Columns], shared: Columns
) -> tuple[PBE, dict[str, Tensor], Ids]:
    """A model of the entities of one or two partitions, its optimizer sums, and the ids of its entities.

    Its shared tables are the arrays of `shared` themselves; its rows of entities are copies.
    """
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    columns = {name: torch.from_numpy(column) for name, column in (rows | shared).items()}
    seen = columns.pop(SEEN)
    seen_heads, seen_tails = (torch.nonzero(seen & bit).squeeze(1) for bit in (HEAD_BIT, TAIL_BIT))
    with torch.device("meta"):
        pbe = assemble(
            settings,
            entities=len(seen),
            relations=sizes.relations,
            words=sizes.words,
            seen_heads=seen_heads,
            seen_tails=seen_tails,
            draw=False,
        )
    sums = {name.removeprefix(SUM): column for name, column in columns.items() if name.startswith(SUM)}
    weights = {name: column for name, column in columns.items() if not name.startswith(SUM) and name != ID}
    pbe.load_state_dict(weights | {"seen_heads": seen_heads, "seen_tails": seen_tails}, assign=True)
    return pbe, sums, rows[ID]


def split_rows(pbe: PBE, sums: dict[str, Tensor], parts: Sequence[Columns]) -> list[Columns]:
    """The partitions of a local model after training, as new versions."""
    versions, start = [], 0
    for part in parts:
        rows = slice(start, start + len(part[ID]))
        version: Columns = {ID: part[ID], SEEN: part[SEEN]}
        for name in entity_names(pbe):
            version[name] = pbe.get_parameter(name).detach()[rows].numpy()
            if name in sums:
                version[SUM + name] = sums[name][rows].numpy()
        versions.append(version)
        start = rows.stop
    return versions
