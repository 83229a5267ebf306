"""Confidence task: errors of the expected confidence, and rankings of tails by confidence (NDCG)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.calibration.thresholds import Numbers
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.evaluation.ranks import rank
from doxa.model import Model
from doxa.slots import Slot


@dataclass(frozen=True)
class ConfidenceReport:
    """Squared and absolute error of the expected confidence, and its rank correlation with the true one.

    `ndcg` measures the ranking of the tails of each (h, r) among all entities; the relevance of a tail is its
    confidence c, or 2^c − 1 in `ndcg_exponential`. Tails of train and valid count too (Chen et al., 2019).
    """

    mse: float
    mae: float
    spearman: float
    ndcg: float
    ndcg_exponential: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class ConfidenceErrors:
    """Squared and absolute error of predicted confidences."""

    mse: float
    mae: float

    @classmethod
    def of(cls, predicted: Numbers, confidence: Numbers) -> ConfidenceErrors:
        error = predicted - confidence
        return cls(mse=float((error**2).mean()), mae=float(np.abs(error).mean()))

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def confidence_of_mean(model: Model, beliefs: Beliefs) -> ConfidenceErrors | None:
    """The errors of always answering the mean confidence of the known facts; None where no fact carries any."""
    known = model.known_confidence[~np.isnan(model.known_confidence)]
    if not len(known):
        return None
    return ConfidenceErrors.of(np.full(len(beliefs), known.mean()), beliefs.confidence)


def confidence_report(model: Model, beliefs: Beliefs, memory: int = 0) -> ConfidenceReport:
    """The report on beliefs with confidence, in the ids of the model and with known names.

    If one of them carries confidence 0, they count as a mixture with negatives.
    """
    from scipy.stats import spearmanr

    expected = model.confidence(beliefs, memory, stated=bool((beliefs.confidence > 0).all()))
    errors = ConfidenceErrors.of(expected, beliefs.confidence)
    triples, relevance = with_known_tails(model, beliefs.where(beliefs.confidence > 0))
    varied = np.ptp(expected) > 0 and np.ptp(beliefs.confidence) > 0
    return ConfidenceReport(
        mse=errors.mse,
        mae=errors.mae,
        spearman=float(spearmanr(expected, beliefs.confidence).statistic) if varied else 0.0,
        ndcg=ndcg(model, triples, relevance, memory),
        ndcg_exponential=ndcg(model, triples, np.expm1(relevance * np.log(2)), memory),
    )


def with_known_tails(model: Model, beliefs: Beliefs) -> tuple[NDArray[np.int64], Numbers]:
    """Triples and their confidence: the beliefs, and the facts of train and valid with the same (h, r)."""
    triples, relevance = beliefs.triples, beliefs.confidence
    if not len(model.known_confidence):
        return triples, relevance
    known = np.concatenate([model.train, model.valid])
    added = np.isin(_query(model, known), _query(model, triples)) & ~np.isnan(model.known_confidence)
    added &= ~TripleIndex(triples, model.pbe.entities, model.pbe.relations).contains(*known.T)
    return np.concatenate([triples, known[added]]), np.concatenate([relevance, model.known_confidence[added]])


def _query(model: Model, triples: NDArray[np.int64]) -> Ids:
    """One number per (h, r)."""
    return triples[:, 0] * model.pbe.relations + triples[:, 1]


@torch.no_grad()
def ndcg(model: Model, triples: NDArray[np.int64], relevance: Numbers, memory: int = 0) -> float:
    """Σ relevance / log₂(1 + rank of the tail), divided by the same sum for the ideal order; the mean over all (h, r).

    Each tail has its rank among all entities; two tails of one query never share a rank.
    """
    if not len(triples):
        return 0.0
    query = _query(model, triples)
    order = np.lexsort((-relevance, query))
    query, relevance = query[order], relevance[order]
    ranks = np.zeros(len(order))
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    for block in model.pbe.blocks(len(order), memory=memory):
        batch = Batch.of_triples(*torch.from_numpy(triples[order[block]]).T)
        ranks[block] = rank(model.pbe.logits(Slot.TAIL, batch), batch.tail, nothing).raw
    starts = np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]]))
    ideal_rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order)))) + 1
    gained = np.add.reduceat(relevance / np.log2(1 + ranks), starts)
    ideal = np.add.reduceat(relevance / np.log2(1 + ideal_rank), starts)
    return float(np.divide(gained, ideal, out=np.zeros_like(ideal), where=ideal > 0).mean())
