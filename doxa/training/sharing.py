"""Memory that forked processes share. It has no name, so that a killed process leaves no file in shared memory."""

from __future__ import annotations

import mmap

import torch
from torch import Tensor


def shared(tensor: Tensor) -> Tensor:
    """A copy of a tensor in memory that processes forked later share."""
    if not tensor.numel():
        return tensor.detach().clone()
    memory = mmap.mmap(-1, tensor.numel() * tensor.element_size())
    copy: Tensor = torch.frombuffer(memory, dtype=tensor.dtype).view(tensor.shape)
    return copy.copy_(tensor.detach())


def share(tensor: Tensor) -> None:
    """Move the values of a tensor, which stays the same object, to memory that processes forked later share."""
    tensor.data = shared(tensor)
