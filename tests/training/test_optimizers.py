"""Row-wise Adagrad and SGD against their dense twins."""

import numpy as np
import torch
from torch import nn

from doxa.training.optimizers import RowAdagrad, RowSGD
from tests import reference


class Both(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.table = nn.Embedding(6, 3, sparse=sparse)
        self.bias = nn.Parameter(torch.zeros(()))
        with torch.no_grad():
            self.table.weight.copy_(torch.arange(18.0).reshape(6, 3) / 10)

    def loss(self, rows):
        return ((self.table(rows) - self.bias) ** 2 * torch.tensor([1.0, 2.0, 3.0])).sum()


BATCHES = [torch.tensor([0, 1, 1]), torch.tensor([5, 0]), torch.tensor([1, 1, 1, 4])]


def trajectory(module, step):
    for rows in BATCHES:
        module.loss(rows).backward()
        step()
    return module


def test_row_adagrad_equals_dense_adagrad():
    ours = Both(sparse=True)
    optimizer = RowAdagrad(ours)
    trajectory(ours, lambda: optimizer.step(0.1))
    dense = Both(sparse=False)
    theirs = torch.optim.Adagrad(dense.parameters(), lr=0.1, eps=1e-10)

    def step():
        theirs.step()
        theirs.zero_grad()

    trajectory(dense, step)
    assert torch.allclose(ours.table.weight, dense.table.weight, atol=1e-7)
    assert torch.allclose(ours.bias, dense.bias, atol=1e-7)


def test_row_sgd_equals_dense_sgd():
    ours = Both(sparse=True)
    optimizer = RowSGD(ours)
    trajectory(ours, lambda: optimizer.step(0.01))
    dense = Both(sparse=False)
    theirs = torch.optim.SGD(dense.parameters(), lr=0.01)

    def step():
        theirs.step()
        theirs.zero_grad()

    trajectory(dense, step)
    assert torch.allclose(ours.table.weight, dense.table.weight)


def test_row_adagrad_equals_the_reference_on_one_parameter():
    module = nn.Module()
    module.x = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = RowAdagrad(module)
    gradients = [np.array([0.5, -1.0]), np.array([-0.25, 3.0])]
    for gradient in gradients:
        module.x.grad = torch.tensor(gradient)
        optimizer.step(0.1)
    assert np.allclose(module.x.detach().numpy(), reference.adagrad([1.0, -2.0], gradients, 0.1))


def test_untouched_rows_stay_and_gradients_are_forgotten():
    module = Both(sparse=True)
    before = module.table.weight.detach().clone()
    optimizer = RowAdagrad(module)
    module.loss(torch.tensor([2])).backward()
    optimizer.step(0.1)
    changed = (module.table.weight != before).any(1)
    assert changed.tolist() == [False, False, True, False, False, False]
    assert module.table.weight.grad is None
