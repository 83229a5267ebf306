"""Searching for settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from doxa.cli.hints import INTERRUPTED
from doxa.cli.options import (
    DataArgument,
    FormatOption,
    OnErrorOption,
    ReadOption,
    ScoreOption,
    SetOption,
    SettingsOption,
    StrictOption,
    SystemOption,
    ValidOption,
    chosen_settings,
    read_dataset,
)


def tune(
    data: DataArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder for the study and the best settings.")],
    valid: ValidOption = None,
    seconds: Annotated[float, typer.Option(help="Time for the whole search.", min=1)] = 600.0,
    trials: Annotated[int, typer.Option(help="Stop after this number of trials; 0 = by time alone.", min=0)] = 0,
    system: SystemOption = None,
    score: ScoreOption = None,
    settings_: SettingsOption = None,
    set_: SetOption = [],  # noqa: B006
    strict: StrictOption = False,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Search for good settings for your data, measured on validation beliefs alone.

    Trains many times with other learning rates, weights and penalties, and stops trials that fall behind. The best
    settings are written to OUT/best.toml. A test file is never opened.

    Settings you pass stay fixed. Without --score, the score complex is tuned (translation where confidence is fitted);
    `doxa train` without --score compares scores by itself. Use --set epochs=10 or --set time_budget=60 to limit one
    trial; the default is a twentieth of --seconds. Repeat the command to continue a search that was stopped.

    Example: `doxa tune beliefs.tsv --out study --score complex --seconds 1200`, then
    `doxa train beliefs.tsv --out model --settings study/best.toml`
    """
    from doxa.render import terminal
    from doxa.training.tuning import BEST
    from doxa.training.tuning import tune as search

    values = chosen_settings(settings_, set_, system=system, score=score)
    train, validation = read_dataset(data, valid, on_error, format_, read_)
    with terminal.tuning_progress(seconds) as report:
        study = search(train, validation, out, seconds=seconds, trials=trials, strict=strict, report=report, **values)
    terminal.show_tuning(study)
    if study.interrupted:
        terminal.remark("Stopped early; the trial under way does not count. Repeat the command to continue.")
        raise typer.Exit(INTERRUPTED)
    terminal.say(f"{out / BEST}: train with `doxa train {data} --out MODEL --settings {out / BEST}`")
