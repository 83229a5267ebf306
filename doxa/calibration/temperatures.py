"""Temperatures of answer probabilities, and the exponent of the mention in Eq. 6; both maximize the likelihood of
validation beliefs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from doxa.calibration.curves import MIN_LABELS
from doxa.calibration.queries import KINDS, held_out_queries
from doxa.calibration.thresholds import Numbers
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.pbe import PBE, renormalized, softmax
from doxa.slots import Slot

MAX_TABLE = 2e7
"""Size of the score table that temperatures are fitted on, at most."""

MIN_QUERIES = 20
"""Validation beliefs used however large the tables are."""


@dataclass(frozen=True)
class Temperatures:
    """Answer probabilities are softmax(logits / temperature), with one temperature per kind of query.

    `relation_with_mention` is for a relation query with a mention, `relation` for one without.
    """

    head: float = 1.0
    relation: float = 1.0
    relation_with_mention: float = 1.0
    tail: float = 1.0


@torch.no_grad()
def fit_temperatures(
    pbe: PBE, valid: Beliefs, facts: TripleIndex, mention_exponent: float = 1.0, effort: float = 1.0
) -> Temperatures:
    """The temperatures that make positive validation beliefs most likely among the answers not in `facts`.

    `effort` is the share of the usual sample that is used.
    """
    valid = _sample(valid, int(effort * MAX_TABLE / max(pbe.entities, pbe.relations)))
    if len(valid) < MIN_LABELS:
        return Temperatures()

    def best(kind: str) -> float:
        queries = held_out_queries(pbe, valid, facts, kind, mention_exponent)
        return best_temperature(*queries.log_probabilities(np.arange(len(queries)))) if len(queries) else 1.0

    return Temperatures(**{kind: best(kind) for kind in KINDS})


@torch.no_grad()
def fit_mention_exponent(pbe: PBE, valid: Beliefs) -> float:
    """The exponent of Pr(r|m) in Eq. 6 that suits the positive validation beliefs with a mention; 1 if they are few."""
    stated = valid.where((valid.mention.lengths > 0) & (valid.relation >= 0))
    stated = _sample(stated, int(MAX_TABLE / pbe.relations))
    if len(stated) < MIN_LABELS or not pbe.score.tells_relations:
        return 1.0
    b = Batch.of(stated)
    pair, mention = pbe.distribution(Slot.RELATION, b), pbe.mention_distribution(b)
    exponent = best_mention_exponent(pair.log_probabilities, mention.log_probabilities, b.relation)
    return float(np.float32(exponent))  # in the precision of the weights


def _sample(beliefs: Beliefs, most: int) -> Beliefs:
    most = max(MIN_QUERIES, most)
    return beliefs.take(np.random.default_rng(0).permutation(len(beliefs))[:most]) if len(beliefs) > most else beliefs


def best_temperature(logits: Tensor, truth: Tensor) -> float:
    """The temperature T with the highest likelihood of the truth under softmax(logits / T); (n, C), (n,) → [1/50, 50].

    The prior of log T is normal around 0 with deviation ½, so that a few beliefs cannot move T far.
    """
    from scipy.optimize import minimize_scalar  # only fitting needs it, and answering should start quickly

    logits, columns = logits.double(), torch.arange(logits.shape[1])
    right = float(logits.gather(1, truth[:, None]).sum())

    def loss(log_temperature: float) -> float:
        temperature = float(np.exp(log_temperature))
        total = softmax(logits, columns, temperature).log_total.sum()
        return float(total) - right / temperature + 2 * log_temperature**2

    return float(np.exp(minimize_scalar(loss, bounds=(-np.log(50), np.log(50)), method="bounded").x))


def best_mention_exponent(pair: Tensor, mention: Tensor, truth: Tensor) -> float:
    """β/α with the highest likelihood of the truth under softmax(α · pair + β · mention); (n, R), (n, R), (n,) →
    [1/50, 50].

    `pair` is log Pr(r|h,t) and `mention` log Pr(r|m).
    """
    alpha, beta = best_weights(pair, mention, truth)
    return float(np.clip(beta / alpha, 1 / 50, 50))


def best_weights(pair: Tensor, mention: Tensor, truth: Tensor) -> tuple[float, float]:
    """α and β with the highest likelihood of the truth under softmax(α · pair + β · mention); (n, R), (n, R), (n,).

    log α and log β have the prior of `best_temperature`.
    """
    from scipy.optimize import minimize

    def loss(logs: Numbers) -> float:
        alpha, beta = np.exp(np.clip(logs, -4, 4))
        joint = renormalized(alpha * pair.double() + beta * mention.double())
        return -float(joint.gather(1, truth[:, None]).sum()) + 2 * float(np.square(logs).sum())

    alpha, beta = np.exp(minimize(loss, np.zeros(2), method="Nelder-Mead").x)
    return float(alpha), float(beta)
