"""Single layer: a small network per relation reads head and tail.

    D(h, r, t) = u_rᵀ tanh(W_rh h + W_rt t + b_r)            (single layer model; Socher et al., 2013)

Head and tail meet only inside tanh. Candidates are mapped once per distinct relation of the queries; the hidden layer
of all queries by all candidates is computed in tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from doxa.config import setting
from doxa.scores.base import Score, ScoreOptions, Sizes, embedding, rows
from doxa.scores.matrices import as_matrices, by_relation, mapped, tiled


@dataclass(frozen=True)
class SingleLayerOptions(ScoreOptions):
    """Options of the single-layer score."""

    hidden: int = setting(50, "Width of the hidden layer.", low=1)


class SingleLayer(Score):
    """D(h, r, t) = u_rᵀ tanh(W_rh h + W_rt t + b_r) with a hidden layer of `hidden` units."""

    formula = "u_rᵀ tanh(W_rh h + W_rt t + b_r)"
    Options: type[ScoreOptions] = SingleLayerOptions
    relation_tables: tuple[str, ...] = ("head_map", "tail_map", "bias", "output")
    default_scale = 1.0

    def __init__(self, sizes: Sizes, options: SingleLayerOptions, generator: torch.Generator | None) -> None:
        super().__init__(sizes, options, generator)
        self.hidden = options.hidden
        self.head_map = embedding(sizes.relations, self.hidden * self.dimension, generator, self.dimension**-0.5)
        self.tail_map = embedding(sizes.relations, self.hidden * self.dimension, generator, self.dimension**-0.5)
        self.bias = embedding(sizes.relations, self.hidden, generator, spread=0.1)
        self.output = embedding(sizes.relations, self.hidden, generator)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        layer, output = self._layer(self.entity(head), relation, self.entity(tail)), self.output(relation)
        return read_out(layer[:, :, None], output).squeeze(1)

    def tails(self, head: Tensor, relation: Tensor, candidates: Tensor | None) -> Tensor:
        inputs = self._inputs(self.entity(head), relation, self.head_map)
        return self._every(inputs, relation, self.tail_map, rows(self.entity, candidates))

    def heads(self, relation: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        inputs = self._inputs(self.entity(tail), relation, self.tail_map)
        return self._every(inputs, relation, self.head_map, rows(self.entity, candidates))

    def relations(self, head: Tensor, tail: Tensor, candidates: Tensor | None) -> Tensor:
        h, t = self.entity(head), self.entity(tail)
        tables = {name: rows(self.get_submodule(name), candidates) for name in self.relation_tables}  # type: ignore[arg-type]

        def tile(queries: slice, columns: slice) -> Tensor:
            weights = {name: table[columns] for name, table in tables.items()}
            layer = self._layers(h[queries], t[queries], weights)
            return (layer.tanh() * weights["output"]).sum(-1)

        return tiled(len(h), len(tables["output"]), self.hidden, tile)

    def _layer(self, h: Tensor, relation: Tensor, t: Tensor) -> Tensor:
        """Input of the hidden layer, each triple with its own relation, (B, hidden)."""
        return self._inputs(h, relation, self.head_map) + mapped(t, relation, self.tail_map)

    def _layers(self, h: Tensor, t: Tensor, weights: dict[str, Tensor]) -> Tensor:
        """Input of the hidden layer, each pair with every one of C relations, (B, C, hidden)."""
        heads, tails = (weights[name].view(-1, self.dimension) for name in ("head_map", "tail_map"))
        return (h @ heads.T + t @ tails.T).view(len(h), *weights["bias"].shape) + weights["bias"]

    def _inputs(self, vectors: Tensor, relation: Tensor, maps: nn.Embedding) -> Tensor:
        """Input of the hidden layer from the query's entity, (B, hidden)."""
        inputs: Tensor = mapped(vectors, relation, maps) + self.bias(relation)
        return inputs

    def _every(self, inputs: Tensor, relation: Tensor, maps: nn.Embedding, candidates: Tensor) -> Tensor:
        def of_relation(matrix: Tensor, received: Tensor, output: Tensor) -> Tensor:
            def tile(queries: slice, columns: slice) -> Tensor:
                return read_out(received[queries][:, :, None] + matrix @ candidates[columns].T, output[queries])

            return tiled(len(received), len(candidates), self.hidden, tile)

        return by_relation(relation, maps, as_matrices(self.dimension), of_relation, inputs, self.output(relation))


def read_out(layer: Tensor, output: Tensor) -> Tensor:
    """uᵀ tanh(layer), (B, hidden, C), (B, hidden) → (B, C)."""
    return torch.bmm(output[:, None, :], layer.tanh()).squeeze(1)
