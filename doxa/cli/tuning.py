"""Searching for settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from doxa.cli.options import (
    FormatOption,
    OnErrorOption,
    ReadOption,
    ScoreOption,
    SetOption,
    SettingsOption,
    SystemOption,
    chosen_settings,
    read_dataset,
)


def tune(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A file of beliefs, or a folder with train and valid.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the study and the best settings.")],
    valid: Annotated[Path | None, typer.Option(help="Validation beliefs, if not in the folder.")] = None,
    seconds: Annotated[float, typer.Option(help="Time for the whole search.", min=1)] = 600.0,
    trials: Annotated[int, typer.Option(help="Stop after so many trials; 0 = by time alone.", min=0)] = 0,
    system: SystemOption = None,
    score: ScoreOption = None,
    settings_: SettingsOption = None,
    set_: SetOption = [],  # noqa: B006
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Search for the settings that suit your beliefs, judged on validation beliefs alone; a test file is never opened.

    Trains again and again with other learning rates, weights and penalties, gives up what falls behind, and writes the
    best settings to OUT/best.toml. Settings you give are kept as they are: --set epochs=10 or --set time_budget=60
    says how long a trial trains (a twentieth of --seconds if left out). The same command goes on with a search that
    was stopped.

    Example: `doxa tune beliefs.tsv --out study --score complex --seconds 1200`, then
    `doxa train beliefs.tsv --out model --settings study/best.toml`
    """
    from doxa.render import terminal as display
    from doxa.training.tuning import BEST
    from doxa.training.tuning import tune as search

    given = chosen_settings(settings_, set_, system=system, score=score)
    train, held = read_dataset(data, valid, on_error, format_, read_)
    with display.tuning_progress(seconds) as report:
        found = search(train, held, out, given=given, seconds=seconds, trials=trials, on_error=on_error, report=report)
    display.show_tuning(found)
    display.say(f"{out / BEST}: train with `doxa train {data} --out MODEL --settings {out / BEST}`")
