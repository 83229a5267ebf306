"""Ranks of blocks of beliefs, which can be computed anywhere that the model can be read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import Answered, CandidateRule, Ranker, ranks
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS


@dataclass(frozen=True, eq=False)
class RankOptions:
    """How entities are ranked. `joining` are the facts that join those of the model in the filter, None for none."""

    candidates: CandidateRule
    joining: NDArray[np.int64] | None
    memory: int


def ranked_rows(model: Model, beliefs: Beliefs, options: RankOptions) -> pl.DataFrame:
    """Raw and filtered rank of the head and of the tail of each belief."""
    known = _filter(model, options)
    ranker: Ranker = Answered(model.pbe) if options.candidates == "answered" else model.pbe
    columns = {}
    for slot in ENTITY_SLOTS:
        pool = model.trained_facts.seen(slot) if options.candidates == "relation" else None
        result = ranks(ranker, slot, beliefs, known, pool, memory=options.memory)
        columns |= {f"raw_{slot}": result.raw, f"filtered_{slot}": result.filtered}
    return pl.DataFrame(columns)


@lru_cache(maxsize=1)
def _filter(model: Model, options: RankOptions) -> TripleIndex:
    """The facts that are left out of a ranking; made once for all blocks of a process."""
    return model.trained_facts if options.joining is None else model.known.union(options.joining)
