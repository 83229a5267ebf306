"""Looking at files of beliefs and making them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from doxa.commands.options import OnErrorOption, on_error_rule


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of beliefs or a dataset folder.")],
    top: Annotated[int, typer.Option(help="Relations to list.", min=0)] = 15,
    json_: Annotated[bool, typer.Option("--json", help="As JSON, with every relation.")] = False,
    on_error: OnErrorOption = "raise",
) -> None:
    """Count beliefs, duplicates, leaks between train and test, unseen names, and profile the relations.

    Example: `doxa data inspect demo/data`
    """
    from doxa import display, inspection

    found = inspection.inspect(file, on_error_rule(on_error))
    if json_:
        print(json.dumps(found.as_dict(), ensure_ascii=False))
        return
    names = list(dict.fromkeys(name for part in found.parts.values() for name in part))
    rows: list[tuple[Any, ...]] = [
        (name.replace("_", " "), *(f"{part[name]:,}" if name in part else "" for part in found.parts.values()))
        for name in names
    ]
    display.show_table("", ("", *found.parts), rows)
    profile: list[tuple[Any, ...]] = [tuple(relation.values()) for relation in found.relations[:top]]
    if profile:
        headings = ("relation", "kind", "facts", "tails per head", "heads per tail")
        display.show_table(f"Relations, {len(profile)} of {len(found.relations)}", headings, profile)


def generate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="TSV file to write; .gz and .zst too.")],
    beliefs: Annotated[int, typer.Option(help="How many.", min=1)] = 1_000_000,
    entities: Annotated[int, typer.Option(help="Among so many entities.", min=1)] = 100_000,
    relations: Annotated[int, typer.Option(help="And so many relations.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Decides every draw.", min=0)] = 0,
) -> None:
    """Make a knowledge base of any size with planted structure, to measure with.

    Each relation leads from every group of entities to one other group; a few entities stand in many beliefs.

    Example: `doxa data generate made.tsv --beliefs 10000000 --entities 1000000`
    """
    from doxa import display, files
    from doxa.generate import tables

    files.write(tables(beliefs, entities, relations, seed), out)
    display.say(f"{out}: {beliefs:,} beliefs")
