"""Asking a model, and letting it judge."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.cli.options import (
    BaseRateOption,
    ClusterOption,
    FormatOption,
    IndexOption,
    MemoryOption,
    MentionOption,
    ModelFolder,
    OnErrorOption,
    PartsOption,
    ReadOption,
    SafeCsvOption,
    check_output,
    memory_limit,
    quoting,
    read,
    reading,
    rows_runner,
)
from doxa.errors import UsageError
from doxa.render.plain import print_json, visible

if TYPE_CHECKING:
    import polars as pl

    from doxa.inference import Judgment, Question
    from doxa.model import Model

QuestionsOption = Annotated[
    Path | None,
    typer.Option("--questions", metavar="FILE", help="Ask every question of a file: head, relation, tail by TABs."),
]
AnswersFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write the completed beliefs, with their probability as confidence."),
]
JudgedArgument = Annotated[
    list[str], typer.Argument(metavar="FILE | HEAD RELATION TAIL", help="A file of beliefs, or one belief.")
]


def ask(
    model: ModelFolder,
    head: Annotated[str | None, typer.Argument(metavar="HEAD", help="Head entity, or '?'.")] = None,
    relation: Annotated[str | None, typer.Argument(metavar="RELATION", help="Relation, or '?'.")] = None,
    tail: Annotated[str | None, typer.Argument(metavar="TAIL", help="Tail entity, or '?'.")] = None,
    mention: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Words that state the relation, if RELATION is '?'.")
    ] = None,
    questions: QuestionsOption = None,
    top: Annotated[int, typer.Option(help="Number of answers.", min=1)] = 10,
    new_only: Annotated[bool, typer.Option("--new-only", help="Leave out known facts.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, one line per question.")] = False,
    out: AnswersFile = None,
    safe_csv: SafeCsvOption = False,
    use_index: IndexOption = None,
    memory: MemoryOption = "",
) -> None:
    """Ask for the missing part of a belief: exactly one of HEAD, RELATION and TAIL is '?'.

    Prints the most probable answers, and marks those that are known facts. A file of questions has one question per
    line, with an optional mention; its questions are answered together, far faster than one by one.

    Where an index answers (`doxa index`), the last line of an answer says how exact it is.

    Examples: `doxa ask model Lyon 'located in' '?'`, `doxa ask model --questions asked.tsv --top 3 --out answers.ttl`
    """
    from doxa import formats
    from doxa.model import Model
    from doxa.render import terminal

    asked = _questions((head, relation, tail), mention, questions)
    if out is not None and questions is not None:
        check_output("--out", out, model, questions)
    loaded = Model.load(model)
    answers = loaded.ask(asked, top, new_only, memory_limit(memory), use_index)
    if out is not None:
        from doxa.inference.answer import completed

        formats.write(completed(answers), out, prefixes=loaded.vocabularies.prefixes, formulas=quoting(safe_csv))
        terminal.remark(f"{out}: {sum(map(len, answers)):,} answers")
        return
    for answer in answers:
        if json_:
            print_json(answer.as_dict())
        else:
            terminal.say(str(answer))


def _questions(
    parts: tuple[str | None, str | None, str | None], mention: str | None, file: Path | None
) -> list[Question]:
    """The one question of the arguments, or all of a file."""
    from doxa import formats

    head, relation, tail = parts
    if file is None:
        if head is not None and relation is not None and tail is not None:
            return [(head, relation, tail, mention)]
    elif head is None:
        table = formats.read_frame(file)
        mentions = table["mention"] if "mention" in table.columns else [None] * len(table)
        return list(zip(table["head"], table["relation"], table["tail"], mentions, strict=True))
    raise UsageError(
        "expected HEAD, RELATION and TAIL, one of them '?', or --questions FILE",
        "for example: doxa ask MODEL Lyon 'located in' '?'",
    )


def judge(
    model: ModelFolder,
    what: JudgedArgument,
    mention: MentionOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, one line per belief.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; standard output by default.")] = None,
    safe_csv: SafeCsvOption = False,
    base_rate: BaseRateOption = None,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
    memory: MemoryOption = "",
    cluster: ClusterOption = "",
    parts: PartsOption = None,
) -> None:
    """Judge one belief, or every belief of a file: its credence, and true or false.

    A belief is true from its relation's threshold up. A belief of a file that has a name the model never saw is
    "unknown", unless it has a mention: then its credence is the probability of the relation by the sentence. The
    ending of --out decides its format; in RDF and NELL the credence is written as the confidence.

    A credence is a probability in a mixture of true and false beliefs, which the last line states. Beliefs of a source
    that is mostly right, or mostly wrong, need another: --base-rate 0.9. A known fact that contradicts a belief, such
    as another capital, lowers its credence; if that takes it below 0.5, the belief is judged false. Verdicts do not
    depend on --base-rate.

    Examples: `doxa judge model Lyon 'located in' France`, `doxa judge model candidates.tsv --out judged.tsv`
    """
    from doxa.inference.judgment import judge as judge_beliefs
    from doxa.model import Model

    if len(what) == 3:
        if out is not None:
            raise UsageError("--out is for judging a file", "leave it out to judge one belief")
        _judge_one(Model.load(model), (what[0], what[1], what[2]), mention, json_, base_rate)
    elif len(what) == 1:
        if mention is not None:
            raise UsageError("--mention is for judging one belief", "put the mentions of a file into its fourth column")
        file, options = Path(what[0]), reading(format_, read_)
        check_output("--out", out, model, file)
        beliefs = read(file, on_error, options, allow_zero_confidence=True)
        loaded = Model.load(model)
        with rows_runner(cluster, parts, model) as runner:
            judgment = judge_beliefs(loaded, beliefs, memory_limit(memory), base_rate, runner=runner)
        prefixes = loaded.vocabularies.prefixes | options.prefixes
        writing = {"prefixes": prefixes, "formulas": quoting(safe_csv)}
        _write_judged(judgment, file, out, writing, json_)
    else:
        raise UsageError(
            f"{len(what)} arguments after MODEL; expected a file, or head, relation and tail",
            "put quotes around names with spaces: doxa judge MODEL Lyon 'located in' France",
        )


def _judge_one(
    model: Model, triple: tuple[str, str, str], mention: str | None, json_: bool, base_rate: float | None
) -> None:
    """Print the credence and verdict of one belief, whose names the model must know or its sentence stand in for."""
    import polars as pl

    from doxa.data.vocabulary import UNKNOWN
    from doxa.inference.answer import sentence_note
    from doxa.render import terminal

    head, relation, tail = triple
    model.vocabularies.relations.require(relation)
    judgment = model.judge([triple if mention is None else (*triple, mention, None)], base_rate=base_rate)
    if not judgment.from_sentence[0]:
        model.vocabularies.entities.require((head, tail))
    ids = model.vocabularies.entities.ids(pl.Series([head, tail]))
    unseen = [name for name, number in zip((head, tail), ids, strict=True) if number == UNKNOWN]
    note = sentence_note(unseen, "credence is the probability of the relation by the sentence") if unseen else ""
    if json_:
        _print_json(judgment)
        terminal.remark(note or judgment.mixture)
        return
    known = " (known)" if judgment.known[0] else ""
    terminal.say(
        f"{head} · {relation} · {tail}: credence {judgment.credence[0]:.2%}, judged {judgment.verdict[0]}{known}"
    )
    terminal.remark(note or judgment.mixture)


def _print_json(judgment: Judgment) -> None:
    """One line per belief: an entry of `Judgment.as_dict`."""
    for belief in judgment.as_dict()["beliefs"]:
        print_json(belief)


def _write_judged(judgment: Judgment, file: Path, out: Path | None, writing: Mapping[str, Any], json_: bool) -> None:
    """Write the judged beliefs, and count the verdicts on standard error."""
    import polars as pl

    from doxa import formats
    from doxa.formats.registry import is_tabular
    from doxa.render import terminal

    table = judgment.to_frame().with_columns(pl.col("credence").round(6))
    if out is not None:
        if not is_tabular(out):
            table = table.drop("verdict", "confidence", strict=False).rename({"credence": "confidence"})
        formats.write(table, out, **writing)
    elif json_:
        _print_json(judgment)
    else:
        _print_rows(table, writing)
    counts = ", ".join(f"{(judgment.verdict == word).sum():,} {word}" for word in ("true", "false", "unknown"))
    terminal.remark(f"{file}: {counts}\n{judgment.mixture}")


def _print_rows(table: pl.DataFrame, writing: Mapping[str, Any]) -> None:
    """Print rows with a header, separated by TABs; names with a TAB or line break are escaped."""
    from doxa import formats
    from doxa.formats import cells
    from doxa.render import terminal

    if sys.stdout.isatty():
        print(visible(cells.escaped(table).write_csv(separator="\t", quote_style="never")), end="")
        return
    breaks = cells.has_breaks(table)
    sys.stdout.flush()
    formats.write(table, "-", header="yes", escapes="yes" if breaks else "no", **writing)
    if breaks:
        terminal.remark("Note: TABs and line breaks in names are written as \\t, \\n, \\r, and \\ as \\\\; "
                        "--read escapes=yes reads such rows")  # fmt: skip
