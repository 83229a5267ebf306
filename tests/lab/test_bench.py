"""Benchmarks run on a small world and say what they measured. Their figures are not asserted: machines differ."""

import json

import pytest

from doxa import formats as files
from doxa.data.synthetic import frames
from doxa.errors import DoxaError
from doxa.lab import bench


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for seed, (part, count) in enumerate({"train": 3000, "valid": 100, "test": 200}.items()):
        files.write(frames(count, 50, 3, seed=seed), folder / f"{part}.tsv")
    return folder


def test_training_stands_beside_its_bare_products(data):
    figures = list(bench.train(data, ("translation",), dimension=8, batch_size=32, num_candidates=16, seconds=0.1))
    assert {figure.unit for figure in figures} == {"beliefs/s"}
    assert all(figure.value > 0 for figure in figures)
    assert any(figure.name == "1 worker, translation" for figure in figures)
    assert 0 < figures[0].share == figures[0].value / figures[0].limit


def test_ranking_tells_time_limit_and_memory(data):
    (figure,) = bench.rank(data, ("complex",), dimension=8)
    assert figure.unit == "s"
    assert figure.share == figure.limit / figure.value
    assert "400 questions, 50 candidates each" in figure.note


def test_loading_and_growth_make_their_own_data():
    speed, memory = bench.load(beliefs=2000, entities=100, relations=3)
    assert speed.value > 0
    assert "× the file" in memory.note
    names = [
        figure.name for figure in bench.growth((100, 200), dimension=4, batch_size=16, num_candidates=8, seconds=0.05)
    ]
    assert names == ["training, 100 entities", "training, 200 entities"]


def test_answering_is_measured_cold_single_and_together(data):
    figures = {figure.name: figure for figure in bench.answer(data, dimension=8)}
    assert set(figures) == {"a question from cold", "loading the model", "a question", "200 questions"}


def test_figures_become_json_with_the_machine():
    found = bench.Bench((bench.Figure("x", 2.0, "s", 1.0), bench.Figure("y", 3.0, "beliefs/s", 4.0)))
    told = json.loads(json.dumps(found.as_dict()))
    assert [figure["share"] for figure in told["figures"]] == [0.5, 0.75]
    assert {"processor", "cores", "versions"} <= set(told)
    assert "torch" in told["versions"]


def test_a_dataset_without_test_is_refused(data, tmp_path):
    (tmp_path / "train.tsv").write_bytes((data / "train.tsv").read_bytes())
    with pytest.raises(DoxaError, match="holds no valid file"):
        list(bench.rank(tmp_path))
