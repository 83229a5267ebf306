"""Single layer: a small network of each relation reads head and tail.

    D(h, r, t) = u_rᵀ tanh(W_rh h + W_rt t + b_r)            (single layer model; Socher et al., 2013)

Head and tail meet only inside tanh. Candidates are mapped once per distinct relation of the questions; the hidden layer
of all questions by all candidates is made in blocks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.scores.maps import blocks, by_relation, mapped, plain
from doxa.scores.score import Score, rows, table
from doxa.settings import Settings


class SingleLayer(Score):
    """D(h, r, t) = u_rᵀ tanh(W_rh h + W_rt t + b_r), the layer `hidden` wide."""

    formula = "u_rᵀ tanh(W_rh h + W_rt t + b_r)"
    relation_tables: tuple[str, ...] = ("head_map", "tail_map", "bias", "output")
    default_scale = 1.0
    default_hidden = 50

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator) -> None:
        super().__init__(entities, relations, settings, generator)
        width, hidden = settings.dimension, settings.hidden or self.default_hidden
        self.hidden = hidden
        self.head_map = table(relations, hidden * width, generator, spread=width**-0.5)
        self.tail_map = table(relations, hidden * width, generator, spread=width**-0.5)
        self.bias = table(relations, hidden, generator, spread=0.1)
        self.output = table(relations, hidden, generator)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        layer = self._known(self.entity(head), relation, self.head_map)
        layer = layer + mapped(self.entity(tail), relation, self.tail_map)
        output: Tensor = self.output(relation)
        return (layer.tanh() * output).sum(-1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        known = self._known(self.entity(head), relation, self.head_map)
        return self._every(known, relation, self.tail_map, rows(self.entity, candidates))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        known = self._known(self.entity(tail), relation, self.tail_map)
        return self._every(known, relation, self.head_map, rows(self.entity, candidates))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        heads, tails = (rows(maps, candidates).view(-1, self.dimension) for maps in (self.head_map, self.tail_map))
        bias, output = rows(self.bias, candidates), rows(self.output, candidates)
        parts = []
        for some in blocks(len(h), len(heads)):
            layer = (h[some] @ heads.T + t[some] @ tails.T).view(-1, *bias.shape) + bias
            parts.append((layer.tanh() * output).sum(-1))
        return torch.cat(parts)

    def _known(self, vectors: Tensor, relation: Tensor, maps: nn.Embedding) -> Tensor:
        """What the layer receives from the entity that is given, (B, hidden)."""
        given: Tensor = mapped(vectors, relation, maps) + self.bias(relation)
        return given

    def _every(self, known: Tensor, relation: Tensor, maps: nn.Embedding, others: Tensor) -> Tensor:
        def of_relation(own: Tensor, r: Tensor) -> Tensor:
            seen = plain(self.dimension)(maps(r))[0] @ others.T
            parts = [read(known[own[some]][:, :, None] + seen, self.output(relation[own[some]]))
                     for some in blocks(len(own), seen.numel())]  # fmt: skip
            return torch.cat(parts)

        return by_relation(relation, of_relation)


def read(layer: Tensor, output: Tensor) -> Tensor:
    """uᵀ tanh(layer), (B, hidden, C), (B, hidden) → (B, C)."""
    return torch.bmm(output[:, None, :], layer.tanh()).squeeze(1)
