"""Optimisers that move only the rows a batch touched, and put them back where they are constrained to lie."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim.adagrad import adagrad

from doxa.learning.constraints import Constraint


class RowOptimiser:
    """Moves each parameter against its gradient; `constraints` are by the names of the parameters they hold for."""

    def __init__(self, module: nn.Module, constraints: Mapping[str, Constraint] | None = None) -> None:
        self.parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self.constraints = constraints or {}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One step along the gradients gathered so far, which are then forgotten."""
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            rows, gradient = _touched(parameter.grad)
            put_back = self.constraints.get(name)
            if rows is None:
                self.move(name, None, parameter, gradient, rate)
                if put_back:
                    parameter.copy_(put_back(parameter))
            else:
                moved = parameter.index_select(0, rows)
                self.move(name, rows, moved, gradient, rate)
                parameter.index_copy_(0, rows, put_back(moved) if put_back else moved)
            parameter.grad = None

    def move(self, name: str, rows: Tensor | None, values: Tensor, gradient: Tensor, rate: float) -> None:
        """Move the values, which are the given rows (all when None) of the parameter of that name."""
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


class RowAdagrad(RowOptimiser):
    """Adagrad: each coordinate's step shrinks with the squares of its past gradients.

        s ← s + g²,   x ← x − rate · g / (√s + ε)

    The same numbers as dense Adagrad, for the touched rows alone: an untouched row has g = 0.
    """

    def __init__(
        self, module: nn.Module, constraints: Mapping[str, Constraint] | None = None, epsilon: float = 1e-10
    ) -> None:
        super().__init__(module, constraints)
        self.sums = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.epsilon, self.count = epsilon, torch.zeros(())

    def move(self, name: str, rows: Tensor | None, values: Tensor, gradient: Tensor, rate: float) -> None:
        total = self.sums[name] if rows is None else self.sums[name].index_select(0, rows)
        # one pass over the rows; the counts of steps matter only to rates that decay, which ours does by itself
        adagrad([values], [gradient], [total], [self.count], fused=True, has_sparse_grad=False, has_complex=False,
                lr=rate, weight_decay=0.0, lr_decay=0.0, eps=self.epsilon, maximize=False)  # fmt: skip
        if rows is not None:
            self.sums[name].index_copy_(0, rows, total)

    def state(self) -> dict[str, Tensor]:
        return self.sums


class RowSGD(RowOptimiser):
    """Stochastic gradient descent, the paper's: x ← x − rate · g for the touched rows."""

    def move(self, name: str, rows: Tensor | None, values: Tensor, gradient: Tensor, rate: float) -> None:
        values.add_(gradient, alpha=-rate)


def _touched(gradient: Tensor) -> tuple[Tensor | None, Tensor]:
    """The distinct touched rows and their summed gradients; no row numbers for a dense gradient."""
    if not gradient.is_sparse:
        return None, gradient
    rows, values = gradient._indices()[0], gradient._values()
    if (rows[1:] > rows[:-1]).all():
        return rows, values
    summed = gradient.coalesce()
    return summed.indices()[0], summed.values()
