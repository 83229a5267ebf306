"""Optimizers that move only the rows a batch uses, and project them back onto their constraint."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim.adagrad import adagrad

from doxa.pbe import PBE
from doxa.scores import kernels
from doxa.training.parts import RowGradient
from doxa.training.threads import ALONE

LEAST_LENGTH = {"unit": 1e-12, "ball": 1.0}
"""A constrained vector is divided by its length, or by this where that is more: onto the unit sphere (TransE), into
the unit ball (TransH)."""


def constraints(pbe: PBE, entity_norm: str) -> dict[str, float]:
    """The least length by the name of each constrained table; none where entity vectors are free."""
    least = LEAST_LENGTH.get(entity_norm)
    return {} if least is None else {f"score.{name}.weight": least for name in pbe.score.entity_tables}


@torch.no_grad()
def constrain(pbe: PBE, entity_norm: str) -> None:
    """Project every entity vector onto its constraint, before the first step."""
    for name, least in constraints(pbe, entity_norm).items():
        table = pbe.get_parameter(name)
        table.div_(torch.linalg.vector_norm(table, dim=1, keepdim=True).clamp_min_(least))


class RowOptimizer:
    """Moves each parameter against its gradient; `constraints` are by the names of the tables they hold for.

    `state` are the tensors that the optimizer goes on with and moves in place; new ones where there are none.
    """

    def __init__(
        self,
        module: nn.Module,
        constraints: Mapping[str, float] | None = None,
        state: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self.constraints = constraints or {}
        self.tables: Mapping[str, RowGradient] = {}
        self.threads = ALONE

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One step along the gradients of parameters and of tables, which are then cleared."""
        blocks = [(name, gradient, rows) for name, gradient in self.tables.items() for rows in gradient.blocks]
        self.threads.run([partial(self._move_block, *block, rate) for block in blocks])
        self.tables = {}
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse or name in self.constraints:
                self.move_rows(name, parameter, *_distinct_rows(parameter.grad), rate)
            else:
                self.move(name, parameter, parameter.grad, rate)
            parameter.grad = None

    @torch.no_grad()  # which each thread needs for itself
    def _move_block(self, name: str, gradient: RowGradient, rows: slice, rate: float) -> None:
        self.move_rows(name, self.parameters[name], *gradient.block(rows), rate)

    @torch.no_grad()
    def warm_up(self) -> None:
        """Move no rows, so that the loops are compiled."""
        for name, parameter in self.parameters.items():
            if parameter.ndim == 2:
                self.move_rows(name, parameter, torch.zeros(0, dtype=torch.int64), parameter.new_zeros(0, 1), 0.0)

    def move(self, name: str, values: Tensor, gradient: Tensor, rate: float) -> None:
        """Move the whole parameter of that name."""
        raise NotImplementedError

    def move_rows(self, name: str, table: Tensor, rows: Tensor, gradient: Tensor, rate: float) -> None:
        """Move these rows, which are distinct, of the table of that name, and project them."""
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


class RowAdagrad(RowOptimizer):
    """Adagrad: each coordinate's step shrinks with the squares of its past gradients.

        s ← s + g²,   x ← x − rate · g / (√s + ε)

    The same numbers as dense Adagrad, for the rows of the batch alone: every other row has g = 0.
    """

    def __init__(
        self,
        module: nn.Module,
        constraints: Mapping[str, float] | None = None,
        state: Mapping[str, Tensor] | None = None,
        epsilon: float = 1e-10,
    ) -> None:
        super().__init__(module, constraints)
        self.sums = {name: torch.zeros_like(p) if state is None else state[name] for name, p in self.parameters.items()}
        self.epsilon, self.count = epsilon, torch.zeros(())

    def move(self, name: str, values: Tensor, gradient: Tensor, rate: float) -> None:
        # one fused pass; the step counts matter only to torch's own decay of the rate, which is not used
        adagrad([values], [gradient], [self.sums[name]], [self.count], fused=True, has_sparse_grad=False,
                has_complex=False, lr=rate, weight_decay=0.0, lr_decay=0.0, eps=self.epsilon,
                maximize=False)  # fmt: skip

    def move_rows(self, name: str, table: Tensor, rows: Tensor, gradient: Tensor, rate: float) -> None:
        least = self.constraints.get(name, 0.0)
        arrays = (table.numpy(), self.sums[name].numpy(), rows.numpy(), gradient.numpy())
        kernels.adagrad(*arrays, *(arrays[0].dtype.type(number) for number in (rate, self.epsilon, least)))

    def state(self) -> dict[str, Tensor]:
        return self.sums


class RowSGD(RowOptimizer):
    """Stochastic gradient descent, the paper's: x ← x − rate · g for the rows of the batch."""

    def move(self, name: str, values: Tensor, gradient: Tensor, rate: float) -> None:
        values.add_(gradient, alpha=-rate)

    def move_rows(self, name: str, table: Tensor, rows: Tensor, gradient: Tensor, rate: float) -> None:
        kind = table.numpy().dtype.type
        arrays = (table.numpy(), rows.numpy(), gradient.numpy())
        kernels.descend(*arrays, kind(rate), kind(self.constraints.get(name, 0.0)))


OPTIMIZERS: dict[str, type[RowOptimizer]] = {"adagrad": RowAdagrad, "sgd": RowSGD}


def _distinct_rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of a sparse gradient and their summed values; all rows of a dense one."""
    if not gradient.is_sparse:
        return torch.arange(len(gradient)), gradient
    rows, values = gradient._indices()[0], gradient._values()
    if len(kernels.deduplicate(rows.numpy())[0]) == len(rows):
        return rows, values
    summed = gradient.coalesce()
    return summed.indices()[0], summed.values()
