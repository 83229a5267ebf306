"""Missing facts: corrupted triples that are true all the same, kept out of the negatives that judges are fitted to.

A knowledge base lacks facts that are true, such as those of a test set. Where a relation connects most of its entities,
a corrupted triple is often such a fact. It looks like a negative and has a high score, so that the credence of every
belief with a high score would be too low.

Validation beliefs were set aside in the same way as facts that nobody knows yet. So the facts still missing are taken
to be as many, and to look alike. Among corrupted triples that training does not know, of a score x, let v(x) be the
share of validation beliefs:

    v = V / (V + M + F)      V validation beliefs, M missing facts, F false triples of that score
    M / (M + F) = v / (1 − v)                                                     with M = V

A negative is drawn again with this probability, and a triple once taken for missing is never drawn for other beliefs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.curves import MIN_LABELS, fit_shares
from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import corrupt_triples, has_negatives, labeled_beliefs, stack
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids

DRAWS = 5000
"""Corrupted triples that v is fitted to, where validation beliefs are fewer."""

MAX_DRAWS = 10
"""Corrupted triples of one validation belief among them, at most."""

ROUNDS = 30
"""Times that negatives are drawn again, at most."""

Inputs = Callable[[Beliefs], Numbers]
"""From beliefs to their calibration input."""

Chance = Callable[[Numbers, Ids], Numbers]
"""From calibration input and relation to the probability that a corrupted triple is a missing fact."""


def labeled_without_missing(
    beliefs: Beliefs, facts: TripleIndex, known: TripleIndex, inputs: Inputs, seed: int, negatives_from: str
) -> Beliefs:
    """The validation beliefs with their labels; without negatives among them, each positive followed by one.

    `facts` are those of training, `known` also has the beliefs themselves. A belief whose corrupted triples are all
    known, or taken for missing facts, is left out.
    """
    chance = None if has_negatives(beliefs) else missing_chance(beliefs, facts, inputs, seed, negatives_from)
    if chance is None:
        return labeled_beliefs(beliefs, known, seed, negatives_from)
    negatives, source = corrupt_triples(beliefs, known, seed, negatives_from)
    random = np.random.default_rng([seed, 15])
    false = TripleIndex(np.zeros((0, 3), np.int64), known.entities, known.relations)
    kept: list[Beliefs] = []
    rows: list[Ids] = []
    for attempt in range(ROUNDS):
        missing = _missing(negatives, false, inputs, chance, random)
        kept.append(negatives.where(~missing))
        rows.append(source[~missing])
        false, known = false.union(kept[-1].triples), known.union(negatives.where(missing).triples)
        again = source[missing]
        negatives, place = corrupt_triples(beliefs.take(again), known, seed + attempt + 1, negatives_from)
        source = again[place]
        if not len(source):
            break
    negatives, source = Beliefs.concat(kept), np.concatenate(rows)
    order = np.argsort(source, kind="stable")
    alternating = np.arange(2 * len(source)).reshape(2, -1).T.reshape(-1)
    return stack(beliefs.take(source[order]), negatives.take(order)).take(alternating)


def _missing(
    negatives: Beliefs, false: TripleIndex, inputs: Inputs, chance: Chance, random: np.random.Generator
) -> NDArray[np.bool_]:
    """Which negatives are taken for missing facts; the same triple is the same everywhere."""
    triples, first, inverse = np.unique(negatives.triples, axis=0, return_index=True, return_inverse=True)
    one_each = negatives.take(first)
    missing = random.random(len(triples)) < chance(inputs(one_each), one_each.relation)
    return np.asarray((missing & ~false.contains(*triples.T))[inverse.reshape(-1)])


def missing_chance(
    beliefs: Beliefs, facts: TripleIndex, inputs: Inputs, seed: int, negatives_from: str = "relation"
) -> Chance | None:
    """The probability that a corrupted triple is a missing fact, v / (1 − v); None where this is too rare to fit."""
    validation = TripleIndex(beliefs.positives().triples, facts.entities, facts.relations)
    count = int(np.clip(DRAWS // max(len(beliefs), 1), 1, MAX_DRAWS))
    draws = [corrupt_triples(beliefs, facts, seed + 1 + number, negatives_from)[0] for number in range(count)]
    drawn = Beliefs.concat(draws)
    hits = validation.contains(*drawn.triples.T)
    if min(hits.sum(), (~hits).sum()) < MIN_LABELS:
        return None
    curve = fit_shares(inputs(drawn), drawn.relation, hits.astype(float), facts.relations, seed)

    def chance(numbers: Numbers, relation: Ids) -> Numbers:
        share = np.minimum(curve.probability(numbers, relation), 0.5)
        return np.asarray(share / (1 - share))

    return chance
