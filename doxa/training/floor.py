"""The floor of negative sampling: a run that has come to lie on it learns nothing more, and is stopped.

The estimates of Eqs 13–18 have floors inside the logarithm: ε for D, η for F. A truth with σ(D) below ε is on it:
log Pr(1|h,r,t) is log ε, and its derivative is 0. So is a negative with 1 − σ(D) below ε. Steps that are too large
drive all scores there. A word takes the sum of the gradients of all beliefs whose mentions have it, so F comes to its
floor first.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.errors import DoxaError
from doxa.pbe import PBE
from doxa.scores import Mention

EVERY = 25
"""Steps from one look at the scores to the next; each epoch ends with a look, too."""

LOOKS = 2
"""Looks that show the floor, one after the other, before a run is stopped."""

SHARE = 0.5
"""Share of the truths, or of the negatives, of a batch that are on the floor when training has come to its end.

A run that learns has next to none there: at the floors of pbe-paper they would be 46 from the threshold of σ.
"""


class Diverged(DoxaError):
    """A run whose steps were too large for it to learn."""


class FloorWatch:
    """Looks at the scores of a batch now and then, and stops a run whose estimates are on their floor."""

    def __init__(self, pbe: PBE, settings: Settings, per_epoch: int) -> None:
        self.pbe, self.settings, self.per_epoch = pbe, settings, per_epoch
        negative = settings.training_estimator == "negative"
        self._entities = negative and settings.epsilon > 0
        self._words = negative and settings.eta > 0 and settings.mention_weight > 0 and isinstance(pbe.mention, Mention)
        self.looks = 0

    @property
    def active(self) -> bool:
        return self._entities or self._words

    def observe(self, number: int, batch: Batch) -> None:
        """Look at the batch of a step, or at a part of it, if a look is due."""
        if not self.active or ((number + 1) % EVERY and (number + 1) % self.per_epoch):
            return
        on_floor = [name for name, share in self.shares(batch).items() if share > SHARE]
        self.looks = self.looks + 1 if on_floor else 0
        if self.looks >= LOOKS:
            raise self._error(on_floor[0])

    @torch.no_grad()
    def shares(self, batch: Batch) -> dict[str, float]:
        """By the name of a floor, the share of truths on it or that of negatives, whichever is larger.

        Negatives are the beliefs with the tail, or the relation, of the next one.
        """
        shares = {}
        if self._entities:
            refused = self.pbe.logit(replace(batch, tail=batch.tail.roll(1)))[batch.tail != batch.tail.roll(1)]
            shares["epsilon"] = _share(self.pbe.logit(batch), refused, self.settings.epsilon)
        if self._words and len(batch.words):
            rows, relation = batch.mentioned.nonzero().squeeze(1), batch.relation
            table = self.pbe.mention_logits(batch)[rows]
            accepted, refused = (table.gather(1, ids[rows, None])[:, 0] for ids in (relation, relation.roll(1)))
            shares["eta"] = _share(accepted, refused[(relation != relation.roll(1))[rows]], self.settings.eta)
        return shares

    def _error(self, floor: str) -> Diverged:
        settings = self.settings
        return Diverged(
            f"training has come to lie on the floor {floor}={getattr(settings, floor):g} of its estimates, where "
            "derivatives are 0: nothing more is learned. Steps that are too large drive all scores out of the range of "
            "the logistic function",
            f"try a smaller learning rate (learning_rate={settings.learning_rate / 10:g}), a smaller batch "
            f"(batch_size={max(1, settings.batch_size // 8)}), or optimizer=adagrad with system pbe",
        )


def _share(accepted: Tensor, refused: Tensor, floor: float) -> float:
    """The share of accepted logits below the floor, or of refused ones above its mirror image."""
    depth = -math.log(floor)
    shares = [float((side > depth).double().mean()) for side in (-accepted, refused) if len(side)]
    return max(shares, default=0.0)
