"""Models: train, average, calibrate, describe, export."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.cli.hints import INTERRUPTED, faults_of_data
from doxa.cli.options import (
    DataArgument,
    ForceOption,
    FormatOption,
    JsonOption,
    ModelFolder,
    OnErrorOption,
    ReadOption,
    ScoreOption,
    SetOption,
    SettingsOption,
    StrictOption,
    SystemOption,
    ValidOption,
    chosen_settings,
    read,
    read_dataset,
    reading,
)
from doxa.errors import UsageError
from doxa.render.plain import print_json

if TYPE_CHECKING:
    from doxa.config import Settings
    from doxa.model import Model

BudgetOption = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Seconds of the whole command; the schedule of training stretches to fit."),
]
TrainSeed = Annotated[
    int | None, typer.Option(help="Same seed, same weights (with one worker and no time budget); 0 by default.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(help="Parallel training processes, 1 by default; with more, a run is not exactly repeatable.", min=1),
]
PartitionsOption = Annotated[
    int | None,
    typer.Option(help="Partitions of the entities, two of which are in memory at a time; for large data.", min=1),
]
ClusterTrain = Annotated[
    str | None,
    typer.Option(metavar="RAY", help="Train partitions on a Ray cluster: local, auto, or ray://HOST:10001."),
]
StorageOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Where partitions have their files, for all nodes; by default the model folder."),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Continue the unfinished run in --out; settings of running may differ.")
]

ChangeOption = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of judging or running, repeatable."),
]


def train(
    data: DataArgument,
    out: Annotated[Path, typer.Option("--out", help="The model folder to write.")],
    valid: ValidOption = None,
    system: SystemOption = None,
    score: ScoreOption = None,
    settings_: SettingsOption = None,
    set_: SetOption = [],  # noqa: B006
    time_budget: BudgetOption = None,
    seed: TrainSeed = None,
    workers: WorkersOption = None,
    partitions: PartitionsOption = None,
    cluster: ClusterTrain = None,
    storage: StorageOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    strict: StrictOption = False,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Train a model on beliefs and write it to a folder.

    DATA has the columns head, relation, tail and optionally mention and confidence. It is TAB-separated or in another
    format that `doxa data convert --help` lists; - is standard input.

    The valid file of a folder (or --valid) serves early stopping, thresholds and calibration. The test file is never
    opened. Without validation beliefs, 5 % of the training beliefs are held out. Validation beliefs with names that
    training never sees are counted and not ranked. Ctrl-C stops early and keeps a usable model.

    Without --score, several scores and regularizations are compared first: a race on the validation beliefs, for at
    most a quarter of the work. Settings you pass hold for all of them. `doxa info` shows the race again.

    Example: `doxa train beliefs.tsv --out model --set dimension=100 --time-budget 60`
    """
    began = time.monotonic()
    from doxa.render import terminal
    from doxa.systems import recipe
    from doxa.training.deadline import Deadline
    from doxa.training.fit import fit_to_folder
    from doxa.training.limits import with_partitions
    from doxa.training.plan import summary

    options = {"system": system, "score": score, "time_budget": time_budget, "seed": seed, "workers": workers,
               "partitions": partitions, "cluster": cluster, "storage": storage}  # fmt: skip
    settings = with_partitions(recipe(chosen_settings(settings_, set_, **options)))
    _check_folder(out, force, resume, data, valid)
    data, remembered = _pinned(data)
    beliefs, validation = read_dataset(data, valid, on_error, format_, read_)
    if validation is None:
        terminal.remark(f"no validation file: up to {settings.validation_fraction:.0%} of the beliefs are held out")
    with terminal.training_progress() as report, faults_of_data(), _interruptible():
        model = fit_to_folder(
            beliefs, validation, out, settings=settings, strict=strict, report=report, resume=resume, force=force,
            deadline=Deadline(settings.time_budget, began),
            announce=lambda chosen: terminal.remark(f"training with {summary(chosen)}"), origin=remembered,
        )  # fmt: skip
    if remembered:
        _register(data, model, out)
    _show_trained(model, out)


def _pinned(data: Path) -> tuple[Path, dict[str, Any]]:
    """The data at the present snapshot if they are a knowledge base, and what the model remembers of it."""
    from doxa.storage import sources

    remembered = sources.origin(data)
    if not remembered:
        return data, {}
    return sources.pinned(data, remembered["store"]["snapshot"]), remembered


def _register(data: Path, model: Model, out: Path) -> None:
    """Record the model in the knowledge base it was trained on."""
    from doxa.errors import BadStore
    from doxa.render import terminal
    from doxa.storage import sources

    try:
        version = sources.register(data, model, out)
    except BadStore as fault:
        if "read-only" not in fault.message or sources.is_writable(data):
            hint = f"the model in {out} is whole, but not recorded; to train and record it again, pass --force"
            raise BadStore(fault.message, hint) from fault
        terminal.remark(f"Note: the model is not recorded in the knowledge base: {fault.message}")
        return
    terminal.remark(f"model version {version.id} of the knowledge base, {version.state}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """End with the exit code of Ctrl-C where training has not begun, as in a race, or does not wait for its end."""
    from doxa.render import terminal

    try:
        yield
    except KeyboardInterrupt:
        terminal.remark("Stopped before there was a model.")
        raise typer.Exit(INTERRUPTED) from None


def _check_folder(out: Path, force: bool, resume: bool, *sources: Path | None) -> None:
    """Refuse a folder that no model can be written to, or that contains the data."""
    from doxa.storage import folders

    with faults_of_data():
        folders.check_vacant(out, force, resume)
    for source in sources:
        if source is not None and source.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"--out {out} would replace the data in {source}", "choose another folder for the model")


def _show_trained(model: Model, out: Path) -> None:
    """Print what was trained; a run stopped by Ctrl-C ends with its exit code."""
    from doxa.render import terminal
    from doxa.training.validation import metric_name

    metrics = [record["metric"] for record in model.curve if record["metric"] is not None]
    best = f", validation {max(metrics):.3f} ({metric_name(model.pbe, model.settings)})" if metrics else ""
    if "race" in model.origin:
        terminal.show_race(model.origin["race"])
    terminal.say(f"{out}: {model!r}")
    terminal.say(f"{model.origin['epochs']} epochs in {model.origin['seconds']:.1f} s{best}")
    if model.origin["interrupted"]:
        terminal.remark("Stopped early; the model is usable. To continue, repeat the command with --resume.")
        raise typer.Exit(INTERRUPTED)


def average(
    models_: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Two or more model folders.")],
    valid: Annotated[Path, typer.Option("--valid", help="Validation beliefs, or a folder with a valid file.")],
    out: Annotated[Path, typer.Option("--out", help="Model folder to write.")],
    force: ForceOption = False,
    strict: StrictOption = False,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Join models that differ in their seeds into one model with the mean of their scores.

    The models have the same training beliefs, and the score complex or distmult. The dimensions add up. Thresholds,
    credence and temperatures are fitted on VALID, the validation beliefs of the models. The mean is usually more
    accurate than each model.

    Example: `doxa average seed0 seed1 seed2 --valid data --out mean`
    """
    from doxa.curation.average import average as averaged
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.storage import models

    _check_folder(out, force, False, valid, *models_)
    beliefs = read(_valid_file(valid), on_error, reading(format_, read_), allow_zero_confidence=True)
    loaded = [Model.load(path) for path in models_]
    with terminal.busy("averaging"), faults_of_data():
        model = averaged(loaded, beliefs, strict=strict)
    models.save(model, out, force)
    terminal.say(f"{out}: {model!r}")


def _valid_file(path: Path) -> Path:
    """The file of validation beliefs, which may be in a dataset folder."""
    from doxa import formats

    file = formats.dataset(path).valid if path.is_dir() else path
    if file is None:
        raise UsageError(f"{path} has no valid file", "name a file of validation beliefs")
    return file


def calibrate(
    model: ModelFolder,
    valid: Annotated[Path, typer.Argument(metavar="VALID", help="Validation beliefs, or a folder with a valid file.")],
    set_: ChangeOption = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option("--out", help="Model folder to write; MODEL itself by default.")] = None,
    force: ForceOption = False,
    strict: StrictOption = False,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Fit thresholds, credence and temperatures of a model again, without training.

    Everything that is fitted on validation beliefs is fitted on VALID, with the settings of judging as they were or as
    --set changes them. Settings of running are stored in the model and do not affect judging. Weights stay as they
    are. The model is replaced in place unless --out names another folder; an interrupted run can still be resumed.

    Example: `doxa calibrate model valid.tsv --set decision_rule=learned --set base_rate=0.1 --out model2`
    """
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.storage import models
    from doxa.systems import parse_assignments

    values = parse_assignments(set_)
    _check_changeable(values)
    target = model if out is None else out
    in_place = target.resolve() == model.resolve()
    if not in_place:
        _check_folder(target, force, False, valid, model)
    loaded = Model.load(model)
    path = _valid_file(valid)
    beliefs = read(path, on_error, reading(format_, read_), allow_zero_confidence=True)
    with terminal.busy("calibrating"), faults_of_data():
        calibrated = loaded.calibrate(beliefs, strict=strict, **values)
    models.save(calibrated, target, force or in_place, keep_checkpoint=in_place)
    used = int(beliefs.encode(loaded.vocabularies).seen.sum())
    terminal.say(f"{target}: calibrated on {used:,} beliefs of {path}")


def _check_changeable(values: Mapping[str, Any]) -> None:
    """Refuse settings that a trained model cannot change."""
    from doxa.config import Settings

    changeable = [*Settings().group("judging"), *Settings().group("running")]
    for name in values:
        if name not in changeable:
            hint = f"settings of judging and running are: {', '.join(changeable)}"
            raise UsageError(f"setting {name} takes effect only in training", hint)


def info(model: ModelFolder, json_: JsonOption = False) -> None:
    """Describe a model: system, sizes, settings, training and calibration.

    Settings come in their four groups: model, training, judging and running. A `*` marks values that are not the
    default of the system.

    Example: `doxa info model`
    """
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.systems import recipe, score_options

    loaded = Model.load(model)
    description = loaded.info().as_dict()
    if json_:
        print_json(description)
        return
    defaults = recipe({"system": description["system"], "score": description["score"]})
    terminal.show_info(
        description, defaults.as_dict() | asdict(score_options(defaults)), effective_values(loaded.settings)
    )


def check(model: ModelFolder) -> None:
    """Check a model folder: compare every file with its checksum and every weight with the finite numbers.

    Every command does so when it loads a model of up to 1 GB; a larger one is compared here alone.

    Example: `doxa check model`
    """
    from doxa.render import terminal
    from doxa.storage import folders, models

    loaded = models.load(model, everything=True)
    manifest = folders.read_manifest(model)
    files = (folders.entries(model, manifest) | folders.index_entries(model, manifest)).values()
    size = sum(entry.size for entry in files) / 1e6
    if all(entry.sha256 for entry in files):
        terminal.say(
            f"{model}: whole; {len(files)} files of {size:,.1f} MB have the checksums (SHA-256) written with them"
        )
    else:
        terminal.say(f"{model}: readable; it was written by an earlier version, without checksums")
    terminal.say(f"{loaded!r}")


def effective_values(settings: Settings) -> dict[str, str]:
    """What settings with an automatic value stand for, by name."""
    from doxa.scores import SCORES

    automatic = {
        "scale": "" if settings.scale else f"{SCORES[settings.score].default_scale:g}, the score's default",
        "estimator": settings.training_estimator if settings.estimator == "auto" else "",
        "stop_on": settings.metric if settings.stop_on == "auto" else "",
    }
    return {name: value for name, value in automatic.items() if value}


def export(
    model: ModelFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write; a folder for TensorBoard's projector.")],
    format_: Annotated[
        str, typer.Option("--format", help="parquet, npz, word2vec or projector, if the ending of OUT does not say.")
    ] = "",
) -> None:
    """Write the vectors of entities, relations and words for other tools.

    The ending decides: .parquet (kind, name, vector), .npz (NumPy arrays and names), .vec or .txt (word2vec text for
    gensim), none (a folder for TensorBoard's projector).

    Example: `doxa export model vectors.parquet`
    """
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.storage.vectors import export as write

    if out.resolve().is_relative_to(model.resolve()):
        raise UsageError(f"{out} is inside the model folder", "choose another place")
    tables = write(Model.load(model), out, format_)
    counts = (f"{len(names):,} {kind} vectors of {rows.shape[1]}" for kind, (names, rows) in tables.items())
    terminal.say(f"{out}: {', '.join(counts)}")
