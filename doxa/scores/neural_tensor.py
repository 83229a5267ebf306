"""Neural tensor: the single layer with a bilinear form for each of its units.

    D(h, r, t) = u_rᵀ tanh(hᵀ W_r^[1…k] t + W_rh h + W_rt t + b_r)            (NTN; Socher et al., 2013)

For a query with head h the layer is linear in the tail: (hᵀ W_r^[i] + W_rt,i) · t + constants, one matrix product for
all candidates. A query for a head is the same with transposed slices.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from doxa.config import setting
from doxa.scores.base import Sizes, embedding, rows
from doxa.scores.matrices import identity, mapped, outer, tiled, transposed
from doxa.scores.single_layer import SingleLayer, SingleLayerOptions, read_out


@dataclass(frozen=True)
class NeuralTensorOptions(SingleLayerOptions):
    """Options of the neural tensor score."""

    hidden: int = setting(4, "Number of tensor slices, each a bilinear form.", low=1)


class NeuralTensor(SingleLayer):
    """D(h, r, t) = u_rᵀ tanh(hᵀ W_r^[1…k] t + W_rh h + W_rt t + b_r) with k = `hidden` slices."""

    formula = "u_rᵀ tanh(hᵀ W_r^[1…k] t + W_rh h + W_rt t + b_r)"
    Options = NeuralTensorOptions
    relation_tables = (*SingleLayer.relation_tables, "slices")

    def __init__(self, sizes: Sizes, options: NeuralTensorOptions, generator: torch.Generator | None) -> None:
        super().__init__(sizes, options, generator)
        self.slices = embedding(sizes.relations, self.hidden * self.dimension**2, generator, self.dimension**-0.5)

    def make_neutral(self) -> None:
        identity(self.slices, self.dimension)
        for maps in (self.head_map, self.tail_map):
            nn.init.zeros_(maps.weight)
        nn.init.constant_(self.output.weight, 1 / self.hidden)  # units still differ by their biases

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        h = self.entity(head)
        directions = mapped(h, relation, self.slices, transposed(self.dimension)) + self.tail_map(relation)
        return self._linear(directions, self._inputs(h, relation, self.head_map), relation, candidates)

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        t = self.entity(tail)
        directions = mapped(t, relation, self.slices) + self.head_map(relation)
        return self._linear(directions, self._inputs(t, relation, self.tail_map), relation, candidates)

    def _layer(self, h: Tensor, relation: Tensor, t: Tensor) -> Tensor:
        forms: Tensor = mapped(t, relation, self.slices).view(len(t), self.hidden, self.dimension) @ h[:, :, None]
        return super()._layer(h, relation, t) + forms.squeeze(2)

    def _layers(self, h: Tensor, t: Tensor, weights: dict[str, Tensor]) -> Tensor:
        forms = outer(h, t) @ weights["slices"].view(-1, self.dimension**2).T
        return super()._layers(h, t, weights) + forms.view(len(h), *weights["bias"].shape)

    def _linear(self, directions: Tensor, inputs: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        """D of every query with every candidate, (B, C), from the directions, (B, k · d), that are linear in it."""
        vectors, output = rows(self.entity, candidates), self.output(relation)

        def tile(queries: slice, columns: slice) -> Tensor:
            others, received = vectors[columns], inputs[queries]
            layer = (directions[queries].view(-1, self.dimension) @ others.T).view(*received.shape, len(others))
            return read_out(layer + received[:, :, None], output[queries])

        return tiled(len(inputs), len(vectors), self.hidden, tile)
