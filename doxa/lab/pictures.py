"""Learning curves of the experiments, one panel per dataset."""

from __future__ import annotations

from pathlib import Path

from doxa.lab.report import NAMES, SYSTEMS, Results
from doxa.systems import SYSTEMS as RECIPES

PICTURE = "results.png"


def curves(results: Results, path: Path) -> None:
    """Plot the validation metric by seconds of training for every system; results without a curve are left out."""
    from matplotlib.figure import Figure

    datasets = {
        title: {system: results[name] for system in SYSTEMS if (name := form.format(system)) in results}
        for title, form in (("webnlg", "webnlg-{}"), ("biomed", "biomed-{}"), ("nell", "nell-{}"),
                            ("wn11, as published", "wn11-{}-published"))
    }  # fmt: skip
    datasets = {title: lines for title, lines in datasets.items() if lines}
    figure = Figure(figsize=(4 * max(len(datasets), 1), 3.8), layout="constrained")
    lines_by_name = {}
    for place, (title, systems) in enumerate(datasets.items(), start=1):
        axes = figure.add_subplot(1, len(datasets), place)
        for system, seed_results in systems.items():
            points = [point for point in seed_results[0].get("curve", ()) if point["metric"] is not None]
            columns = ([point[name] for point in points] for name in ("seconds", "metric"))
            style = "-" if "entity" in RECIPES[system].answers else "--"
            (line,) = axes.plot(*columns, style, color=f"C{SYSTEMS.index(system)}")
            lines_by_name[NAMES[system] + (" (relations alone)" if style == "--" else "")] = line
        axes.set_title(title)
        axes.set_xlabel("seconds of training")
        axes.set_xscale("log")
        if place == 1:
            axes.set_ylabel("mean filtered MRR on valid")
    if lines_by_name:
        names, lines = zip(*lines_by_name.items(), strict=True)
        figure.legend(lines, names, loc="outside upper center", ncols=len(names), frameon=False)
    figure.savefig(path, format="png", dpi=110)
