"""Checkpoints: everything a run needs to go on as if it had never stopped, in one file, written atomically."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from doxa.data.atomic import written
from doxa.errors import DoxaError


@dataclass(frozen=True)
class Checkpoint:
    """Named tensors (weights, optimizer, best weights so far) and what else to remember, as JSON."""

    tensors: dict[str, Tensor]
    memory: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write beside the old file, then take its place: a kill at any moment leaves one whole checkpoint."""
        try:
            with written(path) as unfinished:
                save_file(self.tensors, unfinished, metadata={"memory": json.dumps(self.memory)})
        except SafetensorError as fault:
            raise DoxaError(f"cannot write the checkpoint {path}: {fault}") from fault

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        try:
            with safe_open(path, framework="pt") as stored:
                memory = json.loads((stored.metadata() or {})["memory"])
                return cls({name: stored.get_tensor(name).clone() for name in stored.keys()}, memory)  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, ValueError) as fault:
            raise DoxaError(
                f"{path} is not a whole checkpoint ({fault})", "start anew without --resume, with --force"
            ) from fault
