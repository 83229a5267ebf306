"""What doxa offers: systems, settings, the demo."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from doxa.cli.options import JsonOption
from doxa.render.plain import print_json

ANSWERS = {"entity": "E", "relation": "R", "classification": "V"}


def systems(
    entities: Annotated[int, typer.Option(help="Number of entities to count parameters for.", min=1)] = 14_951,
    relations: Annotated[int, typer.Option(help="Number of relations to count parameters for.", min=1)] = 1_345,
    dimension: Annotated[int, typer.Option(help="Dimension; 0 = the default of each system.", min=0)] = 0,
    json_: JsonOption = False,
) -> None:
    """List the systems of the paper and the scores of PBE.

    Prints the formula, the number of parameters and the kinds of answers of each. Sizes are those of FB15k by default.

    Example: `doxa systems --entities 38588 --relations 11 --dimension 50`
    """
    from doxa.render import terminal
    from doxa.systems import describe

    table = describe(entities, relations, dimension)
    if json_:
        print_json(table)
        return
    of_systems: list[tuple[Any, ...]] = [
        (row["system"], row["formula"], "".join(ANSWERS[answer] for answer in row["answers"]),
         row["dimension"], row["parameters"])
        for row in table["systems"]
    ]  # fmt: skip
    headings = ("--system", "D(h, r, t)", "answers", "d", "parameters")
    terminal.show_table("Systems", headings, of_systems)
    terminal.say("\nanswers: E missing entities, R missing relations, V verdicts (true or false)")
    of_scores: list[tuple[Any, ...]] = [
        (row["score"], row["formula"], row["dimension"], row["parameters"] or "even d!") for row in table["scores"]
    ]
    terminal.show_table("Scores (PBE can use any of them)", ("--score", "D(h, r, t)", "d", "parameters"), of_scores)
    terminal.say(f"\nParameters for {entities:,} entities and {relations:,} relations. More: docs/systems.md")


def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/settings.md.")] = False,
) -> None:
    """List every setting with its default and meaning, in four groups.

    Settings of the model and of training take effect when a model is trained. Settings of judging and running can be
    changed later with `doxa calibrate`, settings of running also with `doxa train --resume`.

    Example: `doxa settings`, then `doxa train beliefs.tsv --out model --set dimension=100`
    """
    from doxa.config import describe
    from doxa.render import terminal
    from doxa.systems import describe_options

    if markdown:
        from doxa.cli.reference import settings_page

        print(settings_page(), end="")
        return
    for group, rows in groupby(describe(), key=lambda row: row[0]):
        title = "Settings of the model" if group == "model" else f"Settings of {group}"
        terminal.show_settings(title, [row[1:] for row in rows])
    options = [(*row[1:4], f"{row[4]} Scores: {row[0]}.") for row in describe_options()]
    terminal.show_settings("Options of a score", options)


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the model, the data and the plots.")] = Path("demo"),
    force: Annotated[bool, typer.Option("--force", help="Replace the folder of an earlier demo.")] = False,
) -> None:
    """Train on the embedded atlas of the world, ask questions, and draw how well credence is calibrated.

    Prints answers, metrics and suspects in about a minute, and writes the model, the data and the plots to --out.

    Example: `doxa demo --out demo`
    """
    from doxa.demo.run import run

    run(out, force)
