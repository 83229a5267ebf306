"""Evaluation, completion, audit and judgment on a cluster: the figures of one machine, and files to go on from."""

import shutil

import numpy as np
import polars as pl
import pytest

from doxa.cluster import rows as cluster_rows
from doxa.cluster.rows import ClusterRows
from doxa.curation.audit import audit
from doxa.curation.complete import complete
from doxa.data.beliefs import Beliefs
from doxa.errors import BadModel
from doxa.evaluation.report import evaluate
from doxa.inference.judgment import judge
from doxa.model import Model, fit
from tests.worlds import board

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("model") / "m"
    table = board(7)
    rows = np.random.default_rng(0).permutation(len(table))
    held_out, rest = rows[:30].tolist(), rows[30:].tolist()
    model = fit(Beliefs.from_frame(table[rest]), Beliefs.from_frame(table[held_out]), score="translation",
                dimension=8, epochs=30, batch_size=32, threads=1)  # fmt: skip
    model.save(place)
    return place, Beliefs.from_frame(table[held_out])


@pytest.fixture
def runner(cluster, folder, tmp_path, monkeypatch):
    import ray

    monkeypatch.setattr("doxa.cluster.rows.BLOCK", 11)
    return ClusterRows(ray, folder[0], tmp_path)


@pytest.mark.parametrize("options", [{}, {"candidates": "relation"}, {"candidates": "answered", "filter": "train"}])
def test_evaluation_has_the_same_figures(folder, runner, options):
    model, test = Model.load(folder[0]), folder[1]
    here, there = (evaluate(model, test, runner=each, **options) for each in (None, runner))
    first, second = (each.to_frame().filter(pl.col("value").is_not_null()) for each in (here, there))
    assert first["metric"].to_list() == second["metric"].to_list()
    np.testing.assert_allclose(first["value"], second["value"], atol=1e-6)


def test_proposals_are_the_same(folder, runner):
    model = Model.load(folder[0])
    here, there = (complete(model, min_credence=0.0, top=50, runner=each) for each in (None, runner))
    assert len(here)
    assert here.triples.tolist() == there.triples.tolist()
    np.testing.assert_allclose(here.credence, there.credence, atol=1e-6)
    np.testing.assert_allclose(here.terms, there.terms, atol=1e-6)


def test_suspects_are_the_same(folder, runner):
    model = Model.load(folder[0])
    here, there = (audit(model, top=40, runner=each) for each in (None, runner))
    assert here.rows.tolist() == there.rows.tolist()
    np.testing.assert_allclose(here.credence, there.credence, atol=1e-6)
    assert here.to_frame()["suggestion"].to_list() == there.to_frame()["suggestion"].to_list()


def test_a_command_that_is_run_again_goes_on_from_its_files(folder, runner, tmp_path):
    model, beliefs = Model.load(folder[0]), Beliefs.from_triples(Model.load(folder[0]).vocabularies,
                                                                 Model.load(folder[0]).train)  # fmt: skip
    first = judge(model, beliefs, runner=runner)
    np.testing.assert_allclose(first.credence, judge(model, beliefs).credence, atol=1e-6)
    files = sorted(tmp_path.iterdir())
    assert len(files) == -(-len(beliefs) // 11)
    files[2].unlink()
    kept = {path: path.stat().st_mtime_ns for path in files if path.exists()}
    again = judge(model, beliefs, runner=runner)
    assert again.credence.tolist() == first.credence.tolist()
    assert sorted(tmp_path.iterdir()) == files
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    judge(model, beliefs, base_rate=0.9, runner=runner)
    assert len(list(tmp_path.iterdir())) == 2 * len(files)


def test_a_model_that_was_replaced_is_read_again(cluster, folder, tmp_path):
    """Workers keep the model of a folder in memory from one command to the next."""
    import ray

    place = tmp_path / "m"
    shutil.copytree(folder[0], place)
    for dimension in (0, 4):
        if dimension:
            beliefs = Beliefs.from_frame(board(7))
            model = fit(beliefs, folder[1], score="translation", dimension=dimension, epochs=2, threads=1)
            model.save(place, force=True)
        here = judge(Model.load(place), folder[1])
        there = judge(Model.load(place), folder[1], runner=ClusterRows(ray, place, tmp_path / "parts"))
        np.testing.assert_allclose(there.credence, here.credence, atol=1e-6)


def test_a_worker_refuses_a_model_that_was_replaced_meanwhile(folder):
    with pytest.raises(BadModel, match="was replaced while the command was using it"):
        cluster_rows._model(str(folder[0]), "the checksum of another model")
