"""Gradients of the softmax likelihood of a part of a batch, without autograd: value and gradient together.

Each term adds to the gradients of the vectors of heads, relations and tails: its table of scores becomes the table of
their derivatives, and the score's file says how the gradient of the points it compares returns to h, r and t. Dozens of
small operations fall away, and with them the time in which a thread keeps others from running.
"""

from __future__ import annotations

import torch
from torch import Tensor

from doxa.config import Settings
from doxa.estimators import Term, Vectors
from doxa.scores import gradient_kernels
from doxa.scores.base import Triple, VectorScore
from doxa.scores.pairwise import SMALLEST, PairScores, Products
from doxa.slots import Slot


class GradientSums:
    """The gradients of the vectors of a part, summed over the terms of its loss."""

    def __init__(self, score: VectorScore, scale: float, vectors: Vectors) -> None:
        self.score, self.scale, self.vectors = score, scale, vectors
        self.triple = Triple(*vectors.triple)
        self.sums = Triple(*self.triple[0].new_zeros(3, *self.triple[0].shape))
        self.candidates: dict[Slot, Tensor] = {}
        self._by_truth = self.triple[0].new_zeros(len(self.triple[0]))
        self._tails: PairScores | None = None
        self._of_tail_points: Tensor | None = None

    def add(self, term: Term, weights: Tensor) -> float:
        """The loss − Σ weight · log p of a term; its gradients are added."""
        assert isinstance(term.scores, PairScores)
        slot = Slot[term.name.upper()]
        pulled = term.scores.log_loss(term.truth, term.true, weights, self._by_truth)
        self.candidates[slot] = pulled.candidates
        if slot is Slot.TAIL:  # the truth's score adds to this gradient
            self._tails, self._of_tail_points = term.scores, pulled.points
        else:
            self.score.pull(slot, self.triple, pulled.points, self.sums)
        if pulled.half_squares is not None:
            self.score.pull_squares(slot, self.triple, pulled.half_squares, self.sums)
        return pulled.loss

    def finish(self, settings: Settings) -> tuple[float, list[Tensor | None]]:
        """The regularization, and the gradients of all vectors in the order of `Vectors`."""
        self._pull_truth()
        score, (head, relation, tail) = self.score, self.sums
        relation = score.pull_relations(self.triple.relation, relation)
        if Slot.RELATION in self.candidates:
            of_relations = score.pull_relations(self.vectors.relations, self.candidates[Slot.RELATION])
            self.candidates[Slot.RELATION] = of_relations
        loss = 0.0
        for rows, gradient in zip(self.triple, (head, relation, tail), strict=True):
            if settings.n3:
                loss += settings.n3 / 3 * score.add_cubes(rows, settings.n3 / 3, gradient)
            if settings.l2:
                loss += settings.l2 * float((rows * rows).sum())
                gradient.add_(rows, alpha=2 * settings.l2)
        return loss, [head, relation, tail, *(self.candidates.get(slot) for slot in Slot)]

    def _pull_truth(self) -> None:
        """The gradient of D(h, r, t), the score of the truth, through the points of the tails."""
        pairs = self._tails or self.score.pairs(Slot.TAIL, *self.triple, self.vectors.tails[:0])
        assert isinstance(pairs, PairScores)
        points, of_points = pairs.points, self._of_tail_points
        if of_points is None:
            of_points = torch.zeros_like(points)
        factors = self._by_truth.mul_(self.scale)
        arrays = [each.numpy() for each in (points, self.triple.tail, of_points, self.sums.tail)]
        if isinstance(pairs, Products):
            gradient_kernels.add_derivatives_of_products(factors.numpy(), *arrays)
        else:
            gradient_kernels.add_derivatives_of_distances(
                factors.neg_().numpy(), *arrays, arrays[0].dtype.type(SMALLEST)
            )
        self.score.pull(Slot.TAIL, self.triple, of_points, self.sums)
