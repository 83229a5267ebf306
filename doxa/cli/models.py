"""Learning a model, measuring it, and measuring how fast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from doxa.cli.options import (
    FormatOption,
    MemoryOption,
    ModelFolder,
    OnErrorOption,
    ReadOption,
    ScoreOption,
    SetOption,
    SettingsOption,
    SystemOption,
    check_output,
    chosen_of,
    chosen_settings,
    read,
    read_dataset,
    reading,
)
from doxa.errors import UsageError


def train(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A file of beliefs, or a folder with train and valid.")],
    out: Annotated[Path, typer.Option("--out", help="The model folder to write.")],
    valid: Annotated[Path | None, typer.Option(help="Validation beliefs, if not in the folder.")] = None,
    system: SystemOption = None,
    score: ScoreOption = None,
    settings_: SettingsOption = None,
    set_: SetOption = [],  # noqa: B006
    time_budget: Annotated[
        float | None, typer.Option(help="Seconds of training; the schedule stretches to them.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Same seed, same weights (one worker, no time budget); 0 if left out.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes that learn side by side, 1 if left out; more are not exactly repeatable.", min=1),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run in --out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is in --out.")] = False,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Learn a model from beliefs.

    DATA holds head, relation, tail [, mention] [, confidence], by TABs or in any other format that `doxa data convert
    --help` lists; .gz and .zst too, - is standard input. A folder's valid file (or --valid) serves early stopping,
    thresholds and calibration; its test file is never opened.
    Without a validation set 5 % of the beliefs are held out. Ctrl-C ends early and keeps what was loaded.

    Example: `doxa train beliefs.tsv --out model --set dimension=100 --time-budget 60`
    """
    from doxa.render import terminal as display
    from doxa.storage import models as store
    from doxa.systems import recipe
    from doxa.training.automatic import chosen, told
    from doxa.training.fit import fit_to_folder

    settings = recipe(
        chosen_settings(
            settings_, set_, system=system, score=score, time_budget=time_budget, seed=seed, workers=workers
        )
    )
    store.check_vacant(out, force, resume)
    for source in (data, valid):
        if source is not None and source.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"--out {out} would replace the data in {source}", "choose another folder for the model")
    beliefs, held = read_dataset(data, valid, on_error, format_, read_)
    if held is None:
        display.tell(f"no validation file: {settings.holdout:.0%} held out")
    settings = chosen(settings, beliefs)
    display.tell(f"learning by {told(settings)}")
    with display.training_progress() as report:
        model = fit_to_folder(
            beliefs, held, out, settings=settings, on_error=on_error, report=report, resume=resume, force=force
        )
    quality = [point["quality"] for point in model.curve if point["quality"] is not None]
    measures = {"ranking": "filtered MRR", "accuracy": "accuracy of verdicts", "confidence": "minus squared error"}
    measure = measures[settings.quality]
    said = f", validation {max(quality):.3f} ({measure})" if quality else ""
    display.say(f"{out}: {model!r}")
    display.say(f"{model.origin['epochs']} epochs in {model.origin['seconds']:.1f} s{said}")
    if model.origin["interrupted"]:
        display.tell("Stopped early; the model is usable. To go on, repeat the command with --resume.")
        raise typer.Exit(130)


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
        bool, typer.Option("--rank-all", help="Of a labeled file, rank the false beliefs too.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the falsehoods made for unlabeled files.", min=0)] = 0,
    memory: MemoryOption = "",
    json_: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PNG", help="Draw how far credence can be trusted.")
    ] = None,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Measure a model on a file: entity inference, relation prediction, classification, confidence, calibration.

    Ranks are raw and filtered; ties count at their expected rank. A file without labels is classified against
    falsehoods made from it: head or tail replaced by an entity seen in that position of that relation.

    Example: `doxa evaluate model test.tsv --tasks entity,relation --json report.json`
    """
    from doxa.cli.options import parse_size
    from doxa.data.atomic import written
    from doxa.evaluation.report import evaluate as run
    from doxa.model import Model
    from doxa.render import terminal as display

    wanted = [task.strip() for task in tasks.split(",") if task.strip()]
    filter_rule = chosen_of("--filter", filter_, ("all", "train"))
    candidate_rule = chosen_of("--candidates", candidates, ("all", "relation"))
    if not wanted:
        raise UsageError("--tasks names no task")
    check_output("--json", json_, model, file)
    check_output("--plot", plot, model, file)
    loaded = Model.load(model)
    beliefs = read(file, on_error, reading(format_, read_), allow_zero_confidence=True)
    if memory:
        loaded.pbe.memory = parse_size(memory)
    with display.busy("evaluating") as say:
        found = run(
            loaded,
            beliefs,
            wanted,
            filter=filter_rule,
            candidates=candidate_rule,
            rank_all=rank_all,
            seed=seed,
            report=lambda task: say(f"evaluating: {task}"),
        )
    display.show_evaluation(found)
    if plot is not None and found.calibration is not None:
        from doxa.render.plots import reliability_diagram

        with written(plot) as unfinished:
            reliability_diagram(found.calibration.after, unfinished, found.calibration.before)
    if json_ is not None:
        with written(json_) as unfinished:
            text = json.dumps(found.as_dict(), indent=1, ensure_ascii=False, allow_nan=False)
            unfinished.write_text(text + "\n", encoding="utf-8")


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
    from doxa.data.atomic import written
    from doxa.lab import bench as benches
    from doxa.render import terminal as display

    kinds = kinds or list(benches.KINDS)
    for kind in kinds:
        chosen_of("bench", kind, tuple(benches.KINDS))
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
