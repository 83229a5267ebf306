"""Asking a model and having it judge."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from doxa.commands.options import ModelFolder, OnErrorOption, check_output, on_error_rule
from doxa.errors import UsageError


def ask(
    model: ModelFolder,
    head: Annotated[str | None, typer.Argument(help="Head, or '?'.")] = None,
    relation: Annotated[str | None, typer.Argument(help="Relation, or '?'.")] = None,
    tail: Annotated[str | None, typer.Argument(help="Tail, or '?'.")] = None,
    mention: Annotated[
        str | None, typer.Option(help="Words that state the relation, when it is the one missing.")
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option("--questions", metavar="FILE", help="Ask all of a file: head, relation, tail by TABs."),
    ] = None,
    top: Annotated[int, typer.Option(help="How many answers.", min=1)] = 10,
    new_only: Annotated[bool, typer.Option("--new-only", help="Leave out what is already known.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Answer as JSON, one line for each question.")] = False,
) -> None:
    """Ask for what is missing: exactly one of HEAD, RELATION and TAIL is '?'.

    A file of questions holds one a line, with an optional mention; they are answered together, far faster than one by
    one.

    Examples: `doxa ask model Lyon 'located in' '?'`, `doxa ask model --questions asked.tsv --top 3 --json > answers`
    """
    from doxa import display, files
    from doxa.model import Model

    given = [part for part in (head, relation, tail) if part is not None]
    if (questions is None and len(given) < 3) or (questions is not None and given):
        raise UsageError(
            "expected HEAD, RELATION and TAIL, one of them '?', or --questions FILE",
            "for example: doxa ask MODEL Lyon 'located in' '?'",
        )
    if questions is None:
        asked = [(str(head), str(relation), str(tail), mention)]
    else:
        table = files.read(questions)
        said = table["mention"] if "mention" in table.columns else [None] * len(table)
        asked = list(zip(table["head"], table["relation"], table["tail"], said, strict=True))
    for answer in Model.load(model).ask(asked, top, new_only):
        if json_:
            print(json.dumps(answer.as_dict(), ensure_ascii=False))
        else:
            display.say(str(answer))


def judge(
    model: ModelFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Beliefs to judge.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write; standard output if left out.")] = None,
    on_error: OnErrorOption = "raise",
) -> None:
    """Judge every belief of a file: its credence, and true or false at its relation's threshold.

    A belief that names something the model never saw is "unknown".

    Example: `doxa judge model candidates.tsv --out judged.tsv`
    """
    import polars as pl

    from doxa import answering, display, files
    from doxa.beliefs import Beliefs
    from doxa.model import Model

    check_output("--out", out, model, file)
    learnt = Model.load(model)
    table = files.read(file, on_error_rule(on_error), refuted=True)
    found = answering.judge(learnt, Beliefs.from_table(table, learnt.names))
    verdict = pl.Series("verdict", found.verdict).cast(pl.String).set(pl.Series(found.unknown), "unknown")
    credence = pl.Series("credence", found.credence).fill_nan(None).round(6)
    table = table.drop("line").with_columns(credence, verdict)
    if out is None:
        sys.stdout.write(table.write_csv(separator="\t", quote_style="never"))
    else:
        files.write(table, out)
    counts = ", ".join(f"{(verdict == word).sum():,} {word}" for word in ("true", "false", "unknown"))
    display.tell(f"{file}: {counts}")
