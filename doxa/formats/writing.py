"""Write files and folders of beliefs, all or nothing."""

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

from doxa.data.atomic import workspace, written, written_folder
from doxa.data.beliefs import Beliefs
from doxa.data.columns import TRIPLE
from doxa.data.iris import Prefixes
from doxa.formats import packing
from doxa.formats.options import Options
from doxa.formats.registry import FOLDERS, FORMATS, TABULAR, format_to_write, module_of

log = logging.getLogger(__name__)


def write(
    beliefs: Any,
    path: str | Path,
    *,
    format: str = "",
    delimiter: str = "",
    header: str = "auto",
    prefixes: Mapping[str, str] | None = None,
    escapes: str = "no",
    formulas: str = "keep",
) -> None:
    """Write Beliefs, a polars or pandas frame, a list of tuples or several polars frames to a file, all or nothing.

    The format follows from the ending or from `format`; .gz and .zst compress; `-` is standard output. Columns that
    the format cannot hold are left out with a notice. `prefixes` adds to the well-known RDF prefixes.
    `escapes` and `formulas` are those of `doxa.formats.Options`.
    """
    options = Options(
        format=format,
        delimiter=delimiter,
        header=header,
        prefixes=Prefixes.of(prefixes),
        escapes=escapes,
        formulas=formulas,
    )
    write_frames(_frames(beliefs), path, options)


def _frames(beliefs: Any) -> Iterable[pl.DataFrame]:
    """Beliefs of any source as frames; a polars frame of beliefs keeps its other columns, such as a verdict."""
    if isinstance(beliefs, pl.DataFrame) and set(TRIPLE) <= set(beliefs.columns):
        return [beliefs]
    if isinstance(beliefs, Iterator) or (isinstance(beliefs, list) and beliefs and _are_frames(beliefs)):
        return beliefs
    return Beliefs.of(beliefs).frames()


def _are_frames(parts: list[Any]) -> bool:
    return all(isinstance(part, pl.DataFrame) for part in parts)


def write_frames(frames: Iterable[pl.DataFrame], path: str | Path, options: Options | None = None) -> None:
    """Write frames of the same columns one after the other, all or nothing; see `write`."""
    options = options or Options()
    options = replace(options, format=format_to_write(path, options.format))
    if options.format in FOLDERS:
        write_parts({"train": frames}, path, options)
        return
    frames = _without_unsupported(frames, options.format, str(path))
    module = module_of(options.format)
    if str(path) == packing.STANDARD:
        with workspace(Path(tempfile.gettempdir())) as place:
            module.write(frames, place / "copy", "standard output", options)
            with open(place / "copy", "rb") as content:
                shutil.copyfileobj(content, sys.stdout.buffer)
        return
    with written(path) as unfinished:
        module.write(frames, unfinished, Path(path).name, options)


def write_parts(
    parts: Mapping[str, Iterable[pl.DataFrame]],
    folder: str | Path,
    options: Options | None = None,
    compression: str = "",
) -> None:
    """Write the parts of a dataset into a folder, all or nothing; `compression` is .gz or .zst."""
    options = options or Options()
    form = options.format or "tsv"
    with written_folder(folder) as unfinished:
        if form in FOLDERS:
            from doxa.formats import openke

            supported = {name: _without_unsupported(part, form, str(folder)) for name, part in parts.items()}
            openke.write_parts(supported, unfinished)
            return
        for name, part in parts.items():
            write_frames(part, unfinished / f"{name}{FORMATS[form][1][0]}{compression}", replace(options, format=form))


def _without_unsupported(frames: Iterable[pl.DataFrame], form: str, path: str) -> Iterator[pl.DataFrame]:
    """The frames without the columns that a format cannot hold; a notice names each of them once."""
    supported = module_of(form).HOLDS if form != "rdf" else ("head", "relation", "tail")
    noticed: set[str] = set()
    for frame in frames:
        lost = [name for name in frame.columns if name not in supported and name != "line" and form not in TABULAR]
        new = sorted(set(lost) - noticed)
        if new:
            noticed |= set(new)
            log.warning("%s: the format %s cannot hold %s; left out", path.rpartition("/")[2], form, ", ".join(new))
        yield frame.drop("line", *lost, strict=False)
