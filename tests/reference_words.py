"""Words in slow, obvious Python: marked words, regression of the relation on the words, answers from a sentence."""

import math

import numpy as np

from tests import reference


def marked_words(sentence, head, tail):
    """The marked words of a sentence whose names of head and tail are the spans head and tail, (first, after last)."""
    first, second = sorted([head, tail])
    left, right = ("head", "tail") if head < tail else ("tail", "head")
    marks = {f"{left}…{right}"}
    for place, word in enumerate(sentence):
        if first[1] <= place < second[0]:
            marks.add(f"{left}…{word}…{right}")
            if place + 1 < second[0]:
                marks.add(f"{left}…{word} {sentence[place + 1]}…{right}")
            if place == first[1]:
                marks.add(f"{left} {word}…{right}")
            if place == second[0] - 1:
                marks.add(f"{left}…{word} {right}")
        if first[0] - 2 <= place < first[0]:
            marks.add(f"{word} {left}…{right}")
        if second[1] <= place < second[1] + 2:
            marks.add(f"{left}…{right} {word}")
    return marks


def regression_loss(weights, mentions, relations, importance, strength, center):
    """(− Σ c · log Pr(r|m) + λ/2 · ‖W − W₀‖²) / n; the last row is β, not penalized without a center."""
    pairs = zip(weights[:-1].flat, np.zeros(weights[:-1].size), strict=True)
    if center is not None:
        pairs = zip(weights.flat, center.flat, strict=True)
    total = strength / 2 * sum(float((w - w0) ** 2) for w, w0 in pairs)
    for words, relation, weight in zip(mentions, relations, importance, strict=True):
        scores = [weights[-1][r] + sum(weights[w][r] for w in words) for r in range(weights.shape[1])]
        total -= weight * math.log(reference.softmax_share(scores[relation], scores))
    return total / len(mentions)


def by_sentence(log_by_mention, facts, entity, slot, alpha, beta, relations, smoothing=1.0):
    """Pr(r|m)^β · (Pr(r|entity in its slot) / Pr(r))^α, renormalized; Pr(r|m) without a known entity."""
    if entity is None:
        return np.exp(log_by_mention)
    counts = [sum(r == relation for _, r, _ in facts) + 1 for relation in range(relations)]
    product = []
    for relation in range(relations):
        prior = counts[relation] / sum(counts)
        of_entity = [r for triple in facts for r in [triple[1]] if triple[slot] == entity]
        share = (of_entity.count(relation) + smoothing * prior) / (len(of_entity) + smoothing)
        product.append(math.exp(beta * log_by_mention[relation]) * (share / prior) ** alpha)
    return np.array(product) / sum(product)
