"""Optimisers that move only the rows a batch touched."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RowAdagrad:
    """Adagrad: each coordinate's step shrinks with the squares of its past gradients.

        s ← s + g²,   x ← x − rate · g / (√s + ε)

    The same numbers as dense Adagrad, for the touched rows alone: an untouched row has g = 0.
    """

    def __init__(self, module: nn.Module, epsilon: float = 1e-10) -> None:
        self.parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self.sums = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.epsilon = epsilon

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One step along the gradients gathered so far, which are then forgotten."""
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            rows, gradient = _touched(parameter.grad)
            if rows is None:
                total = self.sums[name].addcmul_(gradient, gradient)
                parameter.addcdiv_(gradient, total.sqrt().add_(self.epsilon), value=-rate)
            else:
                total = self.sums[name].index_select(0, rows).addcmul_(gradient, gradient)
                self.sums[name].index_copy_(0, rows, total)
                step = gradient.div_(total.sqrt_().add_(self.epsilon))
                parameter.index_add_(0, rows, step, alpha=-rate)
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        return self.sums

    def load(self, state: dict[str, Tensor]) -> None:
        for name, total in self.sums.items():
            total.copy_(state[name])


class RowSGD:
    """Stochastic gradient descent, the paper's: x ← x − rate · g for the touched rows."""

    def __init__(self, module: nn.Module) -> None:
        self.parameters = [p for p in module.parameters() if p.requires_grad]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One step along the gradients gathered so far, which are then forgotten."""
        for parameter in self.parameters:
            if parameter.grad is None:
                continue
            rows, gradient = _touched(parameter.grad)
            if rows is None:
                parameter.add_(gradient, alpha=-rate)
            else:
                parameter.index_add_(0, rows, gradient, alpha=-rate)
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, state: dict[str, Tensor]) -> None:
        pass


def _touched(gradient: Tensor) -> tuple[Tensor | None, Tensor]:
    """The distinct touched rows and their summed gradients; no row numbers for a dense gradient."""
    if not gradient.is_sparse:
        return None, gradient
    summed = gradient.coalesce()
    return summed.indices()[0], summed.values()
