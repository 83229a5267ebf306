"""Public benchmark datasets: list and download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from doxa.render.plain import print_json


def list_(
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, with the checksums of every file.")] = False,
) -> None:
    """List the public benchmark datasets of `doxa data get`: sizes, license and kind of checksum.

    A download is checked by SHA-256 where one is known, otherwise by the MD5 that its source publishes.

    Example: `doxa data list`
    """
    from doxa.data import benchmarks as catalog
    from doxa.render import terminal

    datasets = catalog.benchmarks()
    if json_:
        print_json([dataset.as_dict() for dataset in datasets.values()])
        return
    rows: list[tuple[Any, ...]] = []
    for name, dataset in datasets.items():
        counts = " / ".join(f"{part.beliefs:,}" if part.beliefs else "?" for part in dataset.parts.values())
        checksum = "SHA-256" if all(part.sha256 for part in dataset.parts.values()) else "MD5"
        state = "cached" if catalog.cached(name) else ""
        sizes = (f"{dataset.entities:,}", f"{dataset.relations:,}")
        rows.append((name, counts, *sizes, dataset.license, checksum, state))
    headings = ("name", "train / valid / test", "entities", "relations", "license", "checked by", "")
    terminal.show_table("", headings, rows)


def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that `doxa data list` shows.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Copy the files here as well.")] = None,
    url: Annotated[str, typer.Option("--from", metavar="URL", help="Where the archive is, if not at its source.")] = "",
) -> None:
    """Download a public benchmark dataset into the cache folder, check it, and print its folder.

    An interrupted download continues where it stopped. A cached dataset needs no network. The cache folder is the
    platform's default, or $DOXA_CACHE.

    Example: `doxa train $(doxa data get wn18rr) --out model`
    """
    from doxa.data import benchmarks as catalog
    from doxa.render import terminal

    with terminal.busy(f"getting {name}") as state:

        def report(size: int, total: int | None) -> None:
            state(f"getting {name}: {size:,} of {f'{total:,}' if total else '?'} bytes")

        folder = catalog.get(name, url, report)
    if out is not None:
        catalog.copy(folder, out)
    terminal.say(str(out or folder))
