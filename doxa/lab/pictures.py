"""Learning curves of the experiments, one panel per dataset."""

from __future__ import annotations

from pathlib import Path

from doxa.lab.report import NAMES, SYSTEMS, Results

PICTURE = "results.png"


def curves(results: Results, path: Path) -> None:
    """Plot the validation metric by seconds of training for every system; results without a curve are left out."""
    from matplotlib.figure import Figure

    datasets = {
        title: {NAMES[system]: results[name] for system in SYSTEMS if (name := form.format(system)) in results}
        for title, form in (("webnlg", "webnlg-{}"), ("biomed", "biomed-{}"), ("nell", "nell-{}"),
                            ("wn11, as published", "wn11-{}-published"))
    }  # fmt: skip
    datasets = {title: lines for title, lines in datasets.items() if lines}
    figure = Figure(figsize=(4 * max(len(datasets), 1), 3.4), layout="constrained")
    for place, (title, lines) in enumerate(datasets.items(), start=1):
        axes = figure.add_subplot(1, len(datasets), place)
        for name, seed_results in lines.items():
            points = [point for point in seed_results[0].get("curve", ()) if point["metric"] is not None]
            axes.plot([point["seconds"] for point in points], [point["metric"] for point in points], label=name)
        axes.set_title(title)
        axes.set_xlabel("seconds of training")
        axes.set_xscale("log")
        if place == 1:
            axes.set_ylabel("mean filtered MRR on valid")
            axes.legend(frameon=False)
    figure.savefig(path, format="png", dpi=110)
