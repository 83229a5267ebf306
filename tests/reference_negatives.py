"""The paper's algorithm belief by belief: Eqs 4, 7, 11 and 13–18 with negatives of each belief, and their gradient."""

import math

import numpy as np

from tests import reference


def gradient_of_score(world, h, r, t):
    """Eq. 7: ∂D/∂(h + r − t) = −(h + r − t) / ‖h + r − t‖; the sign of each number for L1; 0 for a zero vector."""
    gap = world.entity[h] + world.relation[r] - world.entity[t]
    if world.p == 1:
        return -np.sign(gap)
    length = reference.norm(gap, 2)
    return -gap / length if length else np.zeros_like(gap)


def slope_of_log(x, floor):
    """Eqs 17, 18: d log(σ(x) + floor) = σ (1 − σ) / (σ + floor), 0 where the sum is cut to 1."""
    sigma = 1 / (1 + math.exp(-x))
    return sigma * (1 - sigma) / (sigma + floor) if sigma + floor < 1 else 0.0


def loss_and_gradient(world, beliefs, negatives, k, epsilon, eta):
    """− Σ log credence (Eq. 4) by negative sampling (Eqs 13–16), and its derivatives.

    `negatives` are of each belief its heads, relations and tails. One that equals the truth is left out, and the others
    count for k together.
    """
    gradient = {"entity": np.zeros_like(world.entity), "relation": np.zeros_like(world.relation),
                "word": np.zeros_like(world.word), "alpha": 0.0, "beta": 0.0}  # fmt: skip
    loss = 0.0

    def add_triple(h, r, t, factor):
        pull = factor * gradient_of_score(world, h, r, t)
        gradient["entity"][h] += pull
        gradient["relation"][r] += pull
        gradient["entity"][t] -= pull
        gradient["alpha"] += factor

    def add_mention(r, words, factor):
        for word in words:
            gradient["word"][word] += factor * world.relation[r]
            gradient["relation"][r] += factor * world.word[word]
        gradient["beta"] += factor

    for (h, r, t, words), (heads, relations, tails) in zip(beliefs, negatives, strict=True):
        false_heads, false_tails = [x for x in heads if x != h], [x for x in tails if x != t]
        false_relations = [x for x in relations if x != r]
        terms = [
            [(h, r, t)] + [(x, r, t) for x in false_heads],
            [(h, r, t)] + [(h, x, t) for x in false_relations],
            [(h, r, t)] + [(h, r, x) for x in false_tails],
        ]
        for truth, *others in terms:
            value = reference.score(world, *truth)
            loss -= math.log(reference.logistic(value, epsilon)) / 3
            add_triple(*truth, -slope_of_log(value, epsilon) / 3)
            for other in others:
                value, share = reference.score(world, *other), k / len(others)
                loss -= share * math.log(reference.logistic(-value, epsilon)) / 3
                add_triple(*other, share * slope_of_log(-value, epsilon) / 3)
        if words:
            value = reference.mention_score(world, r, words)
            loss -= math.log(reference.logistic(value, eta)) / 3
            add_mention(r, words, -slope_of_log(value, eta) / 3)
            for x in false_relations:
                value, share = reference.mention_score(world, x, words), k / len(false_relations)
                loss -= share * math.log(reference.logistic(-value, eta)) / 3
                add_mention(x, words, share * slope_of_log(-value, eta) / 3)
    return loss, gradient
