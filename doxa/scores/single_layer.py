"""Single layer: a small network of each relation reads head and tail.

    D(h, r, t) = u_rᵀ tanh(W_rh h + W_rt t + b_r)            (single layer model; Socher et al., 2013)

Head and tail meet only inside tanh. Candidates are mapped once per distinct relation of the questions; the hidden layer
of all questions by all candidates is made in blocks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from doxa.config import Settings
from doxa.scores.base import Score, rows, table
from doxa.scores.matrices import by_relation, mapped, plain, tiled


class SingleLayer(Score):
    """D(h, r, t) = u_rᵀ tanh(W_rh h + W_rt t + b_r), the layer `hidden` wide."""

    formula = "u_rᵀ tanh(W_rh h + W_rt t + b_r)"
    relation_tables: tuple[str, ...] = ("head_map", "tail_map", "bias", "output")
    default_scale = 1.0
    default_hidden = 50

    def __init__(self, entities: int, relations: int, settings: Settings, generator: torch.Generator | None) -> None:
        super().__init__(entities, relations, settings, generator)
        width, hidden = settings.dimension, settings.hidden or self.default_hidden
        self.hidden = hidden
        self.head_map = table(relations, hidden * width, generator, spread=width**-0.5)
        self.tail_map = table(relations, hidden * width, generator, spread=width**-0.5)
        self.bias = table(relations, hidden, generator, spread=0.1)
        self.output = table(relations, hidden, generator)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        layer, output = self._layer(self.entity(head), relation, self.entity(tail)), self.output(relation)
        return read(layer[:, :, None], output).squeeze(1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        given = self._given(self.entity(head), relation, self.head_map)
        return self._every(given, relation, self.tail_map, rows(self.entity, candidates))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        given = self._given(self.entity(tail), relation, self.tail_map)
        return self._every(given, relation, self.head_map, rows(self.entity, candidates))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None = None) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        tables = {name: rows(self.get_submodule(name), candidates) for name in self.relation_tables}  # type: ignore[arg-type]

        def of(some: slice, these: slice) -> Tensor:
            chosen = {name: table[these] for name, table in tables.items()}
            layer = self._layers(h[some], t[some], chosen)
            return (layer.tanh() * chosen["output"]).sum(-1)

        return tiled(len(h), len(tables["output"]), self.hidden, of)

    def _layer(self, h: Tensor, relation: Tensor, t: Tensor) -> Tensor:
        """What the layer receives, each triple with its own relation, (B, hidden)."""
        return self._given(h, relation, self.head_map) + mapped(t, relation, self.tail_map)

    def _layers(self, h: Tensor, t: Tensor, of: dict[str, Tensor]) -> Tensor:
        """What the layer receives, each pair with every one of C relations, (B, C, hidden)."""
        heads, tails = (of[name].view(-1, self.dimension) for name in ("head_map", "tail_map"))
        return (h @ heads.T + t @ tails.T).view(len(h), *of["bias"].shape) + of["bias"]

    def _given(self, vectors: Tensor, relation: Tensor, maps: nn.Embedding) -> Tensor:
        """What the layer receives from the entity that is given, (B, hidden)."""
        received: Tensor = mapped(vectors, relation, maps) + self.bias(relation)
        return received

    def _every(self, given: Tensor, relation: Tensor, maps: nn.Embedding, others: Tensor) -> Tensor:
        def of_relation(matrix: Tensor, own: Tensor, output: Tensor) -> Tensor:
            def of(some: slice, these: slice) -> Tensor:
                return read(own[some][:, :, None] + matrix @ others[these].T, output[some])

            return tiled(len(own), len(others), self.hidden, of)

        return by_relation(relation, maps, plain(self.dimension), of_relation, given, self.output(relation))


def read(layer: Tensor, output: Tensor) -> Tensor:
    """uᵀ tanh(layer), (B, hidden, C), (B, hidden) → (B, C)."""
    return torch.bmm(output[:, None, :], layer.tanh()).squeeze(1)
