"""Steps: shuffled batches with shared candidates, one gradient step each.

All randomness is a function of (seed, epoch) or (seed, step), so step n is the same in whatever process it runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.estimators import Candidates
from doxa.pbe import PBE
from doxa.training.candidates import candidate_pool, corrected_for_part, draw_candidates, draw_negatives
from doxa.training.floor import Diverged, FloorWatch
from doxa.training.gather import SparseStep
from doxa.training.optimizers import OPTIMIZERS, constrain, constraints
from doxa.training.parts import PartedBatch, PartedStep
from doxa.training.snapshots import MemorySnapshots, Snapshots
from doxa.training.threads import ALONE
from doxa.training.weights import term_weighting

DIVERGED = "lower_rate"
"""The remedy of a run whose loss became infinite: it would do so again."""


@dataclass(frozen=True, eq=False)
class Part:
    """That the steps are those of a part of a larger model: of the entities of one or two partitions.

    `stream` tells the random numbers of this part from those of others. `pool` are the sizes that the pools of
    candidates have in the whole model. `sums` is the state of the optimizer, moved in place. `facts` are the known
    facts of the whole, for settings that need any.
    """

    stream: tuple[int, ...]
    pool: tuple[int, int, int]
    sums: Mapping[str, Tensor]
    facts: TripleIndex | None = None


class Steps:
    """The gradient steps of a run, by number. `settings` must have their automatic values in place.

    `part` says that the model is a part of a larger one.
    """

    def __init__(self, pbe: PBE, beliefs: Beliefs, settings: Settings, part: Part | None = None) -> None:
        self.pbe, self.beliefs, self.settings, self.part = pbe, beliefs, settings, part
        self._stream = part.stream if part is not None else ()
        if part is None:
            constrain(pbe, settings.entity_norm)
        sums = part.sums if part is not None else None
        self.optimizer = OPTIMIZERS[settings.optimizer](pbe, constraints(pbe, settings.entity_norm), sums)
        weighting = term_weighting(settings, lambda: self._facts)
        self._sparse = SparseStep(pbe, settings, weighting)
        self.in_parts = pbe.score.by_vectors and settings.share_candidates
        self._parted = PartedStep(pbe, settings, weighting, self._facts if settings.filter_negatives else None)
        self._ahead: tuple[int, PartedBatch] | None = None
        self.threads = ALONE
        self._floor = FloorWatch(pbe, settings, self.per_epoch)
        self._scalars = [parameter for parameter in pbe.parameters() if parameter.ndim == 0]
        self._pool = candidate_pool(pbe, settings)
        self._order: tuple[int, Ids] | None = None

    @cached_property
    def _facts(self) -> TripleIndex:
        if self.part is not None and self.part.facts is not None:
            return self.part.facts
        return TripleIndex(self.beliefs.triples, self.pbe.entities, self.pbe.relations)

    @property
    def per_epoch(self) -> int:
        return math.ceil(len(self.beliefs) / self.settings.batch_size)

    def snapshots(self) -> Snapshots:
        """The weights of these steps, as a training loop keeps them."""
        return MemorySnapshots(self.pbe, self.optimizer)

    def take(self, number: int, fraction: float) -> float:
        """Train on batch `number` of the run when this fraction of the run is done; returns the batch's loss."""
        settings = self.settings
        if self.in_parts:
            parted = self._parted_batch(number)
            ahead = partial(self._make_ahead, number + 1) if self.threads.count > 1 else None
            value, self.optimizer.tables = self._parted.gradients(parted, self.threads, ahead)
            batch = parted.parts
        else:
            batch = [Batch.of(self.beliefs, self._rows(number))]
            value = self._differentiated(number, batch[0])
        check_loss(value, number, self.per_epoch, settings)
        self._floor.observe(number, batch[0])
        self._average_scalars(sum(map(len, batch)))
        self.optimizer.threads = self.threads
        self.optimizer.step(rate_at(settings, fraction))
        return value

    def _average_scalars(self, beliefs: int) -> None:
        """Divide the gradients of α and β by the number of estimates that they are sums over.

        A row is in a few estimates of a batch, a scalar in all of them: along their sum it would leave the range of
        the logistic function in a few steps.
        """
        estimates = beliefs * (1 + self.settings.negative_weight)
        for parameter in self._scalars:
            if parameter.grad is not None:
                parameter.grad /= estimates

    def _differentiated(self, number: int, batch: Batch) -> float:
        """The loss of a batch; autograd leaves the gradients in the parameters' `grad`."""
        loss = self._sparse.loss(batch, self._candidates(number, batch))
        if loss.requires_grad:  # not where mentions alone count, and the batch has none
            loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _parted_batch(self, number: int) -> PartedBatch:
        """The batch of a step in parts; it may have been made in the step before."""
        if self._ahead is None or self._ahead[0] != number:
            self._make_ahead(number)
        assert self._ahead is not None
        return self._ahead[1]

    def _make_ahead(self, number: int) -> None:
        self._ahead = (number, PartedBatch.of(self.beliefs, self._rows(number), self._drawn(number)))

    def warm_up(self, backward: bool = True) -> None:
        """Compile the loops, and take two steps that move nothing.

        The first parallel operations of a process may split their work among threads in another way than later ones,
        and so round differently; after two steps every run of a seed is the same.
        """
        rows = np.arange(min(self.settings.batch_size, len(self.beliefs)))
        batch = Batch.of(self.beliefs, rows)
        for _ in range(2):
            loss = self._sparse.loss(batch, self._candidates(0, batch))
            if backward and loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            if self.in_parts and (backward or not self._parted.needs_autograd):
                parted = PartedBatch.of(self.beliefs, rows, self._drawn(0))
                for gradient in self._parted.gradients(parted, ALONE)[1].values():
                    gradient.block(gradient.blocks[0])
            self.pbe.zero_grad()
        self.optimizer.warm_up()

    def _rows(self, number: int) -> Ids:
        epoch, place = divmod(number, self.per_epoch)
        if self._order is None or self._order[0] != epoch:
            order = np.random.default_rng([self.settings.seed, 1, epoch, *self._stream]).permutation(len(self.beliefs))
            self._order = (epoch, order)
        start = place * self.settings.batch_size
        return self._order[1][start : start + self.settings.batch_size]

    def _candidates(self, number: int, batch: Batch) -> Candidates:
        drawn = self._drawn(number, len(batch))
        return drawn.without_known(batch, self._facts) if self.settings.filter_negatives else drawn

    def _drawn(self, number: int, beliefs: int = 0) -> Candidates:
        """The candidates of a step; those drawn for each belief are for so many beliefs."""
        drawn = self._drawn_evenly(number, beliefs)
        if self.part is None or self.settings.training_estimator not in ("sampled", "exact"):
            return drawn
        return corrected_for_part(drawn, self._pool, self.part.pool, self.settings)

    def _drawn_evenly(self, number: int, beliefs: int) -> Candidates:
        if self.settings.training_estimator == "exact":
            return self._pool
        random = np.random.default_rng([self.settings.seed, 2, number, *self._stream])
        if not self.settings.share_candidates:
            return draw_negatives(self._pool, beliefs, self.settings.negative_weight, random)
        corrected = self.settings.sampling_correction and self.settings.training_estimator == "sampled"
        return draw_candidates(self._pool, self.settings.num_candidates, random, corrected)


def rate_at(settings: Settings, fraction: float) -> float:
    """The learning rate when this fraction of a run is done."""
    return settings.learning_rate * (1 - fraction if settings.schedule == "linear" else 1.0)


def check_loss(loss: float, number: int, per_epoch: int, settings: Settings) -> None:
    """Stop a run whose loss is not finite after step `number`."""
    if not math.isfinite(loss):
        raise Diverged(
            f"the loss became {loss} in step {number + 1} (epoch {number // per_epoch + 1})",
            f"try a smaller learning rate: learning_rate={settings.learning_rate / 10:g}",
            remedy=DIVERGED,
        )
