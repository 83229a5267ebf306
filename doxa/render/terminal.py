"""What the command line shows: tables, progress, notices. The only part that draws for the terminal."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from doxa.evaluation.calibration import CalibrationReport
    from doxa.evaluation.ranks import Metrics
    from doxa.evaluation.report import Evaluation
    from doxa.lab.bench import Figure
    from doxa.training.loop import Progress as TrainingProgress
    from doxa.training.tuning import Tried, Tuning

out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)


def say(text: str) -> None:
    """Print text as it is, unwrapped: names may hold brackets and colons."""
    out.print(text, markup=False, soft_wrap=True)


def tell(text: str) -> None:
    """The same on standard error."""
    err.print(text, markup=False, soft_wrap=True)


def show_notices() -> None:
    """Print the library's warnings as plain lines on standard error."""

    class Notices(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tell(f"Note: {record.getMessage()}")

    handler = Notices()
    logger = logging.getLogger("doxa")
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING)
    logger.propagate = False


@contextmanager
def training_progress() -> Iterator[Callable[[TrainingProgress], None]]:
    """A bar with epoch, loss, validation quality, throughput and time left."""
    columns = (
        TextColumn("learning"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=err, transient=not err.is_terminal) as bar:
        task = bar.add_task("learning", total=1.0, state="")
        printed = 0

        def report(now: TrainingProgress) -> None:
            nonlocal printed
            quality = "" if now.quality is None else f" · valid {now.quality:.3f}"
            epoch = now.epoch + (now.fraction < 1)
            state = f"epoch {epoch} · loss {now.loss:.3f}{quality} · {now.beliefs_per_second:,.0f} beliefs/s"
            bar.update(task, completed=now.fraction, state=state)
            step = int(now.fraction * 10)
            if not err.is_terminal and step > printed:
                printed = step
                err.print(f"  {now.fraction:4.0%}  {state} · {now.seconds:.0f} s")

        yield report


@contextmanager
def progress(what: str) -> Iterator[Callable[[float, str], None]]:
    """A bar to be told the share done and a few words; without a terminal, a line for every fifth."""
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
                tell(f"  {fraction:4.0%}  {state}")

        yield report


@contextmanager
def tuning_progress(seconds: float) -> Iterator[Callable[[Tried, float, TrainingProgress | None], None]]:
    """A bar over the time of a search, with the trial under way; each trial that ended has a line."""
    columns = (
        TextColumn("searching"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("searching", total=seconds, state="")

        def report(trial: Tried, best: float, now: TrainingProgress | None) -> None:
            bar.update(task, completed=time.monotonic() - began)
            if now is not None:
                reached = "" if now.quality is None else f" · {now.quality:.4f}"
                bar.update(task, state=f"trial {trial.number + 1}, {now.fraction:.0%}{reached} · best {best:.4f}")
                return
            reached = "–" if trial.quality is None else f"{trial.quality:.4f}"
            values = "  ".join(f"{name}={value}" for name, value in trial.values.items())
            tell(f"  trial {trial.number + 1:3}  {reached:>7}  {trial.state:<9}  {trial.seconds:5.0f} s  {values}")

        yield report


def show_tuning(found: Tuning) -> None:
    """What a search found and what mattered in it."""
    finished = sum(one.state == "finished" for one in found.trials)
    say(f"best of {len(found.trials)} trials ({finished} finished): validation quality {found.quality:.4f}")
    rows = [
        (name, str(value), f"{found.mattered[name]:.0%}" if name in found.mattered else "–")
        for name, value in found.best.items()
        if name in found.trials[0].values
    ]
    show_table("Settings found", ("setting", "value", "share of the differences"), rows)


def show_calibration(found: CalibrationReport) -> None:
    """Credence and probabilities of answers, each before and after they were calibrated."""

    def with_interval(name: str, value: float) -> str:
        low, high = found.intervals[name]
        return f"{value:.4f} ({low:.4f} to {high:.4f})"

    after = found.after.as_dict()
    rows: list[tuple[Any, ...]] = [
        ("before", *(f"{value:.4f}" for value in found.before.as_dict().values())),
        ("calibrated", *(with_interval(name, value) for name, value in after.items())),
    ]
    show_table("Credence", ("", "ECE", "Brier", "log loss"), rows)
    out.print(f"held true from credence ½ up: {found.accuracy:.1%} right")
    if found.answers:
        rows = [
            (
                kind,
                f"{one.temperature:.2f}",
                f"{one.nll_before:.3f} → {one.nll:.3f}",
                f"{one.ece_before:.3f} → {one.ece:.3f}",
            )
            for kind, one in found.answers.items()
        ]
        headings = ("asked for", "temperature", "−log Pr(truth)", "ECE of the top answer")
        show_table("Probabilities of answers, before and after their temperature", headings, rows)


def show_figure(figure: Figure) -> None:
    """One line of a benchmark."""
    value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"
    share = "" if figure.share is None else f"{figure.share:.2f} of the limit"
    say(f"  {figure.name:<32} {value:>10} {figure.unit:<12} {share:<18} {figure.note}".rstrip())


def counted(part: dict[str, Any], name: str) -> str:
    """A count of an inspected part, with its share of the beliefs where that tells something."""
    if name not in part:
        return ""
    share = f" ({part[name] / part['beliefs']:.1%})" if name == "reversed_pair_in_train" else ""
    return f"{part[name]:,}{share}"


@contextmanager
def busy(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner whose text can change."""
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=err, transient=True
    ) as bar:
        task = bar.add_task(what)
        yield lambda text: bar.update(task, description=text)


def show_table(title: str, headings: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """A titled table; columns of numbers stand on the right."""
    if title:
        out.print(f"\n[bold]{title}[/]")
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
    for place, heading in enumerate(headings):
        numeric = bool(rows) and isinstance(rows[0][place], int | float)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else escape(str(cell)) for cell in row))
    out.print(table)


def show_ranking(title: str, rows: dict[str, Metrics]) -> None:
    """One line of ranking metrics per name."""
    width = max(len(name) for name in rows)
    out.print(f"\n[bold]{title}[/]")
    headings = ("mean rank", "MRR", "Hits@1", "Hits@3", "Hits@10")
    out.print(f"[dim]{'':{width}}" + "".join(f"{heading:>11}" for heading in headings) + "[/]")
    for name, metrics in rows.items():
        shares = "".join(f"{share:11.1%}" for share in metrics.hits.values())
        say(f"{name:{width}}{metrics.mr:11,.1f}{metrics.mrr:11.3f}{shares}")


def show_evaluation(found: Evaluation) -> None:
    """The report as text."""
    if found.entity:
        parts = {"raw": found.entity.raw, "filtered": found.entity.filtered}
        parts |= {"  heads": found.entity.filtered_heads, "  tails": found.entity.filtered_tails}
        parts |= {f"  {kind}": metrics for kind, metrics in found.entity.by_category.items()}
        show_ranking("Entity inference", parts)
    if found.relation:
        show_ranking("Relation prediction", {"raw": found.relation.raw, "filtered": found.relation.filtered})
    out.print()
    if found.classification:
        c = found.classification
        seen = "" if c.accuracy == c.accuracy_of_seen else f", {c.accuracy_of_seen:.1%} where all names are known"
        out.print(f"[bold]Triplet classification[/]   accuracy {c.accuracy:.1%}{seen}")
    if found.confidence:
        out.print(f"[bold]Confidence[/]   MSE {found.confidence.mse:.4f}   MAE {found.confidence.mae:.4f}")
    if found.calibration:
        show_calibration(found.calibration)
    for task, reason in found.skipped.items():
        out.print(f"[dim]{task}: not run, {reason}[/]")
    p = found.protocol
    unseen = f", {p['unseen']:,} of them with names the model never saw (ranked as a guess)" if p["unseen"] else ""
    judged = f"{p['judged']:,} judged, falsehoods: {p['negatives']}; " if p["judged"] else ""
    out.print(
        f"[dim]{p['queries']:,} beliefs{unseen}; filter {p['filter']}, ties {p['ties']}, candidates {p['candidates']}; "
        f"{judged}{sum(found.seconds.values()):.1f} s, peak memory {found.peak_rss_mb:,.0f} MB[/]",
        soft_wrap=True,
    )
