"""What doxa can do: systems, settings, the demonstration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def systems(
    entities: Annotated[int, typer.Option(help="Count parameters for so many entities.", min=1)] = 14_951,
    relations: Annotated[int, typer.Option(help="… and relations.", min=1)] = 1_345,
    dimension: Annotated[int, typer.Option(help="… and this dimension; 0 = each system's own.", min=0)] = 0,
    json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the systems of the paper and the scores PBE can stand on, with formula, size and what each can answer.

    Parameters are counted for the sizes of FB15k unless told otherwise.

    Example: `doxa systems --entities 38588 --relations 11 --dimension 50`
    """
    from doxa.render import terminal as display
    from doxa.systems import describe

    found = describe(entities, relations, dimension)
    if json_:
        print(json.dumps(found, ensure_ascii=False))
        return
    marks = {"entity": "E", "relation": "R", "classification": "V"}
    of_systems: list[tuple[Any, ...]] = [
        (row["system"], row["formula"], "".join(marks[answer] for answer in row["answers"]),
         row["dimension"], row["parameters"])
        for row in found["systems"]
    ]  # fmt: skip
    headings = ("--system", "D(h, r, t)", "answers", "d", "parameters")
    display.show_table("Systems", headings, of_systems)
    display.say("\nanswers: E missing entities, R missing relations, V verdicts (is it true?)")
    of_scores: list[tuple[Any, ...]] = [
        (row["score"], row["formula"], row["dimension"], row["parameters"] or "even d!") for row in found["scores"]
    ]
    display.show_table("Scores (PBE stands on any of them)", ("--score", "D(h, r, t)", "d", "parameters"), of_scores)
    display.say(f"\nParameters for {entities:,} entities and {relations:,} relations. More: docs/systems.md")


def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="As the page docs/settings.md.")] = False,
) -> None:
    """List every setting of `train`, with its default and meaning."""
    from doxa import config as knobs
    from doxa.render import terminal as display

    if markdown:
        print(knobs.as_markdown(), end="")
    else:
        rows: list[tuple[Any, ...]] = list(knobs.describe())
        display.show_table("", ("setting", "default", "choices", "meaning"), rows)


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the model, the data and the pictures.")] = Path("demo"),
    force: Annotated[bool, typer.Option("--force", help="Replace the folder if it exists.")] = False,
) -> None:
    """Learn the embedded atlas of the world, ask it questions, and draw how far it can be trusted."""
    from doxa.demo.run import run

    run(out, force)
