"""The vectors of a model for other tools: Parquet, NumPy, word2vec text, TensorBoard's projector.

An entity's vector is what its score keeps of it, all of its tables end to end; a relation's likewise; words have one if
the model learnt from mentions.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.atomic import written, written_folder
from doxa.errors import DoxaError, UsageError, one_of
from doxa.model import Model

FORMATS = ("parquet", "npz", "word2vec", "projector")
ENDINGS = {".parquet": "parquet", ".npz": "npz", ".txt": "word2vec", ".vec": "word2vec", "": "projector"}
KINDS = ("entity", "relation", "word")

Vectors = dict[str, tuple[pl.Series, NDArray[np.float32]]]
"""By kind: names, and a vector for each, (n, d)."""


def vectors(model: Model) -> Vectors:
    """The vectors of entities, relations and words."""
    pbe, vocabularies = model.pbe, model.vocabularies
    found = {
        "entity": (vocabularies.entities.names, _rows(pbe.score, pbe.score.entity_tables, len(vocabularies.entities))),
        "relation": (
            vocabularies.relations.names,
            _rows(pbe.score, pbe.score.relation_tables, len(vocabularies.relations)),
        ),
    }
    if pbe.mention is not None:
        found["word"] = (vocabularies.words.names, _rows(pbe.mention, ("word",), len(vocabularies.words)))
    return {kind: (vocabularies, rows) for kind, (vocabularies, rows) in found.items() if rows.shape[1]}


def export(model: Model, out: Path, form: str = "") -> Vectors:
    """Write the vectors; the format is known by the ending of `out` (none: a folder for the projector) or told."""
    form = form or ENDINGS.get(out.suffix, "")
    if not form:
        raise UsageError(
            f"--out {out}: no format has that ending", f"expected one of {', '.join(filter(None, ENDINGS))}"
        )
    one_of("--format", form, FORMATS)
    found = vectors(model)
    if form == "projector":
        with written_folder(out) as folder:
            _projector(found, folder)
    else:
        with written(out) as unfinished:
            {"parquet": _parquet, "npz": _numpy, "word2vec": _word2vec}[form](found, unfinished)
    return found


def _rows(module: object, tables: tuple[str, ...], count: int) -> NDArray[np.float32]:
    parts = [getattr(module, table).weight.detach().numpy().reshape(count, -1) for table in tables]
    return np.concatenate(parts, axis=1, dtype=np.float32) if parts else np.zeros((count, 0), np.float32)


def _parquet(found: Vectors, path: Path) -> None:
    """Columns kind, name, vector."""
    tables = [
        pl.DataFrame({"kind": pl.repeat(kind, len(names), eager=True), "name": names, "vector": list(rows)},
                     schema_overrides={"vector": pl.List(pl.Float32)})
        for kind, (names, rows) in found.items() if len(names)
    ]  # fmt: skip
    pl.concat(tables).write_parquet(path)


def _numpy(found: Vectors, path: Path) -> None:
    """Arrays entity, entity_names and so on; nothing in them needs pickle."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for kind, (names, rows) in found.items():
        arrays[kind] = rows
        arrays[f"{kind}_names"] = np.array(names.to_list(), dtype=np.str_)
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _word2vec(found: Vectors, path: Path) -> None:
    """A line of counts, then a name and its numbers a line; a space in a name becomes _, as names end at a space."""
    width = max(rows.shape[1] for _, rows in found.values())
    kept = {kind: pair for kind, pair in found.items() if pair[1].shape[1] == width}
    names = pl.concat([pl.Series([f"{kind}/"] * len(names)) + names for kind, (names, _) in kept.items()])
    plain = names.str.replace_all(r"\s", "_")
    if plain.n_unique() < len(plain):
        twice = names.filter(plain.is_duplicated())[0]
        raise DoxaError(
            f"cannot write {path.name} as word2vec text: {twice!r} is like another name once its spaces are gone",
            "choose another format, for example .npz or .parquet",
        )
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{len(plain)} {width}\n")
        rows = (row for _, table in kept.values() for row in table)
        for name, row in zip(plain, rows, strict=True):
            file.write(f"{name} {' '.join(map(str, row.tolist()))}\n")


def _projector(found: Vectors, folder: Path) -> None:
    """vectors and names of each kind as TSV, and the file TensorBoard looks for."""
    config = ""
    for kind, (names, rows) in found.items():
        np.savetxt(folder / f"{kind}_vectors.tsv", rows, fmt="%.6g", delimiter="\t")
        plain = names.str.replace_all(r"[\t\n\r]", " ")
        (folder / f"{kind}_names.tsv").write_text("\n".join(plain.to_list()) + "\n", encoding="utf-8")
        config += (
            f'embeddings {{\n  tensor_name: "{kind}"\n  tensor_path: "{kind}_vectors.tsv"\n'
            f'  metadata_path: "{kind}_names.tsv"\n}}\n'
        )
    (folder / "projector_config.pbtxt").write_text(config, encoding="utf-8")
