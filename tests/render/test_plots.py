"""Plots: each writes a PNG, whatever the names are, and leaves matplotlib's global state alone."""

import struct
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from doxa.curation.map import Map
from doxa.evaluation.calibration import Reliability
from doxa.formats import inspect
from doxa.render import plots

ODD = ("$a$b^{", "<script>", "naïve 京", "_hidden", "x" * 80)


def size(path):
    """Width and height of a PNG."""
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return struct.unpack(">II", head[16:24])


def reliability():
    credence = np.linspace(0.05, 0.95, 10)
    return Reliability(credence, credence**2, np.arange(1, 11), 0.1, 0.2, 0.3)


def test_learning_curve(tmp_path):
    curve = [{"epoch": epoch, "loss": 1 / epoch, "metric": None if epoch % 2 else epoch / 9} for epoch in range(1, 9)]
    plots.learning_curve(curve, tmp_path / "curve.png")
    assert size(tmp_path / "curve.png") == (1092, 416)
    plots.learning_curve([record | {"metric": None} for record in curve], tmp_path / "unmeasured.png")
    size(tmp_path / "unmeasured.png")


@pytest.mark.parametrize("before", [None, reliability()])
def test_reliability_diagram(tmp_path, before):
    plots.reliability_diagram(reliability(), tmp_path / "reliability.png", before)
    assert size(tmp_path / "reliability.png") == (676, 728)


def test_entity_map(tmp_path):
    places = np.random.default_rng(0).random((len(ODD), 2))
    entities = Map("cost in $ and $", ODD, places, np.arange(len(ODD)) % 3, ("$head$", "tail", "both"))
    plots.entity_map(entities, tmp_path / "map.png")
    assert size(tmp_path / "map.png") == (1170, 1040)


@pytest.mark.parametrize("groups", [1, 14])
def test_legend_and_labels_of_a_map_cover_no_point_and_no_other_label(tmp_path, monkeypatch, groups):
    """As drawn: below the picture, within it, each name at most once."""
    figures = []
    monkeypatch.setattr(plots, "Figure", lambda **options: figures.append(Figure(**options)) or figures[0])
    rng = np.random.default_rng(0)
    names = tuple(f"a rather long name of entity {number}" for number in range(60))
    labels = tuple(f"group {number} that has a long name" for number in range(groups))
    entities = Map("r", names, rng.random((60, 2)), rng.integers(0, groups, 60), labels)
    plots.entity_map(entities, tmp_path / "map.png", labeled=30)
    axes, legend = figures[0].axes[0], figures[0].legends[0].get_window_extent()
    assert not legend.count_contains(axes.transData.transform(entities.places))
    assert figures[0].bbox.x0 <= legend.x0 < legend.x1 <= figures[0].bbox.x1
    boxes = [text.get_window_extent() for text in axes.texts]
    assert 20 <= len(boxes) <= 30
    for number, box in enumerate(boxes):
        assert not box.count_overlaps([*boxes[:number], *boxes[number + 1 :], legend])
        assert 0 <= box.x0 < box.x1 <= figures[0].bbox.x1
    shapes = {(tuple(dots.get_facecolor()[0]), len(dots.get_paths()[0].vertices)) for dots in axes.collections}
    assert len(shapes) == len(axes.collections) == groups  # no two groups look alike


@pytest.mark.parametrize("confidence", ["", "\t0.5"])
def test_overview(tmp_path, confidence):
    lines = [
        f"{head}\t{relation}\t{tail}{confidence}\n" for head, relation, tail in zip(ODD, ODD[1:], ODD[2:], strict=False)
    ]
    (tmp_path / "train.tsv").write_text("".join(lines))
    (tmp_path / "test.tsv").write_text(lines[0])
    for data in (tmp_path, tmp_path / "train.tsv"):
        plots.overview(inspect(data), tmp_path / "overview.png")
        assert size(tmp_path / "overview.png") == (2080, 1118)


def test_no_global_state_is_changed(tmp_path):
    """A notebook's backend stays as it is: pyplot is never loaded, and style settings end with the plot."""
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.reliability_diagram(reliability(), tmp_path / "reliability.png")
    assert dict(matplotlib.rcParams) == before
    program = "import sys, doxa.render.plots; print([m for m in sys.modules if m in ('matplotlib.pyplot', 'torch')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
