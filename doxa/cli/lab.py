"""The paper's tables, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from doxa.errors import UsageError


def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="all|table1…table6|EXPERIMENT|list|report", help="What to run; NAME* is all that begin so."
        ),
    ],
    data: Annotated[Path | None, typer.Option(help="The folder in which the dataset folders lie.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results, one JSON per run.")] = Path(
        "experiments/results"
    ),
    page: Annotated[Path | None, typer.Option(help="The page to write from all results.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what has a result.")] = False,
) -> None:
    """Run the paper's experiments and set our figures beside the paper's.

    Each experiment is trained on a dataset's train and valid and measured on its test; what has a result in --out is
    not run again. A table asked for is printed, and a page is written from all results there: docs/results.md beside
    this project's own experiments, OUT/results.md elsewhere. `list` tells what there is, `report` writes only the page.

    Example: `doxa reproduce table4 --data ../shared/data`
    """
    from doxa.data.atomic import written
    from doxa.lab.experiments import every, perform, result, runs, summary
    from doxa.lab.page import TABLES, shown
    from doxa.lab.page import page as written_page
    from doxa.lab.pictures import PICTURE, curves
    from doxa.lab.report import results
    from doxa.render import terminal as display

    if what == ["list"]:
        for run in runs(every()):
            state = "has a result" if result(run, out) else "to be run"
            display.say(f"{run.result(Path()).stem:<44} {run.experiment['data']:<10} {state}")
        return
    names: list[str] = []
    for one in what:
        if one != "report":
            names += list(every()) if one == "all" else TABLES.get(one, (one,))
    missing = [run for run in runs(dict.fromkeys(names)) if force or result(run, out) is None]
    if missing and data is None:
        raise UsageError(
            f"{missing[0].name} must be run first, which needs --data", "for example: --data ../shared/data"
        )
    out.mkdir(parents=True, exist_ok=True)
    for place, run in enumerate(missing, start=1):
        assert data is not None
        display.tell(f"{place} of {len(missing)}: {run.result(Path()).stem}")
        with display.training_progress() as report:
            found = perform(run, data, out, report)
        display.say(f"{run.result(out)}: {summary(found)}")
    own = out == Path("experiments/results") and Path("docs").is_dir()
    target = page or (Path("docs/results.md") if own else out / "results.md")
    everything = results(out)
    with written(target) as unfinished:
        unfinished.write_text(written_page(everything), encoding="utf-8")
    with written(target.with_name(PICTURE)) as unfinished:
        curves(everything, unfinished)
    for name in what:
        if name in TABLES:
            display.say(shown(name, everything) + "\n")
    display.say(f"{target}: written")
