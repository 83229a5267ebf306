"""Work: what the training loop knows of the steps that it lets an executor run."""

from __future__ import annotations

from typing import Protocol

from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.pbe import PBE
from doxa.training.snapshots import Snapshots


class Work(Protocol):
    """Beliefs to train on, cut into steps: `Steps` in the memory of one process, or a partitioned run."""

    pbe: PBE
    settings: Settings
    beliefs: Beliefs

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch."""
        ...

    def snapshots(self) -> Snapshots:
        """The weights of the run, as the loop keeps them."""
        ...
