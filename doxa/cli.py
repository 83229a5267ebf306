"""The command line: a docstring, an example and one library call per command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.errors import DoxaError, UsageError, one_of

if TYPE_CHECKING:
    from doxa.beliefs import Beliefs

app = typer.Typer(
    name="doxa",
    help="Complete a knowledge base: learn from its beliefs, then ask, judge and evaluate with probabilities.",
    epilog="Start with: doxa demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
data_app = typer.Typer(help="Look at files of beliefs.", no_args_is_help=True)
app.add_typer(data_app, name="data")

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder made by `doxa train`.")]
OnErrorOption = Annotated[str, typer.Option("--on-error", help="Faulty lines: raise (stop), or skip and count.")]


@app.callback()
def common(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False) -> None:
    """Shared by all commands."""
    from doxa import display

    display.show_notices()


@app.command()
def train(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A file of beliefs, or a folder with train and valid.")],
    out: Annotated[Path, typer.Option("--out", help="The model folder to write.")],
    valid: Annotated[Path | None, typer.Option(help="Validation beliefs, if not in the folder.")] = None,
    system: Annotated[str, typer.Option(help="The recipe; `doxa systems` lists them.")] = "pbe",
    score: Annotated[
        str | None, typer.Option(help="D(h, r, t), the plausibility of a triple; the system's own if left out.")
    ] = None,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="Any setting; see `doxa settings`.")
    ] = [],  # noqa: B006
    time_budget: Annotated[float, typer.Option(help="Seconds of training; the schedule stretches to them.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Same seed, same weights (one worker, no time budget).")] = 0,
    workers: Annotated[
        int, typer.Option(help="Processes that learn side by side; more than one is not exactly repeatable.", min=1)
    ] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run in --out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is in --out.")] = False,
    on_error: OnErrorOption = "raise",
) -> None:
    """Learn a model from beliefs.

    DATA is TAB-separated: head, relation, tail [, mention] [, confidence]; .gz and .zst too. A folder's valid file
    (or --valid) serves early stopping, thresholds and calibration; its test file is never opened.
    Without a validation set 5 % of the beliefs are held out. Ctrl-C ends early and keeps what was learnt.

    Example: `doxa train beliefs.tsv --out model --set dimension=100 --time-budget 60`
    """
    from doxa import display, files, store
    from doxa.fitting import fit_to_folder
    from doxa.settings import parse_assignments
    from doxa.systems import recipe

    values: dict[str, Any] = {"system": system, "seed": seed, "time_budget": time_budget, "workers": workers}
    if score is not None:
        values["score"] = score
    settings = recipe(values | parse_assignments(set_))
    store.check_vacant(out, force, resume)
    parts = files.dataset(data)
    for source in (data, valid):
        if source is not None and source.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"--out {out} would replace the data in {source}", "choose another folder for the model")
    beliefs = _read(parts.train, on_error)
    valid_path = valid or parts.valid
    held = _read(valid_path, on_error) if valid_path else None
    display.tell(f"{parts.train}: {beliefs}")
    display.tell(f"{valid_path}: {held}" if held else f"no validation file: {settings.holdout:.0%} held out")
    with display.training_progress() as report:
        model = fit_to_folder(
            beliefs, held, out, settings=settings, on_error=on_error, report=report, resume=resume, force=force
        )
    quality = [point["quality"] for point in model.curve if point["quality"] is not None]
    measure = {"ranking": "filtered MRR", "accuracy": "accuracy of verdicts"}[settings.validate_by]
    said = f", validation {max(quality):.3f} ({measure})" if quality else ""
    display.say(f"{out}: {model!r}")
    display.say(f"{model.origin['epochs']} epochs in {model.origin['seconds']:.1f} s{said}")
    if model.origin["interrupted"]:
        display.tell("Stopped early; the model is usable. To go on, repeat the command with --resume.")
        raise typer.Exit(130)


@app.command(context_settings={"ignore_unknown_options": True})
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


@app.command()
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

    _check_output("--out", out, model, file)
    learnt = Model.load(model)
    table = files.read(file, _on_error(on_error))
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


@app.command()
def evaluate(
    model: ModelFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Test beliefs.")],
    tasks: Annotated[
        str, typer.Option(help="Comma-separated.")
    ] = "entity,relation,classification,confidence,calibration",
    filter_: Annotated[
        str, typer.Option("--filter", help="Drop known facts of train, valid and test (all), or train.")
    ] = "all",
    candidates: Annotated[
        str, typer.Option(help="Rank among all entities, or those seen there with the relation.")
    ] = "all",
    rank_all: Annotated[
        bool, typer.Option("--rank-all", help="Of a labelled file, rank the false beliefs too.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the falsehoods made for unlabelled files.", min=0)] = 0,
    memory: Annotated[
        str, typer.Option(help="For tables of scores, e.g. 500MB; a quarter of what is free if left out.")
    ] = "",
    json_: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")] = None,
    on_error: OnErrorOption = "raise",
) -> None:
    """Measure a model on a file: entity inference, relation prediction, classification, confidence, calibration.

    Ranks are raw and filtered; ties count at their expected rank. A file without labels is classified against
    falsehoods made from it: head or tail replaced by an entity seen in that position of that relation.

    Example: `doxa evaluate model test.tsv --tasks entity,relation --json report.json`
    """
    from doxa import display
    from doxa.evaluation.report import evaluate as run
    from doxa.files.atomic import written
    from doxa.memory import parse
    from doxa.model import Model

    wanted = [task.strip() for task in tasks.split(",") if task.strip()]
    filter_rule = _one_of("--filter", filter_, ("all", "train"))
    candidate_rule = _one_of("--candidates", candidates, ("all", "relation"))
    if not wanted:
        raise UsageError("--tasks names no task")
    _check_output("--json", json_, model, file)
    learnt = Model.load(model)
    beliefs = _read(file, on_error)
    if memory:
        learnt.pbe.memory = parse(memory)
    with display.busy("evaluating") as say:
        found = run(
            learnt,
            beliefs,
            wanted,
            filter=filter_rule,
            candidates=candidate_rule,
            rank_all=rank_all,
            seed=seed,
            report=lambda task: say(f"evaluating: {task}"),
        )
    display.show_evaluation(found)
    if json_ is not None:
        with written(json_) as unfinished:
            text = json.dumps(found.as_dict(), indent=1, ensure_ascii=False, allow_nan=False)
            unfinished.write_text(text + "\n", encoding="utf-8")


@app.command()
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
    from doxa import display
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


@app.command()
def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="As the page docs/settings.md.")] = False,
) -> None:
    """List every setting of `train`, with its default and meaning."""
    from doxa import display
    from doxa import settings as knobs

    if markdown:
        print(knobs.as_markdown(), end="")
    else:
        rows: list[tuple[Any, ...]] = list(knobs.describe())
        display.show_table("", ("setting", "default", "choices", "meaning"), rows)


@app.command()
def bench(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(metavar="[train|rank|answer|load|growth]…", help="What to measure; all if left out."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Dataset folder with train, valid and test; load and growth make their own.")
    ] = None,
    dimension: Annotated[int, typer.Option(help="Length of the vectors.", min=1)] = 200,
    json_: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures as JSON.")] = None,
) -> None:
    """Measure how fast doxa trains, ranks, answers and loads here, beside what the machine itself can do.

    The limit of training and ranking is the bare matrix products of the same shapes, timed in turns with them in the
    same process; that of several workers is as many times one worker. Nothing else should run meanwhile.

    Example: `doxa bench train rank --data ../shared/data/fb15k --json bench.json`
    """
    from doxa import bench as benches
    from doxa import display
    from doxa.files.atomic import written

    kinds = kinds or list(benches.KINDS)
    for kind in kinds:
        _one_of("bench", kind, tuple(benches.KINDS))
    wanting = [kind for kind in kinds if kind not in benches.WITHOUT_DATA]
    if wanting and data is None:
        raise UsageError(
            f"bench {wanting[0]} needs --data, a dataset folder", "for example: --data ../shared/data/fb15k"
        )
    figures = []
    for kind in kinds:
        options: dict[str, Any] = {} if kind in benches.WITHOUT_DATA else {"data": data, "dimension": dimension}
        with display.busy(f"bench {kind}"):
            for figure in benches.KINDS[kind](**options):
                figures.append(figure)
                display.show_figure(figure)
    found = benches.Bench(tuple(figures))
    display.say(
        f"\n{found.machine['processor']}, {found.machine['cores']} cores; "
        + ", ".join(f"{name} {number}" for name, number in found.machine["versions"].items())
    )
    if json_ is not None:
        with written(json_) as unfinished:
            unfinished.write_text(json.dumps(found.as_dict(), indent=1) + "\n", encoding="utf-8")


@data_app.command("generate")
def generate_(
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


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the model, the data and the pictures.")] = Path("demo"),
    force: Annotated[bool, typer.Option("--force", help="Replace the folder if it exists.")] = False,
) -> None:
    """Learn the embedded atlas of the world, ask it questions, and draw how far it can be trusted."""
    from doxa.demo import run

    run(out, force)


@data_app.command("inspect")
def inspect_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of beliefs or a dataset folder.")],
    top: Annotated[int, typer.Option(help="Relations to list.", min=0)] = 15,
    json_: Annotated[bool, typer.Option("--json", help="As JSON, with every relation.")] = False,
    on_error: OnErrorOption = "raise",
) -> None:
    """Count beliefs, duplicates, leaks between train and test, unseen names, and profile the relations.

    Example: `doxa data inspect demo/data`
    """
    from doxa import display
    from doxa.inspection import inspect

    found = inspect(file, _on_error(on_error))
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


def _read(path: Path, on_error: str) -> Beliefs:
    from doxa.beliefs import Beliefs
    from doxa.files import blocks

    return Beliefs.from_tables(blocks(path, _on_error(on_error)))


def _on_error(value: str) -> Any:
    return _one_of("--on-error", value, ("raise", "skip"))


def _one_of(option: str, value: str, choices: tuple[str, ...]) -> Any:
    one_of(option, value, choices)
    return value


def _check_output(option: str, path: Path | None, model: Path, file: Path) -> None:
    """Refuse an output file that is a folder, the input, or part of the model."""
    if path is None:
        return
    if path.is_dir():
        raise DoxaError(f"cannot write {path}: it is a folder")
    if path.resolve() == file.resolve() or path.resolve().is_relative_to(model.resolve()):
        raise UsageError(f"{option} {path} would replace what is being read", "choose another file")


def main() -> None:
    """Run the command line; a fault is one line and an exit code, with a traceback only under --debug."""
    if "--debug" in sys.argv:
        sys.argv.remove("--debug")
        app()
        return
    try:
        app()
    except DoxaError as fault:
        print(f"Error: {fault}", file=sys.stderr)
        sys.exit(fault.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as fault:
        print(f"Error: unexpected {type(fault).__name__}: {fault}\n  this is a fault in doxa; "
              "`doxa --debug …` shows where", file=sys.stderr)  # fmt: skip
        sys.exit(1)
