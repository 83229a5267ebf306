"""The terminal: lines, tables, progress bars and reports. Results go to standard output, remarks to standard error."""

from __future__ import annotations

import logging
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from doxa.data.profile import Profile
    from doxa.evaluation.calibration import CalibrationReport
    from doxa.evaluation.ranks import Metrics
    from doxa.evaluation.report import Evaluation
    from doxa.training.loop import Progress as TrainingProgress
    from doxa.training.tuning import TrialRecord, Tuning

Rows = Sequence[tuple[Any, ...]]

MAX_WIDTH = 100
"""Columns of running text at most, however wide the terminal is."""

out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)


def say(text: str) -> None:
    """Print text as it is, unwrapped: names may contain brackets and colons."""
    out.print(text, markup=False, soft_wrap=True)


def remark(text: str) -> None:
    """Print text as it is on standard error."""
    err.print(text, markup=False, soft_wrap=True)


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
    """A bar with epoch, loss, validation metric, throughput and time left."""
    columns = (
        TextColumn("training"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=err, transient=not err.is_terminal) as bar:
        task = bar.add_task("training", total=1.0, state="")
        printed = 0

        def report(now: TrainingProgress) -> None:
            nonlocal printed
            metric = "" if now.metric is None else f" · valid {now.metric:.3f}"
            epoch = now.epoch + (now.fraction < 1)
            state = f"epoch {epoch} · loss {now.loss:.3f}{metric} · {now.beliefs_per_second:,.0f} beliefs/s"
            bar.update(task, completed=now.fraction, state=state)
            step = int(now.fraction * 10)
            if not err.is_terminal and step > printed:
                printed = step
                err.print(f"  {now.fraction:4.0%}  {state} · {now.seconds:.0f} s")

        yield report


@contextmanager
def progress(what: str) -> Iterator[Callable[[float, str], None]]:
    """A bar for a task that reports its fraction and a short text; without a terminal, a line for every fifth."""
    columns = (TextColumn(what), BarColumn(bar_width=24), TextColumn("{task.percentage:3.0f}%"),
               TextColumn("{task.fields[state]}", markup=False), TimeRemainingColumn(), TextColumn("left"))  # fmt: skip
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(what, total=1.0, state="")
        printed = 0

        def report(fraction: float, state: str) -> None:
            nonlocal printed
            bar.update(task, completed=fraction, state=state)
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
        task = bar.add_task(what)
        yield lambda text: bar.update(task, description=text)


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
    """Counts of a file or dataset, its relations and its near-inverse relation pairs, `top` of each."""
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


def _count(part: Mapping[str, Any], name: str) -> str:
    """A count of a part, with its share of the beliefs where that is informative."""
    if name not in part:
        return ""
    share = f" ({part[name] / part['beliefs']:.1%})" if name == "reversed_pair_in_train" else ""
    return f"{part[name]:,}{share}"


def show_ranking(title: str, rows: Mapping[str, Metrics]) -> None:
    """One line of ranking metrics per name."""
    width = max(len(name) for name in rows)
    out.print(f"\n[bold]{title}[/]")
    headings = ("mean rank", "MRR", "Hits@1", "Hits@3", "Hits@10")
    out.print(f"[dim]{'':{width}}" + "".join(f"{heading:>11}" for heading in headings) + "[/]")
    for name, metrics in rows.items():
        shares = "".join(f"{share:11.1%}" for share in metrics.hits.values())
        say(f"{name:{width}}{metrics.mr:11,.1f}{metrics.mrr:11.3f}{shares}")


def show_evaluation(evaluation: Evaluation) -> None:
    """The report of `doxa evaluate` as text."""
    if evaluation.entity:
        parts = {"raw": evaluation.entity.raw, "filtered": evaluation.entity.filtered}
        parts |= {"  heads": evaluation.entity.filtered_heads, "  tails": evaluation.entity.filtered_tails}
        parts |= {f"  {kind}": metrics for kind, metrics in evaluation.entity.by_category.items()}
        show_ranking("Entity inference", parts)
    if evaluation.relation:
        ranks = {"raw": evaluation.relation.raw, "filtered": evaluation.relation.filtered}
        show_ranking("Relation prediction", ranks)
    out.print()
    if evaluation.classification:
        c = evaluation.classification
        seen = "" if c.accuracy == c.accuracy_of_seen else f", {c.accuracy_of_seen:.1%} where all names are known"
        out.print(f"[bold]Triplet classification[/]   accuracy {c.accuracy:.1%}{seen}")
    if evaluation.confidence:
        out.print(f"[bold]Confidence[/]   MSE {evaluation.confidence.mse:.4f}   MAE {evaluation.confidence.mae:.4f}")
    if evaluation.calibration:
        show_calibration(evaluation.calibration)
    for task, reason in evaluation.skipped.items():
        out.print(f"[dim]{task}: not run, {escape(reason)}[/]")
    _show_protocol(evaluation)


def _show_protocol(evaluation: Evaluation) -> None:
    p = evaluation.protocol
    unseen = f", {p['unseen']:,} of them with unseen names (ranked as a guess)" if p["unseen"] else ""
    judged = f"{p['judged']:,} judged, negatives: {p['negatives']}; " if p["judged"] else ""
    out.print(
        f"[dim]{p['queries']:,} beliefs{unseen}; filter {p['filter']}, ties {p['ties']}, candidates {p['candidates']}; "
        f"{judged}{sum(evaluation.seconds.values()):.1f} s, peak memory {evaluation.peak_rss_mb:,.0f} MB[/]",
        soft_wrap=True,
    )


def show_calibration(report: CalibrationReport) -> None:
    """Calibration of credence and of the probabilities of answers, before and after the fit."""

    def with_interval(name: str, value: float) -> str:
        low, high = report.intervals[name]
        return f"{value:.4f} ({low:.4f} to {high:.4f})"

    rows: list[tuple[Any, ...]] = [
        ("before", *(f"{value:.4f}" for value in report.before.as_dict().values())),
        ("calibrated", *(with_interval(name, value) for name, value in report.after.as_dict().items())),
    ]
    show_table("Credence", ("", "ECE", "Brier", "log loss"), rows)
    out.print(f"judged true from credence ½ up: {report.accuracy:.1%} right")
    if report.answers:
        rows = [
            (kind, f"{slot.temperature:.2f}", f"{slot.nll_before:.3f} → {slot.nll:.3f}",
             f"{slot.ece_before:.3f} → {slot.ece:.3f}")
            for kind, slot in report.answers.items()
        ]  # fmt: skip
        headings = ("asked for", "temperature", "−log Pr(truth)", "ECE of the top answer")
        show_table("Probabilities of answers, before and after their temperature", headings, rows)


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
    for part, values in (("training", info["training"]), ("calibration", calibration)):
        rows = [(name.replace("_", " "), _plain(value)) for name, value in values.items()]
        if rows:
            show_table(part.capitalize(), ("", ""), rows)
    say("\n* not the default of this system")


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
