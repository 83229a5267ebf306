"""Refitting: steps of the model's training objective that move only selected rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.estimators import Candidates
from doxa.pbe import PBE
from doxa.scores import Mention
from doxa.slots import Slot
from doxa.training.candidates import candidate_pool
from doxa.training.gather import SparseStep
from doxa.training.optimizers import RowAdagrad, constraints
from doxa.training.weights import term_weighting

CANDIDATES = 256
"""Candidates of a step where the settings choose their number automatically."""


@dataclass(frozen=True, eq=False)
class MovableRows:
    """Which rows may move: a mask for each table, by the name of the table."""

    masks: dict[str, Tensor]

    @classmethod
    def of(
        cls, pbe: PBE, entities: int | Ids, relations: int | Ids | None = None, words: int | None = None
    ) -> MovableRows:
        """The rows with these ids, or from one id on; no rows for None."""
        masks = {f"score.{name}.weight": _mask(pbe.entities, entities) for name in pbe.score.entity_tables}
        masks |= {f"score.{name}.weight": _mask(pbe.relations, relations) for name in pbe.score.relation_tables}
        if isinstance(pbe.mention, Mention):
            masks["mention.word.weight"] = _mask(pbe.mention.word.num_embeddings, words)
            if pbe.mention.relation is not None:
                masks["mention.relation.weight"] = _mask(pbe.relations, relations)
        return cls(masks)

    def drop_other_gradients(self, pbe: PBE) -> None:
        """Remove the gradients of all rows that must not move."""
        for name, parameter in pbe.named_parameters():
            mask = self.masks.get(name)
            if parameter.grad is None or mask is None or not mask.any():
                parameter.grad = None
            elif parameter.grad.is_sparse:
                gradient = parameter.grad.coalesce()
                rows = gradient.indices()[0]
                kept = mask[rows]
                parameter.grad = torch.sparse_coo_tensor(
                    rows[kept][None], gradient.values()[kept], gradient.shape, check_invariants=False, is_coalesced=True
                )
            else:
                parameter.grad[~mask] = 0.0


def _mask(count: int, rows: int | Ids | None) -> Tensor:
    mask = torch.zeros(count, dtype=torch.bool)
    if isinstance(rows, np.ndarray):
        mask[torch.from_numpy(rows)] = True
    elif rows is not None:
        mask[rows:] = True
    return mask


class Refit:
    """Gradient steps on the model's training objective that move only some rows."""

    def __init__(self, pbe: PBE, settings: Settings, movable: MovableRows, facts: TripleIndex) -> None:
        self.pbe, self.movable = pbe, movable
        self.objective = SparseStep(pbe, settings, term_weighting(settings, lambda: facts))
        self.optimizer = RowAdagrad(pbe, constraints(pbe, settings.entity_norm))
        pool = candidate_pool(pbe, settings)  # empty for a term without a weight
        heads, relations, tails = (pbe.seen[slot] if len(pool.of(slot)) else pool.of(slot) for slot in Slot)
        self.candidates = Candidates(heads, relations, tails)
        self.num_candidates = settings.num_candidates or CANDIDATES

    def step(self, beliefs: Beliefs, rows: Ids, rate: float, random: np.random.Generator) -> None:
        """One step on these rows of the beliefs against newly sampled candidates.

        Gradients that were there before the step are added to its own.
        """
        heads, tails = self._sample(self.candidates.heads, random), self._sample(self.candidates.tails, random)
        sampled = Candidates(heads, self._sample(self.candidates.relations, random), tails)
        loss = self.objective.loss(Batch.of(beliefs, rows), sampled)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        self.movable.drop_other_gradients(self.pbe)
        self.optimizer.step(rate)

    def _sample(self, ids: Tensor, random: np.random.Generator) -> Tensor:
        """About `num_candidates` distinct ids, sorted: drawn with replacement, which is fast."""
        if len(ids) <= self.num_candidates:
            return ids
        return ids[torch.from_numpy(np.unique(random.integers(0, len(ids), self.num_candidates)))]
