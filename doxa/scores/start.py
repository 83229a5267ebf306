"""Start of training: random entity vectors, optionally smoothed over the graph.

A step of the lazy random walk replaces every vector by the mean of itself and the mean of its neighbors,

    x ← ½ x + ½ · mean of x over the entities that share a belief with it

After k steps the product of two vectors estimates how likely walks of k steps from the two entities are to meet.
Entities near each other on the graph then start near each other, which training finds only slowly on sparse graphs.
"""

from __future__ import annotations

import numpy as np
import torch

from doxa.data.triples import TripleIndex
from doxa.scores.base import Score


@torch.no_grad()
def smooth_over_graph(score: Score, facts: TripleIndex, steps: int) -> None:
    """Average the entity vectors over graph neighbors `steps` times, keeping their lengths; make relations neutral."""
    from scipy.sparse import coo_array, diags_array  # here, because it takes long to import

    score.make_neutral()
    head, tail = facts.triples[:, 0], facts.triples[:, 2]
    ends = np.concatenate([head, tail]), np.concatenate([tail, head])
    links = coo_array((np.ones(2 * len(head), np.float32), ends), shape=(facts.entities, facts.entities)).tocsr()
    links.data[:] = 1.0
    walk = diags_array(1 / np.maximum(links.sum(axis=1), 1).astype(np.float32)) @ links
    for name in score.entity_tables:
        table = score.get_parameter(f"{name}.weight")
        vectors = table.numpy().copy()
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        for _ in range(steps):
            vectors = (vectors + walk @ vectors) / 2
        vectors *= lengths / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
        table.copy_(torch.from_numpy(vectors))
