"""Ranks of blocks of beliefs, which can be computed anywhere that the model can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import Answered, CandidateRule, Ranker, ranks
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS


@dataclass(eq=False)
class RankOptions:
    """How entities are ranked. `joining` are the facts that join those of the model in the filter, None for none.

    `known` are the facts of the filter; elsewhere they are made once for all blocks of a process.
    """

    candidates: CandidateRule
    joining: NDArray[np.int64] | None
    memory: int
    known: TripleIndex | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"known": None}

    def filter(self, model: Model) -> TripleIndex:
        """The facts that are left out of a ranking."""
        if self.known is None:
            self.known = model.trained_facts if self.joining is None else model.known.union(self.joining)
        return self.known


def ranked_rows(model: Model, beliefs: Beliefs, options: RankOptions) -> pl.DataFrame:
    """Raw and filtered rank of the head and of the tail of each belief."""
    known = options.filter(model)
    ranker: Ranker = Answered(model.pbe) if options.candidates == "answered" else model.pbe
    columns: dict[str, NDArray[np.float64]] = {}
    for slot in ENTITY_SLOTS:
        pool = model.trained_facts.seen(slot) if options.candidates == "relation" else None
        result = ranks(ranker, slot, beliefs, known, pool, memory=options.memory)
        columns |= {f"raw_{slot}": result.raw, f"filtered_{slot}": result.filtered}
    return pl.DataFrame(columns)
