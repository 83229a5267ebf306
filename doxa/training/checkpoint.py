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
from doxa.errors import BadFile


@dataclass(frozen=True)
class Checkpoint:
    """Named tensors (weights, optimizer, best weights so far) and the rest of the state, as JSON."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write beside the old file, then replace it: a kill at any moment leaves one whole checkpoint."""
        try:
            with written(path) as unfinished:
                save_file(self.tensors, unfinished, metadata={"state": json.dumps(self.state)})
        except SafetensorError as fault:
            raise BadFile(f"cannot write the checkpoint {path}: {fault}") from fault

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a checkpoint; tensors are copied, because safetensors leaves them at unaligned addresses."""
        try:
            with safe_open(path, framework="pt") as stored:
                state = json.loads((stored.metadata() or {})["state"])
                return cls({name: stored.get_tensor(name).clone() for name in stored.keys()}, state)  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, ValueError) as fault:
            raise BadFile(f"{path} is not a whole checkpoint ({fault})", "start again without resuming") from fault
