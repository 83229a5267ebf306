"""Neural tensor: the single layer with a bilinear form for each of its units.

    D(h, r, t) = u_rᵀ tanh(hᵀ W_r^[1…k] t + W_rh h + W_rt t + b_r)            (NTN; Socher et al., 2013)

For a question with head h the layer is linear in the tail: (hᵀ W_r^[i] + W_rt,i) · t + constants, one matrix product
for all candidates. Asking for a head is the same with the slices turned.
"""

from __future__ import annotations

import torch
from torch import Tensor

from doxa.scores.maps import blocks, mapped, outer, turned
from doxa.scores.score import rows, table
from doxa.scores.single_layer import SingleLayer, read
from doxa.settings import Settings


class NeuralTensor(SingleLayer):
    """D(h, r, t) = u_rᵀ tanh(hᵀ W_r^[1…k] t + W_rh h + W_rt t + b_r) with k = `hidden` slices."""

    formula = "u_rᵀ tanh(hᵀ W_r^[1…k] t + W_rh h + W_rt t + b_r)"
    relation_tables = (*SingleLayer.relation_tables, "slices")
    default_hidden = 4

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator) -> None:
        super().__init__(entities, relations, settings, generator)
        width = settings.dimension
        self.slices = table(relations, self.hidden * width * width, generator, spread=width**-0.5)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        met: Tensor = mapped(t, relation, self.slices).view(len(t), self.hidden, self.dimension) @ h[:, :, None]
        layer = met.squeeze(2) + self._known(h, relation, self.head_map) + mapped(t, relation, self.tail_map)
        output: Tensor = self.output(relation)
        return (layer.tanh() * output).sum(-1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        h = self.entity(head)
        towards = mapped(h, relation, self.slices, turned(self.dimension)) + self.tail_map(relation)
        return self._met(towards, self._known(h, relation, self.head_map), relation, candidates)

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        t = self.entity(tail)
        towards = mapped(t, relation, self.slices) + self.head_map(relation)
        return self._met(towards, self._known(t, relation, self.tail_map), relation, candidates)

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        heads, tails = (rows(maps, candidates).view(-1, self.dimension) for maps in (self.head_map, self.tail_map))
        slices = rows(self.slices, candidates).view(-1, self.dimension**2)
        bias, output = rows(self.bias, candidates), rows(self.output, candidates)
        parts = []
        for some in blocks(len(h), len(heads) + self.dimension**2):
            layer = h[some] @ heads.T + t[some] @ tails.T + outer(h[some], t[some]) @ slices.T
            parts.append(((layer.view(-1, *bias.shape) + bias).tanh() * output).sum(-1))
        return torch.cat(parts)

    def _met(self, towards: Tensor, known: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        """The layer of every question with every candidate, read out, (B, C); `towards` is (B, k · d)."""
        others, output = rows(self.entity, candidates), self.output(relation)
        parts = []
        for some in blocks(len(known), known.shape[1] * len(others)):
            layer = (towards[some].view(-1, self.dimension) @ others.T).view(*known[some].shape, len(others))
            parts.append(read(layer + known[some][:, :, None], output[some]))
        return torch.cat(parts)
