"""Gradients of the softmax likelihood of a part of a batch, without autograd: value and gradient together.

Each term adds to the gradients of the vectors of heads, relations and tails: its table of scores becomes the table of
their derivatives, and the score's file says how the gradient of the points it compares returns to h, r and t. Dozens of
small operations fall away, and with them the time in which a thread keeps others from running.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor, zeros_like

from doxa.config import Settings
from doxa.estimators import Vectors
from doxa.scores.base import Triple, VectorScore
from doxa.scores.kernels import Floats
from doxa.scores.pairwise import PairScores, Places
from doxa.slots import Slot


class GradientSums:
    """The gradients of the vectors of a part, summed over the terms of its loss.

    They are written into `gradients`, whatever it held before.
    """

    def __init__(self, score: VectorScore, scale: float, vectors: Vectors, gradients: Vectors) -> None:
        self.score, self.scale, self.vectors, self.gradients = score, scale, vectors, gradients
        self.triple, self.sums = Triple(*vectors.triple), Triple(*(each.zero_() for each in gradients.triple))
        self._tails = self._pairs(Slot.TAIL)
        self._truth = self._tails.scaled(scale).each(self.triple.tail)
        self._by_truth = np.zeros_like(self._truth)
        self._of_tail_points: Tensor | None = None

    def add(self, slot: Slot, weights: Floats, true: Places, log_share: float) -> float:
        """The loss − Σ weight · log p of the term of this slot; its gradients are added."""
        pairs = self._tails if slot is Slot.TAIL else self._pairs(slot)
        scores = pairs.scaled(self.scale, log_share)
        pulled = scores.log_loss(self._truth, true, weights, self._by_truth, self.gradients.candidates(slot))
        if slot is Slot.TAIL:  # the truth's score adds to this gradient
            self._of_tail_points = pulled.points
        else:
            self.score.pull(slot, self.triple, pulled.points, self.sums)
        if pulled.half_squares is not None:
            self.score.pull_squares(slot, self.triple, pulled.half_squares, self.sums)
        return pulled.loss

    def finish(self, settings: Settings) -> float:
        """The regularization; its gradients and those of the truth's score are added."""
        self._pull_truth()
        self.score.pull_relations(self.triple.relation, self.sums.relation)
        self.score.pull_relations(self.vectors.relations, self.gradients.relations)
        loss = 0.0
        for rows, gradient in zip(self.triple, self.sums, strict=True):
            if settings.n3:
                loss += settings.n3 / 3 * self.score.add_cubes(rows, settings.n3 / 3, gradient)
            if settings.l2:
                loss += settings.l2 * float((rows * rows).sum())
                gradient.add_(rows, alpha=2 * settings.l2)
        return loss

    def _pull_truth(self) -> None:
        """The gradient of D(h, r, t), the score of the truth, through the points of the tails."""
        of_points = zeros_like(self._tails.points) if self._of_tail_points is None else self._of_tail_points
        factors = self._by_truth * self._by_truth.dtype.type(self.scale * self._tails.slope)
        self._tails.pull_each(factors, self.triple.tail, of_points, self.sums.tail)
        self.score.pull(Slot.TAIL, self.triple, of_points, self.sums)

    def _pairs(self, slot: Slot) -> PairScores:
        pairs = self.score.pairs(slot, *self.triple, self.vectors.candidates(slot))
        assert isinstance(pairs, PairScores)
        return pairs
