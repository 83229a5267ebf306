"""Vectors of a model for other tools: Parquet, NumPy, word2vec text, TensorBoard's projector.

The vector of an entity or relation is its row of all tables of the score, end to end. Words have vectors if the model
was trained on mentions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.atomic import written, written_folder
from doxa.data.results import Result
from doxa.errors import UsageError, one_of
from doxa.model import Model

FORMATS = ("parquet", "npz", "word2vec", "projector")
ENDINGS = {".parquet": "parquet", ".npz": "npz", ".txt": "word2vec", ".vec": "word2vec", "": "projector"}
KINDS = ("entity", "relation", "word")

FIRST_ROWS = 7
"""Names of each kind that a notebook shows."""

Table = tuple[pl.Series, NDArray[np.float32]]
"""Names, and their vectors, (n, d)."""


@dataclass(frozen=True, eq=False, repr=False)
class ModelVectors(Result, Mapping[str, Table]):
    """Names and vectors, (n, d), by kind: entity, relation, and word if the model has words.

    `model.vectors()["entity"]` is the pair of names and vectors.
    """

    tables: dict[str, Table]

    def __getitem__(self, kind: str) -> Table:
        return self.tables[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{len(names):,} {kind} of {rows.shape[1]}" for kind, (names, rows) in self.items())
        return f"ModelVectors({kinds})"

    def to_frame(self) -> pl.DataFrame:
        """One row per name: kind, name, vector."""
        schema: dict[str, Any] = {"kind": pl.String, "name": pl.String, "vector": pl.List(pl.Float32)}
        frames = [pl.DataFrame(schema=schema)]
        for kind, (names, rows) in self.items():
            columns = {"kind": pl.repeat(kind, len(names), eager=True), "name": names, "vector": list(rows)}
            frames.append(pl.DataFrame(columns, schema=schema))
        return pl.concat(frames)

    def as_dict(self) -> dict[str, Any]:
        """By kind the names, and their vectors as lists of numbers."""
        return {kind: {"names": names.to_list(), "vectors": rows.tolist()} for kind, (names, rows) in self.items()}

    def _repr_html_(self) -> str:
        from doxa.render.pages import result_html

        return result_html(repr(self), self.first(FIRST_ROWS).to_frame())

    def first(self, count: int) -> ModelVectors:
        """The first `count` names of each kind."""
        return ModelVectors({kind: (names[:count], rows[:count]) for kind, (names, rows) in self.items()})


def vectors(model: Model) -> ModelVectors:
    """Names and vectors of entities, relations and words."""
    pbe, vocabularies = model.pbe, model.vocabularies
    tables = {
        "entity": (vocabularies.entities.names, _rows(pbe.score, pbe.score.entity_tables, len(vocabularies.entities))),
        "relation": (
            vocabularies.relations.names,
            _rows(pbe.score, pbe.score.relation_tables, len(vocabularies.relations)),
        ),
    }
    if pbe.mention is not None:
        tables["word"] = (vocabularies.words.names, _rows(pbe.mention, ("word",), len(vocabularies.words)))
    return ModelVectors({kind: (names, rows) for kind, (names, rows) in tables.items() if rows.shape[1]})


def export(model: Model, out: Path, form: str = "") -> ModelVectors:
    """Write the vectors in the format `form`, or in that of the file name's ending; without ending, for the projector.

    Returns what was written.
    """
    form = form or ENDINGS.get(out.suffix, "")
    if not form:
        raise UsageError(f"{out}: no format has that ending", f"expected one of {', '.join(filter(None, ENDINGS))}")
    one_of("format", form, FORMATS)
    tables = vectors(model)
    if form == "projector":
        with written_folder(out) as folder:
            _projector(tables, folder)
    else:
        with written(out) as unfinished:
            {"parquet": _parquet, "npz": _numpy, "word2vec": _word2vec}[form](tables, unfinished)
    return tables


def _rows(module: object, tables: tuple[str, ...], count: int) -> NDArray[np.float32]:
    parts = [getattr(module, table).weight.detach().numpy().reshape(count, -1) for table in tables]
    return np.concatenate(parts, axis=1, dtype=np.float32) if parts else np.zeros((count, 0), np.float32)


def _parquet(tables: ModelVectors, path: Path) -> None:
    """Columns kind, name, vector."""
    tables.to_frame().write_parquet(path)


def _numpy(tables: ModelVectors, path: Path) -> None:
    """Arrays entity, entity_names and so on; nothing in them needs pickle."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for kind, (names, rows) in tables.items():
        arrays[kind] = rows
        arrays[f"{kind}_names"] = np.array(names.to_list(), dtype=np.str_)
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _word2vec(tables: ModelVectors, path: Path) -> None:
    """A line of counts, then a name and its numbers a line; a space in a name becomes _, as names end at a space."""
    width = max(rows.shape[1] for _, rows in tables.values())
    kept = {kind: pair for kind, pair in tables.items() if pair[1].shape[1] == width}
    names = pl.concat([pl.Series([f"{kind}/"] * len(names)) + names for kind, (names, _) in kept.items()])
    plain = names.str.replace_all(r"\s", "_")
    if plain.n_unique() < len(plain):
        twice = names.filter(plain.is_duplicated())[0]
        raise UsageError(
            f"cannot write {path.name} as word2vec text: {twice!r} equals another name once spaces are replaced",
            "choose another format, for example .npz or .parquet",
        )
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{len(plain)} {width}\n")
        rows = (row for _, table in kept.values() for row in table)
        for name, row in zip(plain, rows, strict=True):
            file.write(f"{name} {' '.join(map(str, row.tolist()))}\n")


def _projector(tables: ModelVectors, folder: Path) -> None:
    """vectors and names of each kind as TSV, and the file TensorBoard looks for."""
    config = ""
    for kind, (names, rows) in tables.items():
        np.savetxt(folder / f"{kind}_vectors.tsv", rows, fmt="%.6g", delimiter="\t")
        plain = names.str.replace_all(r"[\t\n\r]", " ")
        (folder / f"{kind}_names.tsv").write_text("\n".join(plain.to_list()) + "\n", encoding="utf-8")
        config += (
            f'embeddings {{\n  tensor_name: "{kind}"\n  tensor_path: "{kind}_vectors.tsv"\n'
            f'  metadata_path: "{kind}_names.tsv"\n}}\n'
        )
    (folder / "projector_config.pbtxt").write_text(config, encoding="utf-8")
