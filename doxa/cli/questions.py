"""Asking a model and having it judge."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from doxa.cli.options import FormatOption, ModelFolder, OnErrorOption, ReadOption, check_output, on_error_rule, reading
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
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the answers as beliefs, their probability as confidence."),
    ] = None,
) -> None:
    """Ask for what is missing: exactly one of HEAD, RELATION and TAIL is '?'.

    A file of questions holds one a line, with an optional mention; they are answered together, far faster than one by
    one. With --out the completed beliefs are written, in any format that `doxa data convert --help` lists.

    Examples: `doxa ask model Lyon 'located in' '?'`, `doxa ask model --questions asked.tsv --top 3 --out answers.ttl`
    """
    from doxa import formats as files
    from doxa.model import Model
    from doxa.render import terminal as display

    given = [part for part in (head, relation, tail) if part is not None]
    if (questions is None and len(given) < 3) or (questions is not None and given):
        raise UsageError(
            "expected HEAD, RELATION and TAIL, one of them '?', or --questions FILE",
            "for example: doxa ask MODEL Lyon 'located in' '?'",
        )
    if questions is None:
        asked = [(str(head), str(relation), str(tail), mention)]
    else:
        table = files.read_frame(questions)
        said = table["mention"] if "mention" in table.columns else [None] * len(table)
        asked = list(zip(table["head"], table["relation"], table["tail"], said, strict=True))
    if out is not None and questions is not None:
        check_output("--out", out, model, questions)
    answers = Model.load(model).ask(asked, top, new_only)
    if out is not None:
        from doxa.inference.answer import completed

        files.write(completed(answers), out)
        display.tell(f"{out}: {sum(map(len, answers)):,} answers")
        return
    for answer in answers:
        if json_:
            print(json.dumps(answer.as_dict(), ensure_ascii=False))
        else:
            display.say(str(answer))


def judge(
    model: ModelFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Beliefs to judge.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write; standard output if left out.")] = None,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Judge every belief of a file: its credence, and true or false at its relation's threshold.

    A belief that names something the model never saw is "unknown". The ending of --out tells its format; in one that
    has no columns of its own (RDF, NELL) the credence stands as the confidence.

    Example: `doxa judge model candidates.tsv --out judged.tsv`
    """
    import polars as pl

    from doxa import formats as files
    from doxa import inference as answering
    from doxa.data.beliefs import Beliefs
    from doxa.formats.registry import is_tabular
    from doxa.model import Model
    from doxa.render import terminal as display

    check_output("--out", out, model, file)
    loaded = Model.load(model)
    options = reading(format_, read_)
    table = files.read_frame(file, on_error_rule(on_error), allow_zero_confidence=True, options=options)
    found = answering.judge(loaded, Beliefs.from_frame(table, loaded.vocabularies))
    verdict = pl.Series("verdict", found.verdict.tolist(), dtype=pl.String)
    credence = pl.Series("credence", found.credence).fill_nan(None).round(6)
    table = table.drop("line").with_columns(credence, verdict)
    if out is None:
        sys.stdout.write(table.write_csv(separator="\t", quote_style="never"))
    else:
        if not is_tabular(out):
            table = table.drop("credence", "verdict").with_columns(credence.alias("confidence"))
        files.write(table, out, prefixes=options.prefixes)
    counts = ", ".join(f"{(verdict == word).sum():,} {word}" for word in ("true", "false", "unknown"))
    display.tell(f"{file}: {counts}")


def export(
    model: ModelFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write; a folder for TensorBoard's projector.")],
    format_: Annotated[
        str, typer.Option("--format", help="parquet, npz, word2vec or projector, if the ending of OUT does not tell.")
    ] = "",
) -> None:
    """Write the vectors of entities, relations and words for other tools.

    By ending: .parquet (kind, name, vector), .npz (NumPy arrays and names), .vec or .txt (word2vec text, as gensim
    reads it), none (a folder for TensorBoard's projector).

    Example: `doxa export model vectors.parquet`
    """
    from doxa.model import Model
    from doxa.render import terminal as display
    from doxa.storage.vectors import export as write

    if out.resolve().is_relative_to(model.resolve()):
        raise UsageError(f"{out} lies in the model's folder", "choose another place")
    found = write(Model.load(model), out, format_)
    said = ", ".join(f"{len(names):,} {kind} vectors of {rows.shape[1]}" for kind, (names, rows) in found.items())
    display.say(f"{out}: {said}")
