"""Checkpoints: everything a run needs to go on as if it had never stopped, in one file with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from doxa.data.atomic import written
from doxa.errors import BadFile

AGAIN = "start again without resuming"


@dataclass(frozen=True)
class Checkpoint:
    """Named tensors (weights, optimizer, best weights so far) and the rest of the state, as JSON."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write beside the old file, read it back, then replace the old one: a kill at any moment leaves one whole."""
        state = json.dumps(self.state)
        metadata = {"state": state, "sha256": _checksum(state, sorted(self.tensors.items()))}
        try:
            with written(path) as unfinished:
                save_file(self.tensors, unfinished, metadata=metadata)
                _verify(unfinished)
        except (SafetensorError, ValueError) as fault:
            raise BadFile(f"cannot write the checkpoint {path}: {fault}") from fault

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a checkpoint; tensors are copied, because safetensors leaves them at unaligned addresses."""
        if path.exists() and not path.is_file():
            raise BadFile(f"{path} is not a regular file", AGAIN)
        try:
            state = _verify(path)
            with safe_open(path, framework="pt") as stored:
                return cls({name: stored.get_tensor(name).clone() for name in stored.keys()}, state)  # noqa: SIM118
        except PermissionError as fault:
            raise BadFile(f"cannot read the checkpoint {path}: permission denied") from fault
        except (OSError, SafetensorError, KeyError, ValueError, TypeError, RecursionError) as fault:
            raise BadFile(f"{path} is not a whole checkpoint ({fault})", AGAIN) from fault


def _verify(path: Path) -> dict[str, Any]:
    """The state of a checkpoint whose content has its checksum; checkpoints of earlier versions have none."""
    with safe_open(path, framework="pt") as stored:
        metadata = stored.metadata() or {}
        if set(metadata) not in ({"state"}, {"state", "sha256"}):
            raise ValueError("its heading is damaged")
        tensors = ((name, stored.get_tensor(name)) for name in sorted(stored.keys()))
        if "sha256" in metadata and _checksum(metadata["state"], tensors) != metadata["sha256"]:
            raise ValueError("its checksum is another one")
        return dict(json.loads(metadata["state"]))


def _checksum(state: str, tensors: Iterable[tuple[str, Tensor]]) -> str:
    """SHA-256 of the state and of every tensor: name, type, shape and values."""
    digest = hashlib.sha256(state.encode())
    for name, tensor in tensors:
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().contiguous().numpy().reshape(-1).data)
    return digest.hexdigest()
