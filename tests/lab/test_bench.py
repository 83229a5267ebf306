"""Benchmarks run on a small dataset. Tests assert units, names and ratios, never speeds: machines differ."""

import contextlib
import errno
import json
import os
import re
import sqlite3
from queue import SimpleQueue

import pytest

from doxa import formats
from doxa.data.synthetic import frames
from doxa.errors import BadFile
from doxa.lab import bench, store
from doxa.lab.figures import Bench, Figure
from doxa.systems import recipe


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for seed, (part, count) in enumerate({"train": 3000, "valid": 100, "test": 200}.items()):
        formats.write(frames(count, 50, 3, seed=seed), folder / f"{part}.tsv")
    return folder


def test_training_has_the_matrix_products_as_its_limit(data, monkeypatch):
    monkeypatch.setattr(bench.os, "cpu_count", lambda: 2)
    shapes = {"dimension": 8, "batch_size": 32, "num_candidates": 16, "seconds": 0.1}
    one, threads, workers = bench.train(data, ("translation",), **shapes)
    assert [figure.name for figure in (one, threads, workers)] == [
        "training, translation, 1 thread", "training, translation, 2 threads", "2 workers, translation"]  # fmt: skip
    assert {figure.unit for figure in (one, threads, workers)} == {"beliefs/s"}
    assert 0 < one.share == one.value / one.limit
    assert threads.limit == workers.limit
    assert re.match(r"\d+\.\d\d × 1 thread; limit: ", threads.note)
    assert re.match(r"\d+\.\d\d × 1 thread; not exactly repeatable", workers.note)


def test_workers_that_took_too_few_steps_get_more_time(data, monkeypatch):
    budgets = []

    def slow(loop, executor):
        budgets.append(loop.settings.time_budget)
        loop.state.step, loop.state.seconds = (0, 1.0) if len(budgets) < 3 else (2 * bench.MIN_STEPS, 4.0)
        return loop.state

    monkeypatch.setattr(bench.TrainingLoop, "run", slow)
    beliefs = bench._read(data, "train")
    speed = bench._worker_speed(beliefs, recipe({"score": "translation", "dimension": 4, "batch_size": 30}), 2, 0.5)
    assert budgets == [0.5, 1.0, 2.0]
    assert speed == 2 * bench.MIN_STEPS * 30 / 4.0


def test_ranking_reports_time_limit_and_memory(data):
    (figure,) = bench.rank(data, ("complex",), dimension=8)
    assert figure.unit == "s"
    assert figure.share == figure.limit / figure.value
    assert "400 questions, 50 candidates each" in figure.note


def test_loading_and_growth_generate_their_data():
    speed, memory = bench.load(beliefs=2000, entities=100, relations=3)
    assert speed.value > 0
    assert "× the file" in memory.note
    names = [
        figure.name for figure in bench.growth((100, 200), dimension=4, batch_size=16, num_candidates=8, seconds=0.05)
    ]
    assert names == ["training, 100 entities", "training, 200 entities"]


def test_answering_is_measured_cold_single_and_in_bulk(data):
    figures = {figure.name: figure for figure in bench.answer(data, dimension=8)}
    assert set(figures) == {"a question from cold", "loading the model", "a question", "200 questions"}


def test_a_full_disk_leaves_the_old_figures(doxa, tmp_path, monkeypatch):
    monkeypatch.setitem(bench.KINDS, "load", lambda: [Figure("reading", 3.0, "s")])
    (tmp_path / "bench.json").write_text("old")

    def fsync(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        code, out, err = doxa("bench", "load", "--json", tmp_path / "bench.json")
    assert (code, "reading" in out) == (1, True)
    assert err.strip() == f"Error: cannot write {tmp_path / 'bench.json'}: No space left on device"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("bench.json", "old")]
    assert doxa("bench", "load", "--json", tmp_path / "bench.json")[0] == 0
    assert json.loads((tmp_path / "bench.json").read_text())["figures"][0]["name"] == "reading"


def test_figures_become_json_with_the_machine():
    result = Bench((Figure("x", 2.0, "s", 1.0), Figure("y", 3.0, "beliefs/s", 4.0)))
    values = json.loads(json.dumps(result.as_dict()))
    assert [figure["share"] for figure in values["figures"]] == [0.5, 0.75]
    assert {"processor", "cores", "versions"} <= set(values)
    assert "torch" in values["versions"]
    assert result.to_frame()["share"].to_list() == [0.5, 0.75]
    assert repr(result).startswith("Bench(2 figures, ")


def test_a_dataset_without_test_is_refused(data, tmp_path):
    (tmp_path / "train.tsv").write_bytes((data / "train.tsv").read_bytes())
    with pytest.raises(BadFile, match="has no valid file"):
        list(bench.rank(tmp_path))


def test_the_store_is_measured_beside_the_bare_database(tmp_path):
    answers = SimpleQueue()
    store._measure(str(tmp_path / "kb.db"), str(tmp_path / "plain.db"), 3000, answers)
    measured = answers.get()
    assert min(measured.values()) > 0
    for table in ("entity", "relation", "belief", "assertion", "belief_state"):
        kb, plain = (count(tmp_path / name, table) for name in ("kb.db", "plain.db"))
        assert kb == plain > 0
    assert count(tmp_path / "kb.db", "belief") == measured["beliefs"]


def count(path, table):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
