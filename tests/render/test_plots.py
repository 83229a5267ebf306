"""Plots: each writes a PNG, whatever the names are, and leaves matplotlib's global state alone."""

import struct
import subprocess
import sys

import numpy as np
import pytest

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
    assert size(tmp_path / "map.png") == (1170, 910)


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
