"""How well the confidence of unseen beliefs is foretold, and tails are ranked by it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.calibration.confidence import confidence
from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.evaluation.ranks import rank
from doxa.model import Model


@dataclass(frozen=True)
class ConfidenceReport:
    """Squared and absolute error of the expected confidence against the given one, and their rank correlation.

    `ndcg` is how well the tails of each (h, r) are ranked among all entities when a tail is worth its confidence c, or
    2^c − 1 in `ndcg_exponential`; the tails train and valid have for these (h, r) count too (Chen et al., 2019).
    """

    mse: float
    mae: float
    spearman: float
    ndcg: float
    ndcg_exponential: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def confidence_report(model: Model, beliefs: Beliefs) -> ConfidenceReport:
    """On beliefs that carry confidence and whose names the model knows."""
    from scipy.stats import spearmanr

    found = confidence(model, beliefs)
    error = found - beliefs.confidence
    tails, worth = with_known_tails(model, beliefs.where(beliefs.confidence > 0))
    varied = np.ptp(found) > 0 and np.ptp(beliefs.confidence) > 0
    return ConfidenceReport(
        mse=float((error**2).mean()),
        mae=float(np.abs(error).mean()),
        spearman=float(spearmanr(found, beliefs.confidence).statistic) if varied else 0.0,
        ndcg=ndcg(model, tails, worth),
        ndcg_exponential=ndcg(model, tails, 2**worth - 1),
    )


def with_known_tails(model: Model, beliefs: Beliefs) -> tuple[NDArray[np.int64], Numbers]:
    """Triples and their confidence: the beliefs, and what train and valid have on the same (h, r) with confidence."""
    triples, worth = beliefs.triples, beliefs.confidence
    if not len(model.given):
        return triples, worth
    known = np.concatenate([model.train, model.valid])
    asked = np.isin(_question(model, known), _question(model, triples)) & ~np.isnan(model.given)
    asked &= ~TripleIndex(triples, model.pbe.entities, model.pbe.relations).contains(*known.T)
    return np.concatenate([triples, known[asked]]), np.concatenate([worth, model.given[asked]])


def _question(model: Model, triples: NDArray[np.int64]) -> Ids:
    return triples[:, 0] * model.pbe.relations + triples[:, 1]


@torch.no_grad()
def ndcg(model: Model, triples: NDArray[np.int64], worth: Numbers) -> float:
    """Σ worth / log₂(1 + rank of the tail), over the same with tails in order of worth; the mean over all (h, r)."""
    if not len(triples):
        return 0.0
    question = _question(model, triples)
    order = np.lexsort((-worth, question))
    question, worth = question[order], worth[order]
    ranks = np.zeros(len(order))
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    for block in model.pbe.blocks(len(order)):
        head, relation, tail = torch.from_numpy(triples[order[block]]).T
        ranks[block] = rank(model.pbe.tail_logits(head, relation), tail, nothing).raw
    starts = np.flatnonzero(np.concatenate([[True], question[1:] != question[:-1]]))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order)))) + 1
    # within a question each tail takes the rank it has among all entities; two tails never share one
    gained = np.add.reduceat(worth / np.log2(1 + ranks), starts)
    ideal = np.add.reduceat(worth / np.log2(1 + place), starts)
    return float((gained / ideal).mean())
