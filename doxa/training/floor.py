"""The floor of negative sampling: a run that has come to lie on it learns nothing more, and is stopped.

The estimates of Eqs 13–18 have a floor ε inside the logarithm. A truth with σ(D) below ε is on it: log Pr(1|h,r,t) is
log ε, and its derivative is 0. So is a negative with 1 − σ(D) below ε. Steps that are too large drive all scores there.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.errors import DoxaError
from doxa.pbe import PBE

EVERY = 25
"""Steps from one look at the scores to the next."""

LOOKS = 2
"""Looks that show the floor, one after the other, before a run is stopped."""

SHARE = 0.9
"""Share of the truths, or of the negatives, of a batch that are on the floor when training has come to its end."""


class Diverged(DoxaError):
    """A run whose steps were too large for it to learn."""


class FloorWatch:
    """Looks at the scores of a batch now and then, and stops a run whose estimates are on their floor."""

    def __init__(self, pbe: PBE, settings: Settings) -> None:
        self.pbe, self.settings = pbe, settings
        self.active = settings.training_estimator == "negative" and settings.epsilon > 0
        self.looks = 0

    def observe(self, number: int, batch: Batch) -> None:
        """Look at the batch of a step, or at a part of it, if a look is due."""
        if not self.active or (number + 1) % EVERY:
            return
        self.looks = self.looks + 1 if max(self.shares(batch)) > SHARE else 0
        if self.looks >= LOOKS:
            raise self._error()

    @torch.no_grad()
    def shares(self, batch: Batch) -> tuple[float, float]:
        """The share of truths on the floor, and that of negatives: the beliefs with the tail of the next one."""
        depth = -math.log(self.settings.epsilon)
        accepted = self.pbe.logit(batch)
        refused = self.pbe.logit(replace(batch, tail=batch.tail.roll(1)))
        return float((accepted < -depth).double().mean()), float((refused > depth).double().mean())

    def _error(self) -> Diverged:
        settings = self.settings
        return Diverged(
            f"training has come to lie on the floor epsilon={settings.epsilon:g} of its estimates, where derivatives "
            "are 0: nothing more is learned. Steps that are too large drive all scores out of the range of the "
            "logistic function",
            f"try a smaller learning rate (learning_rate={settings.learning_rate / 10:g}), a smaller batch "
            f"(batch_size={max(1, settings.batch_size // 8)}), or optimizer=adagrad with system pbe",
        )
