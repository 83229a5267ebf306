"""Plots as PNG files: learning curve, reliability diagram, map of entities, overview of a dataset.

Each function draws on a `Figure` of its own, without pyplot and its global state, so that a notebook's or a server's
matplotlib backend stays as it is.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from doxa.render.colors import ACCENT, GROUPS, INK, PALE

if TYPE_CHECKING:
    from doxa.curation.map import Map
    from doxa.data.profile import Profile
    from doxa.evaluation.calibration import Reliability

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

LEAKS = ("already_in_train", "reversed_pair_in_train", "with_unseen_entity", "false_but_in_train")
"""Counts of a part that say how far it overlaps with train."""

MARKERS = "o^sDv"
"""Shapes of the points of a map: groups beyond the number of colors have the next shape."""

LABEL_PLACES: tuple[tuple[tuple[float, float], dict[str, Any]], ...] = (
    ((3, 0), {"ha": "left", "va": "center"}),
    ((-3, 0), {"ha": "right", "va": "center"}),
    ((0, 3), {"ha": "center", "va": "bottom"}),
    ((0, -3), {"ha": "center", "va": "top"}),
)
"""Where a name may stand beside its point, in points, and its alignment: best where it hides no other point."""


@contextmanager
def _figure(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure of that size in inches, saved as PNG when the block ends."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # a character that no font has is drawn as a box
            yield figure
            figure.savefig(path, format="png")


def learning_curve(curve: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw training loss and validation metric by epoch."""
    epochs = [record["epoch"] for record in curve]
    with _figure(path, 8.4, 3.2) as figure:
        left, right = figure.subplots(1, 2)
        left.plot(epochs, [record["loss"] for record in curve], color=INK, linewidth=2)
        left.set(title="Training loss", xlabel="epoch", ylabel="mean −log credence")
        metrics = [(record["epoch"], record["metric"]) for record in curve if record["metric"] is not None]
        if metrics:
            right.plot(*zip(*metrics, strict=True), color=ACCENT, linewidth=2)
        right.set(title="Validation", xlabel="epoch", ylabel="filtered MRR of head, relation, tail", ylim=(0, 1))


def reliability_diagram(reliability: Reliability, path: Path, before: Reliability | None = None) -> None:
    """Draw the share of true beliefs against credence; a calibrated model lies on the diagonal.

    `before` is the same before calibration, in a pale color.
    """
    with _figure(path, 5.2, 5.6) as figure:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        top.plot([0, 1], [0, 1], color=PALE, linestyle="--", linewidth=1, label="perfectly calibrated")
        if before is not None:
            top.plot(before.credence, before.truth, color=PALE, marker=".", linewidth=1, label="before calibration")
        top.plot(reliability.credence, reliability.truth, color=ACCENT, marker="o", markersize=5, label="doxa")
        top.set(title="Is credence calibrated?", ylabel="share that is true", ylim=(-0.02, 1.02))
        top.legend(frameon=False, loc="upper left" if before is None else "center right")
        numbers = f"ECE {reliability.ece:.3f}\nBrier {reliability.brier:.3f}\nlog loss {reliability.nll:.3f}"
        top.text(0.98, 0.04, numbers, transform=top.transAxes, ha="right", va="bottom")
        edges = np.linspace(0, 1, 21)
        bottom.hist(reliability.credence, bins=edges.tolist(), weights=reliability.count, color=INK)
        bottom.set(xlabel="credence", ylabel="beliefs", xlim=(-0.02, 1.02))


def entity_map(entities: Map, path: Path, labeled: int = 40) -> None:
    """Draw entities in two dimensions, at most `labeled` of them with their names: the first of each group.

    The legend is below the picture, where it covers no point.
    """
    with _figure(path, 9, 8) as figure:
        axes = figure.subplots()
        count = 0
        for number, group in enumerate(entities.groups):
            rows = entities.group == number
            if rows.any():
                x, y = entities.places[rows].T
                color, marker = GROUPS[number % len(GROUPS)], MARKERS[number // len(GROUPS) % len(MARKERS)]
                label = f"{_short(group, 52, start=16)} ({rows.sum():,})"
                axes.scatter(x, y, s=12, color=color, marker=marker, alpha=0.7, label=label, linewidths=0)
                count += 1
        axes.set(title=_short(entities.title, 90, start=45), xticks=[], yticks=[])
        axes.spines[["left", "bottom"]].set_visible(False)
        columns = min(count, 2 if max(map(len, entities.groups)) > 24 else 4)
        figure.legend(loc="outside lower left", ncols=columns, frameon=False, fontsize=8, markerscale=1.8)
        _label_points(axes, entities, labeled)


def _label_points(axes: Any, entities: Map, most: int) -> None:
    """Write names beside points of each group in turn, where they neither overlap nor leave the picture."""
    figure = axes.figure
    figure.draw_without_rendering()  # the layout decides where the points are
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
    points, taken = axes.transData.transform(entities.places), list[Any]()
    counters = [itertools.count() for _ in entities.groups]
    turn = [next(counters[group]) for group in entities.group]
    for row in np.argsort(turn, kind="stable")[: 20 * most]:
        if len(taken) == most:
            break
        place = (entities.places[row, 0], entities.places[row, 1])
        text = axes.annotate(_short(entities.names[row], 34), place, (0, 0), textcoords="offset points", fontsize=6.5)
        text.set(path_effects=[withStroke(linewidth=1.5, foreground="white")], in_layout=False)
        boxes: list[Any] = []
        for offset, align in LABEL_PLACES:
            text.set(position=offset, **align)
            box = text.get_window_extent()
            if figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and not box.count_overlaps(taken):
                boxes.append((box.count_contains(points), len(boxes), box, {"position": offset, **align}))
        if boxes:
            _, _, box, where = min(boxes, key=lambda option: option[:2])
            text.set(**where)
            taken.append(box)
        else:
            text.remove()


def overview(profile: Profile, path: Path) -> None:
    """Draw a dataset on one page: relations, mapping kinds, degrees, confidence, leaks between its parts."""
    with _figure(path, 16, 8.6) as figure:
        (frequent, kinds, degrees), (confidence, leaks, inverses) = figure.subplots(2, 3)
        top = profile.relations[:15][::-1]
        _bars(frequent, [_short(row["relation"]) for row in top], [row["facts"] for row in top], INK)
        frequent.set(title=f"Most frequent of {len(profile.relations):,} relations", xlabel="facts of train")
        counts = {kind: sum(row["kind"] == kind for row in profile.relations) for kind in ("1-1", "1-N", "N-1", "N-N")}
        kinds.bar(list(counts), list(counts.values()), color=INK)
        kinds.set(title="Mapping kinds", ylabel="relations")
        _degrees(degrees, profile)
        _confidences(confidence, profile)
        _leaks(leaks, profile)
        pairs = profile.inverses[:12][::-1]
        names = [f"{_short(pair['relation'], 18)} / {_short(pair['inverse'], 18)}" for pair in pairs]
        _bars(inverses, names, [pair["share"] for pair in pairs], ACCENT)
        inverses.set(title=f"{len(profile.inverses):,} near-inverse pairs", xlabel="share reversed", xlim=(0, 1))


def _degrees(axes: Any, profile: Profile) -> None:
    """Bar n counts the entities that occur in at least 2^n and fewer than 2^(n+1) beliefs."""
    powers = range(len(profile.degrees))
    axes.bar(powers, profile.degrees, color=INK)
    axes.set_xticks(powers, [str(2**power) for power in powers], rotation=60)
    axes.set(title="Degrees of entities", xlabel="beliefs of train, from this number to twice as many",
             ylabel="entities", yscale="log")  # fmt: skip


def _confidences(axes: Any, profile: Profile) -> None:
    if profile.confidences:
        edges = np.linspace(0, 1, len(profile.confidences) + 1)
        axes.bar(edges[:-1], profile.confidences, width=np.diff(edges), align="edge", color=INK)
    else:
        axes.text(0.5, 0.5, "no confidence in this file", ha="center", va="center", color=PALE)
    axes.set(title="Confidence in train", xlabel="confidence", ylabel="beliefs", xlim=(0, 1))


def _leaks(axes: Any, profile: Profile) -> None:
    others = [(name, part) for name, part in profile.parts.items() if name != "train"]
    for number, (name, part) in enumerate(others):
        shares = [100 * part.get(key, 0) / part["beliefs"] for key in LEAKS]
        heights = np.arange(len(LEAKS)) + 0.38 * number - 0.19
        axes.barh(heights, shares, height=0.36, color=(ACCENT, PALE)[number % 2], label=name)
    axes.set_yticks(range(len(LEAKS)), [key.replace("_", " ") for key in LEAKS])
    axes.set(title="Overlap with train", xlabel="% of the part", xlim=(0, 100))
    if others:
        axes.legend(frameon=False)


def _short(name: str, length: int = 32, start: int = 0) -> str:
    """The end of a long name, which tells more than its start, after the first `start` characters."""
    return _plain(name if len(name) <= length else f"{name[:start]}…{name[start + 1 - length :]}")


def _plain(name: str) -> str:
    """The name with dollar signs escaped: matplotlib reads text between two of them as a formula."""
    return name.replace("$", r"\$")


def _bars(axes: Any, names: Sequence[str], values: Sequence[float], color: str) -> None:
    """One bar for each row; rows may have the same name."""
    axes.barh(range(len(names)), values, color=color)
    axes.set_yticks(range(len(names)), names, fontsize=8)
