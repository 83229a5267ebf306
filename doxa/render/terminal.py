"""The terminal: lines, tables, progress bars and reports. Results go to standard output, remarks to standard error."""

from __future__ import annotations

import logging
import math
import os
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from doxa.render.plain import visible

if TYPE_CHECKING:
    from doxa.data.profile import Profile
    from doxa.training.loop import Progress as TrainingProgress
    from doxa.training.tuning import TrialRecord, Tuning

Rows = Sequence[tuple[Any, ...]]

RACE_FIGURES = {"entity_mrr": "entity MRR", "relation_mrr": "relation MRR", "accuracy": "accuracy"}

MAX_WIDTH = 100
"""Columns of running text at most, however wide the terminal is."""

NARROWEST = 20
"""Columns of a terminal at least; a smaller $COLUMNS, such as 0, is ignored."""


class _Environment(Mapping[str, str]):
    """The environment variables, without a $COLUMNS that leaves no room."""

    def __getitem__(self, name: str) -> str:
        value = os.environ[name]
        if name == "COLUMNS" and not (value.isdecimal() and int(value) >= NARROWEST):
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


out = Console(highlight=False, emoji=False, _environ=_Environment())
err = Console(stderr=True, highlight=False, emoji=False, _environ=_Environment())


def escape(text: str) -> str:
    """Text of data for use beside markup: neither markup nor control characters in it count."""
    return escape_markup(visible(text))


def say(text: str) -> None:
    """Print text unwrapped and without markup: names may contain brackets and colons; control characters are shown."""
    out.print(visible(text), markup=False, soft_wrap=True)


def remark(text: str) -> None:
    """Print text on standard error, as `say` does."""
    err.print(visible(text), markup=False, soft_wrap=True)


def show_notices() -> None:
    """Print the library's warnings as plain lines on standard error."""

    class Notices(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            remark(f"Note: {record.getMessage()}")

    handler = Notices()
    logger = logging.getLogger("doxa")
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING)
    logger.propagate = False


@contextmanager
def training_progress() -> Iterator[Callable[[TrainingProgress], None]]:
    """A bar with stage, epoch, loss, validation metric, throughput and time left; one for every stage that follows."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=err, transient=not err.is_terminal) as bar:
        task = bar.add_task("training", total=1.0, state="")
        printed, stage = 0, ""

        def report(now: TrainingProgress) -> None:
            nonlocal printed, stage
            racing = now.stage.startswith("race")
            if now.stage.partition(" ")[0] != stage.partition(" ")[0]:
                bar.reset(task, description=now.stage, state="")
                printed = 0
                if not err.is_terminal and not racing and now.stage != "training":
                    remark(f"  {now.stage}")
            stage = now.stage
            if stage != "training" and not racing:
                bar.update(task, completed=now.fraction)
                return
            metric = "" if now.metric is None else f" · {'best' if racing else 'valid'} {now.metric:.3f}"
            epoch = "" if racing else f"epoch {now.epoch + (now.fraction < 1)} · "
            loss = "" if math.isnan(now.loss) else f"loss {now.loss:.3f}"
            state = f"{epoch}{loss}{metric} · {now.beliefs_per_second:,.0f} beliefs/s".removeprefix(" · ")
            bar.update(task, completed=now.fraction, state=state, description=stage)
            step = int(now.fraction * 10)
            if not err.is_terminal and step > printed:
                printed = step
                label = f"{now.stage} · " if racing else ""
                remark(f"  {now.fraction:4.0%}  {label}{state} · {now.seconds:.0f} s")

        yield report


@contextmanager
def progress(what: str) -> Iterator[Callable[[float, str], None]]:
    """A bar for a task that reports its fraction and a short text; without a terminal, a line for every fifth."""
    columns = (TextColumn(escape(what)), BarColumn(bar_width=24), TextColumn("{task.percentage:3.0f}%"),
               TextColumn("{task.fields[state]}", markup=False), TimeRemainingColumn(), TextColumn("left"))  # fmt: skip
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(what, total=1.0, state="")
        printed = 0

        def report(fraction: float, state: str) -> None:
            nonlocal printed
            bar.update(task, completed=fraction, state=visible(state))
            step = int(fraction * 5)
            if not err.is_terminal and step > printed:
                printed = step
                remark(f"  {fraction:4.0%}  {state}")

        yield report


@contextmanager
def tuning_progress(seconds: float) -> Iterator[Callable[[TrialRecord, float, TrainingProgress | None], None]]:
    """A bar over the time of a search, with the current trial; each finished trial gets a line."""
    columns = (
        TextColumn("searching"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("searching", total=seconds, state="")

        def report(trial: TrialRecord, best: float, now: TrainingProgress | None) -> None:
            bar.update(task, completed=time.monotonic() - began)
            if now is not None:
                reached = "" if now.metric is None else f" · {now.metric:.4f}"
                bar.update(task, state=f"trial {trial.number + 1}, {now.fraction:.0%}{reached} · best {best:.4f}")
                return
            reached = "–" if trial.metric is None else f"{trial.metric:.4f}"
            values = "  ".join(f"{name}={value}" for name, value in trial.values.items())
            remark(f"  trial {trial.number + 1:3}  {reached:>7}  {trial.state:<9}  {trial.seconds:5.0f} s  {values}")

        yield report


@contextmanager
def busy(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner whose text can change."""
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=err, transient=True
    ) as bar:
        task = bar.add_task(escape(what))
        yield lambda text: bar.update(task, description=escape(text))


def show_table(title: str, headings: tuple[str, ...], rows: Rows) -> None:
    """A titled table; columns of numbers are aligned to the right."""
    if title:
        out.print(f"\n[bold]{escape(title)}[/]")
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
    for column, heading in enumerate(headings):
        numeric = bool(rows) and isinstance(rows[0][column], int | float)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else escape(str(cell)) for cell in row))
    out.print(table)


def show_settings(title: str, rows: Sequence[tuple[str, str, str, str]]) -> None:
    """(name, default, choices, meaning) of settings: a line `name = default`, and the meaning wrapped below it."""
    out.print(f"\n[bold]{escape(title)}[/]")
    width = min(out.width, MAX_WIDTH)
    for name, default, choices, meaning in rows:
        one_of = f"   [dim]({escape(choices)})[/]" if choices else ""
        out.print(f"  [bold]{escape(name)}[/] = {escape(default)}{one_of}", soft_wrap=True)
        say(textwrap.fill(meaning, width, initial_indent=" " * 6, subsequent_indent=" " * 6))


def show_tuning(study: Tuning) -> None:
    """The best settings of a search, and how much each setting mattered."""
    finished = sum(trial.state == "finished" for trial in study.trials)
    say(f"best of {len(study.trials)} trials ({finished} finished): validation metric {study.metric:.4f}")
    rows = [
        (name, str(value), f"{study.importance[name]:.0%}" if name in study.importance else "–")
        for name, value in study.best.items()
        if name in study.trials[0].values
    ]
    show_table("Best settings", ("setting", "value", "importance"), rows)


def show_profile(profile: Profile, top: int) -> None:
    """Counts of a file or dataset, its relations, near-inverse relation pairs and lookalike names, `top` of each."""
    counts = dict.fromkeys(name for part in profile.parts.values() for name in part if name != "reversed_share")
    rows = [(name.replace("_", " "), *(_count(part, name) for part in profile.parts.values())) for name in counts]
    show_table("", ("", *profile.parts), rows)
    relations = [tuple(relation.values()) for relation in profile.relations[:top]]
    if relations:
        headings = ("relation", "kind", "facts", "tails per head", "heads per tail")
        show_table(f"Relations, {len(relations)} of {len(profile.relations)}", headings, relations)
    pairs = [tuple(pair.values()) for pair in profile.inverses[:top]]
    if pairs:
        title = f"Near-inverse relations, {len(pairs)} of {len(profile.inverses)}"
        show_table(title, ("relation", "inverse", "share", "leaked facts of valid and test"), pairs)
    alike = [(group["kind"], "  ".join(map(repr, group["names"]))) for group in profile.lookalikes[:top]]
    if alike:
        title = f"Names that differ only in spaces, case or Unicode form, {len(alike)} of {len(profile.lookalikes)}"
        show_table(title, ("kind", "names"), alike)


def _count(part: Mapping[str, Any], name: str) -> str:
    """A count of a part, with its share of the beliefs where that is informative."""
    if name not in part:
        return ""
    share = f" ({part[name] / part['beliefs']:.1%})" if name == "reversed_pair_in_train" else ""
    return f"{part[name]:,}{share}"


def show_info(info: Mapping[str, Any], defaults: Mapping[str, Any], effective: Mapping[str, str] | None = None) -> None:
    """What a model is: sizes, settings by group, training and calibration; `*` marks values that are not defaults.

    `effective` says what settings with an automatic value stand for.
    """
    sizes = (f"{info[name]:,} {name}" for name in ("entities", "relations", "words", "facts") if info.get(name))
    say(f"{info['system']} on the score {info['score']}: {', '.join(sizes)}")
    effective = effective or {}
    for group, settings in info["settings"].items():
        rows = [
            (
                _marked(name, value, defaults),
                f"{_plain(value)} ({effective[name]})" if name in effective else _plain(value),
            )
            for name, value in settings.items()
        ]
        show_table(f"Settings of the {group}" if group == "model" else f"Settings of {group}", ("", ""), rows)
    calibration = dict(info["calibration"])
    if "thresholds" in calibration:
        calibration["thresholds"] = f"for {calibration['thresholds']:,} of {info['relations']:,} relations"
    training = dict(info["training"])
    race = training.pop("race", None)
    if race:
        show_race(race)
    for part, values in (("training", training), ("calibration", calibration)):
        rows = [(name.replace("_", " "), _plain(value)) for name, value in values.items()]
        if rows:
            show_table(part.capitalize(), ("", ""), rows)
    say("\n* not the default of this system")


def show_race(race: Mapping[str, Any]) -> None:
    """The members of a race with the figures of the last rung that each took part in, the best first."""
    last: dict[str, Mapping[str, Any]] = {attempt["member"]: attempt for attempt in race["rungs"]}
    order = sorted(last.values(), key=lambda one: (one["member"] != race["winner"], -one["rung"], -one["entity_mrr"]))
    rows = [
        (one["member"], one["rung"], one["steps"], *(_shown_figure(one[figure]) for figure in RACE_FIGURES))
        for one in order
    ]
    title = f"Race: {race['winner']} is the best of {len(last)} on {race['validation_beliefs']:,} validation beliefs"
    show_table(title, ("member", "rung", "steps", *RACE_FIGURES.values()), rows)
    clock = ", by the clock: the choice may not repeat" if race["by_clock"] else ""
    say(f"trained on {race['beliefs']:,} beliefs, {race['share_of_work']:.0%} of the work{clock}")


def _shown_figure(value: float) -> str:
    return f"{value:.3f}" if value >= 0 else "–"


def _marked(name: str, value: Any, defaults: Mapping[str, Any]) -> str:
    return f"* {name}" if name in defaults and defaults[name] != value else f"  {name}"


def _plain(value: Any) -> str:
    """A value of JSON in a line: numbers shortened, mappings and lists written out."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else str(value)
