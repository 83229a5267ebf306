"""A forked process, a pool of forked or spawned processes, and threads answer as one process does."""

import pytest

from tests.faults import forks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("forks") / "model"


@pytest.fixture(scope="module")
def model(folder):
    return forks.make_model(folder)


def test_a_forked_process_answers_alike(model):
    assert forks.in_one_fork(model)
    assert forks.in_a_fork_pool(model, range(4))


def test_a_forked_process_loads_the_model_by_itself(model, folder):
    assert forks.in_one_fork(model, folder=folder)


def test_a_spawned_process_answers_alike(model, folder):
    assert forks.in_a_spawn_pool(model, folder, range(2))


def test_threads_answer_alike(model):
    assert forks.in_threads(model, range(16))
