"""Pictures: the learning curve and the reliability diagram, as PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from doxa.curation.mapping import COLOURS, Map
from doxa.evaluation.calibration import Reliability

matplotlib.use("Agg")
from matplotlib import pyplot as plt

INK, ACCENT, PALE = "#1f2d3d", "#c8553d", "#8fa3b5"
STYLE: dict[Any, Any] = {
    "figure.dpi": 130,
    "font.size": 10,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
}


def learning_curve(curve: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Loss and validation quality by epoch."""
    epochs = [point["epoch"] for point in curve]
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
        left.plot(epochs, [point["loss"] for point in curve], color=INK, linewidth=2)
        left.set(title="Training loss", xlabel="epoch", ylabel="mean −log credence")
        measured = [(point["epoch"], point["quality"]) for point in curve if point["quality"] is not None]
        if measured:
            right.plot(*zip(*measured, strict=True), color=ACCENT, linewidth=2)
        right.set(title="Validation", xlabel="epoch", ylabel="filtered MRR of head, relation, tail", ylim=(0, 1))
        figure.savefig(path, format="png")
        plt.close(figure)


def reliability_diagram(reliability: Reliability, path: Path, before: Reliability | None = None) -> None:
    """Credence said against share that came true; on the diagonal the two agree. `before` is drawn faintly."""
    with plt.rc_context(STYLE):
        figure, (top, bottom) = plt.subplots(
            2, 1, figsize=(5.2, 5.6), layout="constrained", sharex=True, height_ratios=[4, 1]
        )
        top.plot([0, 1], [0, 1], color=PALE, linestyle="--", linewidth=1, label="perfectly calibrated")
        if before is not None:
            top.plot(before.credence, before.truth, color=PALE, marker=".", linewidth=1, label="before calibration")
        top.plot(reliability.credence, reliability.truth, color=ACCENT, marker="o", markersize=5, label="doxa")
        top.set(title="Do beliefs come true as often as said?", ylabel="share that is true", ylim=(-0.02, 1.02))
        top.legend(frameon=False, loc="upper left" if before is None else "center right")
        numbers = f"ECE {reliability.ece:.3f}\nBrier {reliability.brier:.3f}\nlog loss {reliability.nll:.3f}"
        top.text(0.98, 0.04, numbers, transform=top.transAxes, ha="right", va="bottom")
        edges = np.linspace(0, 1, 21)
        bottom.hist(reliability.credence, bins=edges.tolist(), weights=reliability.count, color=INK)
        bottom.set(xlabel="credence", ylabel="beliefs", xlim=(-0.02, 1.02))
        figure.savefig(path, format="png")
        plt.close(figure)


def entity_map(found: Map, path: Path, labelled: int = 40) -> None:
    """Entities in two dimensions, some of them with their names."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 7), layout="constrained")
        for number, group in enumerate(found.groups):
            rows = found.group == number
            if rows.any():
                colour = COLOURS[number % len(COLOURS)]
                x, y = found.places[rows].T
                axes.scatter(x, y, s=10, color=colour, alpha=0.7, label=group, linewidths=0)
        for row in np.linspace(0, len(found) - 1, min(labelled, len(found))).astype(int):
            name = found.names[row].replace("$", r"\$")
            axes.annotate(name, (found.places[row, 0], found.places[row, 1]), fontsize=6)
        axes.set(title=found.title.replace("$", r"\$"), xticks=[], yticks=[])
        axes.legend(frameon=False, loc="upper right", fontsize=8)
        figure.savefig(path, format="png")
        plt.close(figure)
