"""Memory that forked processes share has no name that a killed process could leave behind."""

import os

import pytest
import torch

from doxa.data.beliefs import Beliefs
from doxa.model import fit
from doxa.training.sharing import share, shared
from tests.worlds import board

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def in_a_fork(action):
    child = os.fork()
    if not child:
        try:
            action()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def test_what_a_forked_process_writes_is_seen():
    table, parameter = shared(torch.arange(6.0).view(2, 3)), torch.nn.Parameter(torch.ones(2, 2))
    share(parameter)
    assert table.tolist() == [[0, 1, 2], [3, 4, 5]]

    def write():
        table[1, 2] = 7
        with torch.no_grad():
            parameter[0] += 1

    in_a_fork(write)
    assert table[1].tolist() == [3, 4, 7]
    assert parameter.tolist() == [[2, 2], [1, 1]]
    assert shared(torch.zeros(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("workers", [1, 2])
def test_training_makes_no_file_in_shared_memory(workers, monkeypatch):
    def refuse(*_):
        raise AssertionError("a file in shared memory")

    monkeypatch.setattr(torch.UntypedStorage, "_share_fd_cpu_", refuse)
    monkeypatch.setattr(torch.UntypedStorage, "_share_filename_cpu_", refuse)
    beliefs = Beliefs.from_frame(board(4))
    options = {"dimension": 4, "batch_size": 16, "num_candidates": 8, "score": "translation", "epochs": 2}
    model = fit(beliefs, workers=workers, **options)
    assert model.curve[-1]["loss"] < model.curve[0]["loss"]
