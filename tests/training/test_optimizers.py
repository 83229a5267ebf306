"""Row-wise Adagrad and SGD against dense ones, and constraints on entity vectors."""

import numpy as np
import pytest
import torch
from torch import nn

from doxa.training.optimizers import RowAdagrad, RowSGD, constrain, constraints
from tests import reference
from tests.worlds import random_pbe


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


def test_other_rows_stay_and_gradients_are_cleared():
    module = Both(sparse=True)
    before = module.table.weight.detach().clone()
    optimizer = RowAdagrad(module)
    module.loss(torch.tensor([2])).backward()
    optimizer.step(0.1)
    changed = (module.table.weight != before).any(1)
    assert changed.tolist() == [False, False, True, False, False, False]
    assert module.table.weight.grad is None


@pytest.mark.parametrize(
    ("rule", "lengths"), [("free", [0.5, 2.0, 3.0]), ("unit", [1.0, 1.0, 1.0]), ("ball", [0.5, 1.0, 1.0])]
)
def test_constraints_project_entities_and_nothing_else(rule, lengths):
    pbe, _ = random_pbe(0)
    table = pbe.score.entity.weight
    with torch.no_grad():
        table[:3] = torch.nn.functional.normalize(table[:3], dim=1) * torch.tensor([[0.5], [2.0], [3.0]])
    before, relations = table.detach().clone(), pbe.score.relation.weight.detach().clone()
    constrain(pbe, rule)
    assert table[:3].norm(dim=1).tolist() == pytest.approx(lengths)
    assert torch.allclose(torch.cosine_similarity(table, before), torch.ones(len(table)).double())
    assert torch.equal(pbe.score.relation.weight, relations)


@pytest.mark.parametrize("kind", [RowAdagrad, RowSGD])
def test_a_step_projects_the_rows_it_moved_and_no_other(kind):
    pbe, _ = random_pbe(0)
    table = pbe.score.entity.weight
    before = table.detach().clone()
    optimizer = kind(pbe, constraints(pbe, "unit"))
    rows = torch.tensor([[1, 3]])
    table.grad = torch.sparse_coo_tensor(
        rows, torch.ones(2, table.shape[1], dtype=table.dtype), table.shape, check_invariants=True
    )
    optimizer.step(0.1)
    assert table[[1, 3]].norm(dim=1).tolist() == pytest.approx([1.0, 1.0])
    others = [0, 2, 4, 5, 6]
    assert torch.equal(table[others], before[others])
    assert table[others].norm(dim=1).tolist() != pytest.approx([1.0] * 5)


def test_a_dense_gradient_moves_all_rows_and_projects_them():
    pbe, _ = random_pbe(0)
    table = pbe.score.entity.weight
    before = table.detach().clone()
    table.grad = torch.ones_like(table)
    RowSGD(pbe, constraints(pbe, "unit")).step(0.1)
    expected = torch.nn.functional.normalize(before - 0.1, dim=1)
    assert torch.allclose(table, expected)


def test_a_vector_without_length_is_left_as_it_is():
    pbe, _ = random_pbe(0)
    with torch.no_grad():
        pbe.score.entity.weight[2] = 0.0
    constrain(pbe, "unit")
    assert pbe.score.entity.weight[2].tolist() == [0.0, 0.0, 0.0]
