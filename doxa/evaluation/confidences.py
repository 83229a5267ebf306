"""How well the confidence of unseen beliefs is foretold, and tails are ranked by it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch

from doxa.answering.confidences import confidence
from doxa.beliefs import Beliefs
from doxa.evaluation.ranks import rank
from doxa.learnt import Learnt


@dataclass(frozen=True)
class ConfidenceReport:
    """Squared and absolute error of the expected confidence against the given one, and their rank correlation.

    `ndcg` is how well the tails of each (h, r) are ranked among all entities when a tail is worth its confidence.
    """

    mse: float
    mae: float
    spearman: float
    ndcg: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def confidence_report(learnt: Learnt, beliefs: Beliefs) -> ConfidenceReport:
    """On beliefs that carry confidence and whose names the model knows."""
    from scipy.stats import spearmanr

    found = confidence(learnt, beliefs)
    error = found - beliefs.confidence
    varied = np.ptp(found) > 0 and np.ptp(beliefs.confidence) > 0
    return ConfidenceReport(
        mse=float((error**2).mean()),
        mae=float(np.abs(error).mean()),
        spearman=float(spearmanr(found, beliefs.confidence).statistic) if varied else 0.0,
        ndcg=ndcg(learnt, beliefs.where(beliefs.confidence > 0)),
    )


@torch.no_grad()
def ndcg(learnt: Learnt, beliefs: Beliefs) -> float:
    """Σ c / log₂(1 + rank of the tail), over the same with tails in order of c; the mean over all (h, r)."""
    if not len(beliefs):
        return 0.0
    question = beliefs.head * learnt.pbe.relations + beliefs.relation
    order = np.lexsort((-beliefs.confidence, question))
    question, worth = question[order], beliefs.confidence[order]
    ranks = np.zeros(len(order))
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    for block in learnt.pbe.blocks(len(order)):
        rows = order[block]
        head, relation = torch.from_numpy(beliefs.head[rows]), torch.from_numpy(beliefs.relation[rows])
        logits = learnt.pbe.tail_logits(head, relation)
        ranks[block] = rank(logits, torch.from_numpy(beliefs.tail[rows]), nothing).raw
    starts = np.flatnonzero(np.concatenate([[True], question[1:] != question[:-1]]))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order)))) + 1
    # within a question each tail takes the rank it has among all entities; two tails never share one
    gained = np.add.reduceat(worth / np.log2(1 + ranks), starts)
    ideal = np.add.reduceat(worth / np.log2(1 + place), starts)
    return float((gained / ideal).mean())
