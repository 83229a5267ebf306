"""Words: the separate mention term, trained by itself as a multinomial logistic regression.

    minimize  − Σ c · log Pr(r|m) + λ/2 · ‖W − W₀‖²                          (Eqs 11, 12)

over the beliefs with a mention, c their confidence where it is a weight. log Pr(r|m) is an addend of the log credence
whose parameters no other addend uses, so it has its own optimum. The problem is convex: L-BFGS on all beliefs at once
repeats exactly. λ is chosen on the validation beliefs, those with unseen entities included: words need no entities.
Validation also decides whether the words of the entities' names count: where an entity has few facts, its name tells
which relations it has, elsewhere mostly which ones are known already. With few validation beliefs, λ is chosen by
cross-validation of the training beliefs, and the words of names do not count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags
from torch import Tensor
from torch.nn.functional import cross_entropy

from doxa.calibration.temperatures import best_temperature
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.mentions import Ragged
from doxa.data.places import NAMED
from doxa.errors import UsageError
from doxa.estimators import softmax
from doxa.evaluation.ranks import rank
from doxa.pbe import PBE
from doxa.scores import SeparateMention
from doxa.scores.pairwise import Places

STRENGTHS = (30.0, 10.0, 3.0, 1.0, 0.3)
"""λ tried from strong to weak, each from the weights of the one before, until validation gets worse."""

TRIAL = 3.0
"""λ at which validation decides whether the words of the entities' names count."""

WEAK_STRENGTHS = (0.1, 0.03, 0.01, 0.003, 0.001)
"""λ that cross-validation tries as well: no temperature sharpens the weights that it chooses."""

UNVALIDATED = 1.0
"""λ where a single belief has a mention."""

FOLDS = 5
"""Parts of the training beliefs that cross-validation holds out in turn."""

MAX_CROSS_VALIDATED = 5000
"""Training beliefs used for cross-validation, at most."""

ITERATIONS = 30
"""L-BFGS iterations for each λ at most. More change the validation MRR of real data by less than .002."""

HISTORY = 5
"""Past gradients that L-BFGS keeps."""

FEWEST = 50
"""Validation beliefs with mentions that λ is chosen on, at least."""


MAX_WEIGHTS = 1e7
"""Weights of words for relations up to which words are trained separately."""

MAX_PRODUCTS = 1e9
"""Words of all mentions × relations, the cost of a look at all beliefs, up to which they are trained separately."""


def prepare_words(beliefs: Beliefs, settings: Settings) -> tuple[Beliefs, Settings]:
    """The beliefs with the words that the mention term uses, and the settings with the mention term decided.

    Without options, words are trained separately where that is possible and cheap. Words are marked by their place
    unless the marked words are too many.
    """
    if settings.mention_term == "auto":
        separate = settings.can_separate_words and _affordable(beliefs)
        if settings.mentions and not separate and settings.batch_by == "queries":
            words, relations = len(beliefs.vocabularies.words), len(beliefs.vocabularies.relations)
            raise UsageError(
                f"{words:,} words for {relations:,} relations are too many to be trained by themselves, which "
                "batch_by=queries needs",
                "leave batch_by out, or set mentions=false",
            )
        settings = settings.changed(mention_term="separate" if separate else "joint")
    if settings.marks_places:
        marked = beliefs.with_places()
        if _affordable(marked):
            return marked, settings
        settings = settings.changed(mention_places=False)
    return beliefs, settings


def _affordable(beliefs: Beliefs) -> bool:
    relations = len(beliefs.vocabularies.relations)
    weights, products = len(beliefs.vocabularies.words) * relations, len(beliefs.mention.values) * relations
    return weights <= MAX_WEIGHTS and products <= MAX_PRODUCTS


def fit_words(pbe: PBE, beliefs: Beliefs, valid: Beliefs | None, settings: Settings) -> None:
    """Train the separate mention term of a model in place; other models are left as they are.

    `valid` are validation beliefs in the model's ids, with unseen entities or without.
    """
    mention = pbe.mention
    if not isinstance(mention, SeparateMention) or not settings.mention_weight:
        return
    problem = Regression.of(beliefs, pbe.relations, settings)
    stated = None if valid is None else _stated(valid.positives())
    names = beliefs.vocabularies.words.names.str.contains(NAMED).to_numpy()
    if stated is None or len(stated) < FEWEST:
        strength = cross_validated(_stated(beliefs), names, pbe.relations, settings)
        _put(mention, problem.without(names).solve(strength, problem.zeros()), strength)
        return
    if names.any():
        plain = problem.without(names)
        scores = [_mrr(one.logits(stated.mention, one.solve(TRIAL, one.zeros())), stated.relation)
                  for one in (problem, plain)]  # fmt: skip
        problem = problem if scores[0] > scores[1] else plain
    weights, best = problem.zeros(), -np.inf
    for strength in STRENGTHS:
        weights = problem.solve(strength, weights)
        logits = problem.logits(stated.mention, weights)
        mrr = _mrr(logits, stated.relation)
        if mrr <= best:
            break
        best = mrr
        _put(mention, weights / best_temperature(logits, torch.from_numpy(stated.relation)), strength)


def cross_validated(stated: Beliefs, names: NDArray[np.bool_], relations: int, settings: Settings) -> float:
    """The λ with the highest likelihood of held-out training beliefs, without the words `names`, (V,).

    All mentions of a triple are held out together. λ gets weaker until the likelihood no longer rises.
    """
    random = np.random.default_rng(settings.seed)
    if len(stated) > MAX_CROSS_VALIDATED:
        stated = stated.take(random.permutation(len(stated))[:MAX_CROSS_VALIDATED])
    fold = folds(stated, random)
    parts = [(Regression.of(stated.where(fold != one), relations, settings).without(names), stated.where(fold == one))
             for one in np.unique(fold)]  # fmt: skip
    if len(parts) < 2:
        return UNVALIDATED
    weights, best, chosen = [problem.zeros() for problem, _ in parts], -np.inf, UNVALIDATED
    for strength in (*STRENGTHS, *WEAK_STRENGTHS):
        weights = [problem.solve(strength, start) for (problem, _), start in zip(parts, weights, strict=True)]
        likelihood = sum(_log_likelihood(problem.logits(withheld.mention, one), withheld.relation)
                         for (problem, withheld), one in zip(parts, weights, strict=True))  # fmt: skip
        if likelihood <= best:
            break
        best, chosen = likelihood, strength
    return chosen


def folds(beliefs: Beliefs, random: np.random.Generator) -> NDArray[np.int64]:
    """A number below FOLDS for each belief, (n,), the same for all beliefs of a triple."""
    triples, triple = np.unique(beliefs.triples, axis=0, return_inverse=True)
    return random.permutation(np.arange(len(triples)) % FOLDS)[triple.reshape(-1)]


def update_words(pbe: PBE, beliefs: Beliefs, settings: Settings) -> None:
    """Move the separate mention term towards new beliefs, in place: W₀ are the present weights."""
    mention = pbe.mention
    if not isinstance(mention, SeparateMention) or not settings.mention_weight or not len(beliefs.mention.values):
        return
    strength, present = float(mention.l2), torch.cat([mention.word.weight, mention.beta[None]])
    _put(mention, Regression.of(beliefs, pbe.relations, settings).solve(strength, present, present), strength)


@dataclass(frozen=True, eq=False)
class Regression:
    """The beliefs with a mention as a multinomial logistic regression of the relation on the words.

    `features` is φ(m), (n, V), and `transposed` the same by word. Weights are (V + 1, R), the last row is β.
    """

    features: csr_matrix
    transposed: csr_matrix
    relation: Tensor
    importance: Tensor
    relations: int

    @classmethod
    def of(cls, beliefs: Beliefs, relations: int, settings: Settings) -> Regression:
        stated = _stated(beliefs)
        features = _matrix(stated.mention, len(stated.vocabularies.words))
        confidence = stated.confidence if settings.confidence == "weight" else np.ones(len(stated))
        importance = torch.from_numpy(np.nan_to_num(confidence, nan=1.0)).float()
        relation = torch.from_numpy(stated.relation)
        return cls(features, features.T.tocsr(), relation, importance, relations)

    def without(self, words: NDArray[np.bool_]) -> Regression:
        """The same beliefs without these words, (V,), whose weights stay at zero."""
        kept = diags((~words).astype(np.float32))
        return replace(self, features=csr_matrix(self.features @ kept), transposed=csr_matrix(kept @ self.transposed))

    def zeros(self) -> Tensor:
        """Weights to start from."""
        return torch.zeros(self.features.shape[1] + 1, self.relations)

    def logits(self, mentions: Ragged, weights: Tensor) -> Tensor:
        """F(r, m) of every relation, (n, R)."""
        features = _matrix(mentions, self.features.shape[1])
        return torch.from_numpy(features @ weights[:-1].numpy()) + weights[-1]

    @torch.no_grad()
    def loss(self, weights: Tensor, strength: float, center: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The mean loss over the beliefs and its gradient, (V + 1, R); β is regularized towards a center alone."""
        logits = torch.from_numpy(self.features @ weights[:-1].numpy()).add_(weights[-1])
        true = Places(torch.arange(len(logits)), self.relation)
        estimate = softmax(logits[true], logits, true)
        error = estimate.weights.mul_(-estimate.factor * self.importance[:, None])
        error[true] = -estimate.by_truth * self.importance
        distance = weights.clone() if center is None else weights - center
        if center is None:
            distance[-1] = 0.0
        gradient = distance * strength
        gradient[:-1] += torch.from_numpy(self.transposed @ error.numpy())
        gradient[-1] += error.sum(0)
        penalty = strength / 2 * distance.square().sum(dtype=torch.float64)
        value = penalty - (self.importance * estimate.value).sum(dtype=torch.float64)
        return value / max(len(logits), 1), gradient.div_(max(len(logits), 1))

    def solve(self, strength: float, start: Tensor, center: Tensor | None = None) -> Tensor:
        """The weights with the smallest loss, found by L-BFGS from a start."""
        weights = start.clone().requires_grad_()
        optimizer = torch.optim.LBFGS(
            [weights], max_iter=ITERATIONS, history_size=HISTORY, tolerance_change=1e-6, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            value, weights.grad = self.loss(weights.detach(), strength, center)
            return value

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        return weights.detach()


def _stated(beliefs: Beliefs) -> Beliefs:
    """The beliefs with a known relation and at least one known word."""
    return beliefs.where((beliefs.mention.lengths > 0) & (beliefs.relation >= 0))


def _matrix(mentions: Ragged, words: int) -> csr_matrix:
    ones: NDArray[np.float32] = np.ones(len(mentions.values), np.float32)
    return csr_matrix((ones, mentions.values, mentions.offsets), shape=(len(mentions), words))


def _log_likelihood(logits: Tensor, relation: NDArray[np.int64]) -> float:
    return -float(cross_entropy(logits.double(), torch.from_numpy(relation), reduction="sum"))


def _mrr(logits: Tensor, relation: NDArray[np.int64]) -> float:
    nothing = np.zeros(0, np.int64)
    return float((1 / rank(logits, torch.from_numpy(relation), (nothing, nothing)).raw).mean())


@torch.no_grad()
def _put(mention: SeparateMention, weights: Tensor, strength: float) -> None:
    mention.word.weight.copy_(weights[:-1])
    mention.beta.copy_(weights[-1])
    mention.l2.fill_(strength)
