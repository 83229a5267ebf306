"""Neural tensor: the single layer with a bilinear form for each of its units.

    D(h, r, t) = u_rᵀ tanh(hᵀ W_r^[1…k] t + W_rh h + W_rt t + b_r)            (NTN; Socher et al., 2013)

For a question with head h the layer is linear in the tail: (hᵀ W_r^[i] + W_rt,i) · t + constants, one matrix product
for all candidates. Asking for a head is the same with the slices turned.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.config import Settings
from doxa.scores.base import rows, table
from doxa.scores.matrices import identity, mapped, outer, tiled, turned
from doxa.scores.single_layer import SingleLayer, read


class NeuralTensor(SingleLayer):
    """D(h, r, t) = u_rᵀ tanh(hᵀ W_r^[1…k] t + W_rh h + W_rt t + b_r) with k = `hidden` slices."""

    formula = "u_rᵀ tanh(hᵀ W_r^[1…k] t + W_rh h + W_rt t + b_r)"
    relation_tables = (*SingleLayer.relation_tables, "slices")
    default_hidden = 4

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator | None) -> None:
        super().__init__(entities, relations, settings, generator)
        width = settings.dimension
        self.slices = table(relations, self.hidden * width * width, generator, spread=width**-0.5)

    def make_neutral(self) -> None:
        identity(self.slices, self.dimension)
        for maps in (self.head_map, self.tail_map):
            nn.init.zeros_(maps.weight)
        nn.init.constant_(self.output.weight, 1 / self.hidden)  # units still differ by their biases

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        h = self.entity(head)
        towards = mapped(h, relation, self.slices, turned(self.dimension)) + self.tail_map(relation)
        return self._met(towards, self._given(h, relation, self.head_map), relation, candidates)

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        t = self.entity(tail)
        towards = mapped(t, relation, self.slices) + self.head_map(relation)
        return self._met(towards, self._given(t, relation, self.tail_map), relation, candidates)

    def _layer(self, h: Tensor, relation: Tensor, t: Tensor) -> Tensor:
        met: Tensor = mapped(t, relation, self.slices).view(len(t), self.hidden, self.dimension) @ h[:, :, None]
        return super()._layer(h, relation, t) + met.squeeze(2)

    def _layers(self, h: Tensor, t: Tensor, of: dict[str, Tensor]) -> Tensor:
        met = outer(h, t) @ of["slices"].view(-1, self.dimension**2).T
        return super()._layers(h, t, of) + met.view(len(h), *of["bias"].shape)

    def _met(self, towards: Tensor, given: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        """The layer of every question with every candidate, read out, (B, C); `towards` is (B, k · d)."""
        others, output = rows(self.entity, candidates), self.output(relation)

        def of(some: slice, these: slice) -> Tensor:
            own, received = others[these], given[some]
            layer = (towards[some].view(-1, self.dimension) @ own.T).view(*received.shape, len(own))
            return read(layer + received[:, :, None], output[some])

        return tiled(len(given), len(others), self.hidden, of)
