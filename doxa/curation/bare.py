"""Beliefs of which only the ids are known, and models in double precision to search them with."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.data.beliefs import Beliefs, no_confidence
from doxa.data.mentions import Ragged
from doxa.data.vocabulary import Vocabularies
from doxa.pbe import PBE


def bare(names: Vocabularies, triples: NDArray[np.int64]) -> Beliefs:
    """Triples as beliefs without mention or confidence."""
    columns = (np.ascontiguousarray(triples[:, column]) for column in range(3))
    head, relation, tail = columns
    return Beliefs(names, head, relation, tail, Ragged.empty(len(triples)), no_confidence(len(triples)))


def precise(pbe: PBE) -> PBE:
    """The same model in double precision: sums come out alike in whatever blocks they are made."""
    return pbe if pbe.score.entity.weight.dtype == torch.float64 else copy.deepcopy(pbe).double()
