"""Pictures: the learning curve, the reliability diagram and the overview of a dataset, as PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from doxa.curation.map import COLORS, Map
from doxa.data.profile import Profile
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


def entity_map(found: Map, path: Path, labeled: int = 40) -> None:
    """Entities in two dimensions, some of them with their names."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 7), layout="constrained")
        for number, group in enumerate(found.groups):
            rows = found.group == number
            if rows.any():
                color = COLORS[number % len(COLORS)]
                x, y = found.places[rows].T
                axes.scatter(x, y, s=10, color=color, alpha=0.7, label=group, linewidths=0)
        for row in np.linspace(0, len(found) - 1, min(labeled, len(found))).astype(int):
            name = found.names[row].replace("$", r"\$")
            axes.annotate(name, (found.places[row, 0], found.places[row, 1]), fontsize=6)
        axes.set(title=found.title.replace("$", r"\$"), xticks=[], yticks=[])
        axes.legend(frameon=False, loc="upper right", fontsize=8)
        figure.savefig(path, format="png")
        plt.close(figure)


def overview(found: Profile, path: Path) -> None:
    """One page on a dataset: its relations, mapping kinds, degrees, confidence, and what crosses its parts."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 3, figsize=(16, 8.6), layout="constrained")
        (frequent, kinds, degrees), (confidence, leaks, inverses) = axes
        top = found.relations[:15][::-1]
        _bars(frequent, [_short(one["relation"]) for one in top], [one["facts"] for one in top], INK)
        frequent.set(title=f"Most frequent of {len(found.relations):,} relations", xlabel="facts of train")
        counts = {kind: sum(one["kind"] == kind for one in found.relations) for kind in ("1-1", "1-N", "N-1", "N-N")}
        kinds.bar(list(counts), list(counts.values()), color=INK)
        kinds.set(title="Mapping kinds", ylabel="relations")
        degrees.bar(range(len(found.degrees)), found.degrees, color=INK)
        degrees.set_xticks(
            range(len(found.degrees)), [str(2**power) for power in range(len(found.degrees))], rotation=60
        )
        degrees.set(title="How often entities occur", xlabel="in so many beliefs of train, up to twice as many",
                    ylabel="entities", yscale="log")  # fmt: skip
        if found.confidences:
            edges = np.linspace(0, 1, len(found.confidences) + 1)
            confidence.bar(edges[:-1], found.confidences, width=np.diff(edges), align="edge", color=INK)
        else:
            confidence.text(0.5, 0.5, "none given", ha="center", va="center", color=PALE)
        confidence.set(title="Confidence in train", xlabel="confidence", ylabel="beliefs", xlim=(0, 1))
        wanted = ("already_in_train", "reversed_pair_in_train", "with_unseen_entity", "false_but_in_train")
        for place, (name, part) in enumerate((name, part) for name, part in found.parts.items() if name != "train"):
            shares = [100 * part.get(key, 0) / part["beliefs"] for key in wanted]
            heights = np.arange(len(wanted)) + 0.38 * place - 0.19
            leaks.barh(heights, shares, height=0.36, color=(ACCENT, PALE)[place], label=name)
        leaks.set_yticks(range(len(wanted)), [key.replace("_", " ") for key in wanted])
        leaks.set(title="What crosses the parts", xlabel="% of the part", xlim=(0, 100))
        if len(found.parts) > 1:
            leaks.legend(frameon=False)
        pairs = found.inverses[:12][::-1]
        names = [f"{_short(one['relation'], 18)} / {_short(one['inverse'], 18)}" for one in pairs]
        _bars(inverses, names, [one["share"] for one in pairs], ACCENT)
        inverses.set(title=f"{len(found.inverses):,} near-inverse pairs", xlabel="share reversed", xlim=(0, 1))
        figure.savefig(path, format="png")
        plt.close(figure)


def _short(name: str, length: int = 32) -> str:
    """The end of a long name, which tells more than its start; no part of it is a formula."""
    return (name if len(name) <= length else f"…{name[1 - length :]}").replace("$", r"\$")


def _bars(axes: Any, names: Sequence[str], values: Sequence[float], color: str) -> None:
    """A bar for each name, alike or not."""
    axes.barh(range(len(names)), values, color=color)
    axes.set_yticks(range(len(names)), names, fontsize=8)
