"""The picture of README.md, drawn from the demo: answers with probabilities, and whether credence is calibrated.

python -m tools.picture demo docs/picture.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

import doxa
from doxa.render.colors import ACCENT, PALE
from doxa.render.plots import STYLE

QUESTIONS = (("Lyon", "located in"), ("Austria", "official language"), ("Munich", "in time zone"))
"""Test beliefs without their tails; the true tails are France, German and Europe/Berlin."""
TOP = 3


def draw(demo: Path, path: Path) -> None:
    """Draw the picture from the folder that `make demo` writes."""
    model = doxa.load(demo / "model")
    calibration = model.evaluate(doxa.read(demo / "data" / "test.tsv"), tasks="calibration").calibration
    assert calibration is not None
    with matplotlib.rc_context(STYLE | {"font.size": 9}):
        figure = Figure(figsize=(8.4, 3.3), dpi=110, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
        _answers(left, [model.tails(head, relation, top=TOP) for head, relation in QUESTIONS])
        _reliability(right, calibration.after)
        figure.savefig(path, format="png")


def _answers(axes: Any, answers: list[doxa.Answer]) -> None:
    """Bars of the most probable tails under each question."""
    height = 0.0
    for answer in answers:
        axes.text(0, height, " · ".join(answer.question[:3]), fontweight="bold", va="center")
        for place, candidate in enumerate(answer, 1):
            axes.barh(height + place, candidate.probability, height=0.72, color=PALE if place > 1 else ACCENT)
            percent = f"{candidate.probability:.0%}" if candidate.probability >= 0.005 else "< 1%"
            axes.text(candidate.probability + 0.012, height + place, f"{candidate.name}  {percent}", va="center")
        height += TOP + 1.5
    axes.set(title="Which tail is missing?", xlim=(0, 1.22), ylim=(height - 0.9, -0.7), yticks=[], xticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)


def _reliability(axes: Any, reliability: Any) -> None:
    """The share of true beliefs against credence, one dot per bin; every bin has the same number of beliefs."""
    axes.plot([0, 1], [0, 1], color=PALE, linestyle="--", linewidth=1, zorder=1)
    axes.scatter(reliability.credence, reliability.truth, s=55, color=ACCENT, alpha=0.8, linewidths=0)
    axes.text(0.98, 0.05, f"calibration error (ECE) {reliability.ece:.3f}", transform=axes.transAxes, ha="right")
    axes.set(title="Does credence match the truth?", xlabel="credence", ylabel="share of true beliefs",
             xlim=(-0.04, 1.06), ylim=(-0.04, 1.06))  # fmt: skip


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
