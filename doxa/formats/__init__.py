"""Files of beliefs: one module per format, each with `blocks(source, …)` and `write(tables, …)`; here, the way in.

A table is a polars frame with the columns line, head, relation, tail and, where given, mention, confidence, label.
Files are read as tables one after the other, so that nothing holds a whole file.
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from doxa.data.atomic import written, written_folder
from doxa.errors import DoxaError
from doxa.formats import packing
from doxa.formats.columns import checked
from doxa.formats.dataset import Dataset, dataset
from doxa.formats.faults import EXPECTED, Faults, OnError
from doxa.formats.formats import FOLDERS, FORMATS, TABULAR, format_of, module_of, to_write
from doxa.formats.options import Options

__all__ = ["Dataset", "OnError", "Options", "blocks", "dataset", "read", "write", "write_parts"]

log = logging.getLogger(__name__)


def read(path: str | Path, on_error: OnError = "raise", refuted: bool = False, **told: Any) -> pl.DataFrame:
    """The beliefs of a file as one table, with the line each stands on; see `blocks`."""
    return pl.concat(list(blocks(path, on_error, refuted, **told)))


def blocks(
    path: str | Path,
    on_error: OnError = "raise",
    refuted: bool = False,
    options: Options | None = None,
    **told: Any,
) -> Iterator[pl.DataFrame]:
    """The beliefs of a file as tables, one after the other, with the line (or row, or statement) each stands on.

    The format is known by the ending or told (`format="csv"`); `-` is standard input. A faulty line is an error, or
    with `on_error="skip"` is left out and counted. A confidence is above 0; `refuted` lets 0 pass too, for files to
    measure with that hold falsehoods. What else can be told are the fields of `Options`.
    """
    options = replace(options or Options(), on_error=on_error, refuted=refuted, **told)
    return _blocks(path, options)


def _blocks(path: str | Path, options: Options) -> Iterator[pl.DataFrame]:
    with packing.source(path) as source:
        options = replace(options, format=format_of(source, options.format))
        module = module_of(options.format)
        faults = Faults(source.name, options.on_error, module.UNIT)
        count = 0
        for table in module.blocks(source, options, faults):
            found = checked(table, faults, options.refuted)
            count += len(found)
            if len(found):
                yield found
        faults.tell(count)
        if not count:
            raise DoxaError(f"{source.name}: no belief in this file", EXPECTED)


def write(
    tables: pl.DataFrame | Iterable[pl.DataFrame],
    path: str | Path,
    options: Options | None = None,
    **told: Any,
) -> None:
    """Write a table of beliefs, or several of the same columns one after the other, all or nothing.

    The format is known by the ending or told, .gz and .zst pack, `-` is standard output. What the format cannot hold is
    left out with a notice.
    """
    options = replace(options or Options(), **told)
    options = replace(options, format=to_write(path, options.format))
    kept = _kept([tables] if isinstance(tables, pl.DataFrame) else tables, options.format, str(path))
    if options.format in FOLDERS:
        write_parts({"train": kept}, path, options)
        return
    module = module_of(options.format)
    if str(path) == packing.STANDARD:
        with tempfile.NamedTemporaryFile(prefix="doxa-") as whole:
            module.write(kept, Path(whole.name), "standard output", options)
            with open(whole.name, "rb") as again:
                shutil.copyfileobj(again, sys.stdout.buffer)
        return
    with written(path) as unfinished:
        module.write(kept, unfinished, Path(path).name, options)


def write_parts(
    parts: Mapping[str, Iterable[pl.DataFrame]],
    folder: str | Path,
    options: Options | None = None,
    packed: str = "",
    **told: Any,
) -> None:
    """Write the parts of a dataset into a folder, all or nothing; `packed` is .gz or .zst."""
    options = replace(options or Options(), **told)
    form = options.format or "tsv"
    with written_folder(folder) as unfinished:
        if form in FOLDERS:
            from doxa.formats import openke

            openke.write_parts({name: _kept(part, form, str(folder)) for name, part in parts.items()}, unfinished)
            return
        for name, part in parts.items():
            write(part, unfinished / f"{name}{FORMATS[form][1][0]}{packed}", replace(options, format=form))


def _kept(tables: Iterable[pl.DataFrame], form: str, path: str) -> Iterator[pl.DataFrame]:
    """The tables without what a format cannot hold, which is told once."""
    holds = module_of(form).HOLDS if form != "rdf" else ("head", "relation", "tail")
    told: set[str] = set()
    for table in tables:
        lost = [name for name in table.columns if name not in holds and name != "line" and form not in TABULAR]
        new = set(lost) - told
        if new:
            told |= new
            log.warning(
                "%s: the format %s cannot hold %s; left out", path.rpartition("/")[2], form, ", ".join(sorted(new))
            )
        yield table.drop("line", *lost, strict=False)
