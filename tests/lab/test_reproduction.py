import json

import numpy as np
import polars as pl
import pytest

from doxa import formats as files
from doxa.errors import DoxaError, UsageError
from doxa.lab import experiments, page, paper, report
from doxa.lab.experiments import Run
from tests.worlds import board

SETTINGS = {"system": "pbe", "dimension": 8, "epochs": 3, "batch_size": 16, "threads": 1, "patience": 0}


@pytest.fixture
def data(tmp_path):
    """A dataset with mentions and confidence, and one with labels."""
    table = board(6).with_columns(confidence=pl.Series(np.linspace(0.5, 1.0, 60)))
    order = np.random.default_rng(0).permutation(60).tolist()
    for name, rows in (("train", order[:40]), ("valid", order[40:50]), ("test", order[50:])):
        files.write(table[rows], tmp_path / "world" / f"{name}.tsv")
        label = pl.Series([1, -1] * (len(rows) // 2))
        part = table[rows].drop("mention", "confidence")
        files.write(part if name == "train" else part.with_columns(label=label), tmp_path / "labeled" / f"{name}.tsv")
    return tmp_path


def run_of(folder, seed=0, **more):
    experiment = {"data": "world", "tasks": ["entity", "relation"], "settings": SETTINGS} | more
    run = Run("one", experiment, seed)
    found = experiments.perform(run, folder, folder / "out")
    assert json.loads(run.result(folder / "out").read_text()) == found
    return found


def test_a_run_tells_what_was_run_and_what_came_of_it(data):
    found = run_of(data, seed=3)
    assert (found["seed"], found["experiment"]["settings"]) == (3, SETTINGS)
    assert len(found["curve"]) == 3
    assert {"entity", "relation", "relation_by_pair", "relation_by_mention", "entity_by_confidence"} <= set(
        found["evaluation"]
    )
    weighted = found["evaluation"]["entity_by_confidence"]
    assert 0 < weighted["high"] < 10
    assert 0 < weighted["mrr_of_high"] <= 1


def test_dropped_labels_rank_the_false_beliefs_too(data):
    found = run_of(data, data="labeled", labels=False, tasks=["entity", "relation", "classification"])
    assert found["evaluation"]["protocol"]["queries"] == 10
    assert found["evaluation_of_true_ones"]["protocol"]["queries"] == 5
    assert "classification" not in found["evaluation_of_true_ones"]


def test_falsehoods_of_confidence_0_are_put_beside_the_test_beliefs(data):
    found = run_of(data, tasks=["confidence"], negatives_from="all", settings=SETTINGS | {"confidence": "label"})
    alone = run_of(data, tasks=["confidence"], settings=SETTINGS | {"confidence": "label"})
    assert found["evaluation"]["confidence"]["mse"] != alone["evaluation"]["confidence"]["mse"]
    assert experiments.summary(found).startswith("confidence MSE ")


def test_a_dataset_that_is_not_there_is_told(data):
    with pytest.raises(DoxaError, match="no dataset folder"):
        experiments.perform(Run("one", {"data": "none", "tasks": [], "settings": {}}, 0), data, data)


def test_names_may_end_in_a_star_and_must_be_known():
    some = [run.name for run in experiments.runs(["fb15k-trans*"])]
    assert some == ["fb15k-transe", "fb15k-transh", "fb15k-transm"]
    with pytest.raises(UsageError, match="Did you mean 'fb15k-transe'"):
        list(experiments.runs(["fb15k-trnse"]))


@pytest.mark.parametrize(
    ("ours", "theirs", "column", "said"),
    [
        ((44.6, 0.0, 1), 44.6, "Hits@10 raw", "44.6 ✓"),
        ((44.54, 0.0, 1), 44.6, "Hits@10 raw", "44.5 ✗"),
        ((165.4, 0.0, 1), 165, "MR raw", "165 ✓"),
        ((165.6, 0.0, 1), 165, "MR raw", "166 ✗"),
        ((2.64, 0.25, 3), 2.6, "average rank", "2.6 ± 0.2 ✓"),
        ((2.66, 0.0, 1), 2.6, "average rank", "2.7 ✗"),
        (None, 2.6, "average rank", "–"),
    ],
)
def test_figures_are_marked_as_they_are_printed(ours, theirs, column, said):
    assert report.compared(ours, theirs, column) == said


def test_seeds_are_averaged():
    runs = [{"evaluation": {"classification": {"accuracy": share}}} for share in (0.5, 0.7)]
    assert report.over_seeds(runs, report.classification) == [(pytest.approx(60), pytest.approx(10), 2)]
    assert report.over_seeds([{"evaluation": {}}], report.entity) == [None] * 4


def test_the_best_of_a_column_is_bold():
    runs = {
        name: [{"evaluation": {"relation": {"raw": {"mr": mr, "hits@10": 0.5, "hits@1": hits}}}}]
        for name, mr, hits in (("a", 3.0, 0.2), ("b", 2.0, 0.1))
    }
    made = report.ours(runs, "x", paper.RELATION, {"A": "a", "B": "b"}, report.relation)
    assert made.splitlines()[2:] == ["| A | 3.0 | **50.0** | **20.0** |", "| B | **2.0** | **50.0** | 10.0 |"]


def test_every_table_of_the_paper_is_made_of_experiments_that_are_there():
    known = set(experiments.require())
    for name, some in page.TABLES.items():
        assert set(some) <= known, name


def test_reproduce_lists_refuses_and_reports(doxa, tmp_path):
    code, said, _ = doxa("reproduce", "list", "--out", tmp_path)
    assert code == 0
    assert "fb15k-transe" in said
    assert "to be run" in said
    code, _, err = doxa("reproduce", "fb15k-transe", "--out", tmp_path)
    assert (code, "needs --data" in err) == (2, True)
    code, said, _ = doxa("reproduce", "report", "--out", tmp_path)
    assert code == 0
    assert (tmp_path / "results.md").read_text().startswith("# Results")
