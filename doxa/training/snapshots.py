"""Snapshots: how the training loop keeps its best weights and writes its state, wherever the tables are."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from doxa.pbe import PBE
from doxa.training.optimizers import RowOptimizer


class Snapshots(Protocol):
    """The weights of a run, now and at its best."""

    every_epoch: bool
    """Whether every epoch is worth a checkpoint, because its weights are in files already."""

    @property
    def has_best(self) -> bool:
        """Whether any weights were kept as the best."""
        ...

    def keep_best(self) -> None:
        """Remember the present weights as the best."""
        ...

    def restore_best(self) -> None:
        """Go back to the best weights; optimizer sums stay as they are where they are at hand."""
        ...

    def save(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors of a checkpoint, and names of files that have the rest."""
        ...

    def load(self, tensors: dict[str, Tensor], files: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        ...


class MemorySnapshots:
    """Weights in memory: the best are a copy."""

    every_epoch = False

    def __init__(self, pbe: PBE, optimizer: RowOptimizer) -> None:
        self._pbe, self._optimizer = pbe, optimizer
        self.best: dict[str, Tensor] | None = None

    @property
    def has_best(self) -> bool:
        return self.best is not None

    def keep_best(self) -> None:
        self.best = {name: tensor.detach().clone() for name, tensor in self._pbe.state_dict().items()}

    def restore_best(self) -> None:
        if self.best is not None:
            self._pbe.load_state_dict(self.best)

    def save(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"weights.{name}": tensor for name, tensor in self._pbe.state_dict().items()}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in self._optimizer.state().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in (self.best or {}).items()}
        return tensors, {}

    def load(self, tensors: dict[str, Tensor], files: dict[str, Any]) -> None:
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "optimizer": {}, "best": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self._pbe.load_state_dict(parts["weights"])
        self._optimizer.load(parts["optimizer"])
        self.best = parts["best"] or None
