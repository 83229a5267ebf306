"""The options of the command line for partitions and clusters."""

import json

import polars as pl
import pytest

from doxa import formats
from doxa.lab import bench_cluster
from tests.worlds import board

pytestmark = pytest.mark.cluster

SETTINGS = [f"--set={setting}" for setting in ("dimension=8", "epochs=4", "batch_size=32", "threads=1")]


def test_commands_on_a_cluster_give_the_figures_of_one_machine(cluster, doxa, tmp_path):
    data, model = tmp_path / "b.tsv", tmp_path / "m"
    formats.write(board(7), data)
    arguments = ["--out", model, "--score", "translation", "--partitions", "2", "--cluster", "auto", *SETTINGS]
    code, _, err = doxa("train", data, *arguments)
    assert code == 0, err
    assert [path.name for path in model.iterdir() if path.is_dir()] == [], "the partitions are removed"
    on_cluster = ["--cluster", "auto", "--parts", tmp_path / "parts"]
    reports, judged = [], []
    for number, options in enumerate(([], on_cluster)):
        report, rows = tmp_path / f"{number}.json", tmp_path / f"{number}.tsv"
        assert doxa("evaluate", model, data, "--tasks", "entity", "--json", report, *options)[0] == 0
        assert doxa("judge", model, data, "--out", rows, *options)[0] == 0
        reports.append(json.loads(report.read_text())["entity"]["filtered"])
        judged.append(pl.read_csv(rows, separator="\t")["credence"])
    assert reports[1] == pytest.approx(reports[0])
    assert (judged[0] - judged[1]).abs().max() < 1e-6
    assert list((tmp_path / "parts").iterdir())


def test_the_benchmark_compares_a_cluster_with_one_process(cluster, monkeypatch, tmp_path):
    monkeypatch.setattr(bench_cluster, "ROUNDS", 1)
    formats.write(board(7), tmp_path / "train.tsv")
    figures = {figure.name: figure for figure in bench_cluster.cluster(tmp_path, 8, 2, "auto")}
    assert figures["Ray, scaling"].value == pytest.approx(
        figures["Ray, 2 cores"].value / figures["2 partitions, 1 process"].value
    )
    assert 0 < figures["Ray, time in products"].value < 100
    assert sum(figure.value for name, figure in figures.items() if name.startswith("Ray, time in ")) == pytest.approx(
        100 + figures["Ray, time in products"].value
    )
