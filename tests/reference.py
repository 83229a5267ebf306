"""The paper in slow, obvious numpy: one function per equation, no tricks. The fast code is compared with these."""

import math
import re
from itertools import pairwise, product

import numpy as np


def norm(x, p):
    return sum(abs(v) ** p for v in x) ** (1 / p)


def score(world, h, r, t):
    """Eq. 7: D(h, r, t) = α − ‖h + r − t‖, times the scale."""
    step = world.entity[h] + world.relation[r] - world.entity[t]
    return world.scale * (world.alpha - norm(step, world.p))


def loop_factor(facts, relation, prior=1.0, common=0.1):
    """λ_r: the share of self-loops among the facts of r, smoothed by the overall share, in units of a common share."""
    overall = (sum(h == t for h, _, t in facts) + 0.5) / (len(facts) + 1)
    of_relation = [(h, t) for h, r, t in facts if r == relation]
    share = (sum(h == t for h, t in of_relation) + prior * overall) / (len(of_relation) + prior)
    return min(1.0, share / common)


def belief_score(world, h, r, t):
    """D′(h, r, t): the score, and for a self-loop the logarithm of the relation's loop factor."""
    return score(world, h, r, t) + (math.log(world.loop_factor[r]) if h == t else 0.0)


def mention_score(world, r, words):
    """Eq. 11: F(r, m) = Wᵀφ(m) · r + β, φ(m) the set of words."""
    total = sum((world.word[w] for w in set(words)), np.zeros(world.mention_relation.shape[1]))
    return float(total @ world.mention_relation[r]) + world.beta[r]


def softmax_share(value, values):
    """exp(value) / Σ exp(values)"""
    top = max(values)
    return math.exp(value - top) / sum(math.exp(v - top) for v in values)


def pr_tail(world, h, r, t):
    """Eq. 8"""
    return softmax_share(belief_score(world, h, r, t), [belief_score(world, h, r, x) for x in world.seen_tails])


def pr_head(world, h, r, t):
    """Eq. 9"""
    return softmax_share(belief_score(world, h, r, t), [belief_score(world, x, r, t) for x in world.seen_heads])


def pr_relation(world, h, r, t):
    """Eq. 10"""
    return softmax_share(belief_score(world, h, r, t), [belief_score(world, h, x, t) for x in world.relations])


def pr_relation_by_mention(world, r, words):
    """Eq. 12"""
    return softmax_share(mention_score(world, r, words), [mention_score(world, x, words) for x in world.relations])


def pr_relation_with_mention(world, h, r, t, words, exponent=1.0):
    """Eq. 6, renormalized over R, Pr(r|m) to the power of the exponent; without words Pr(r|h,t) alone."""
    if not words:
        return pr_relation(world, h, r, t)
    by_mention = [pr_relation_by_mention(world, x, words) ** exponent for x in world.relations]
    product = [pr_relation(world, h, x, t) * by_mention[x] for x in world.relations]
    return product[r] / sum(product)


def credence(world, h, r, t, words):
    """Eq. 1"""
    terms = pr_head(world, h, r, t) * pr_relation_with_mention(world, h, r, t, words) * pr_tail(world, h, r, t)
    return terms ** (1 / 3)


def logistic(x, floor):
    """Eqs 17, 18: σ(x) + floor, at most 1."""
    return min(1 / (1 + math.exp(-x)) + floor, 1)


def negative_log(true_value, other_values, k, floor, label=1.0):
    """Eqs 13–16: log Pr(1|truth) + k · E log Pr(0|other), Pr(0|·) = 1 − σ(·) (+ floor).

    With a soft label c the first part is c · log Pr(1|truth) + (1 − c) · log Pr(0|truth).
    """
    expectation = sum(math.log(logistic(-v, floor)) for v in other_values) / max(len(other_values), 1)
    first = label * math.log(logistic(true_value, floor)) + (1 - label) * math.log(logistic(-true_value, floor))
    return first + k * expectation


def hinge(true_value, other_values, margin):
    """Margin ranking: − mean over candidates of [γ + other − truth]₊; 0 where there is no candidate."""
    within = [max(0.0, margin + other - true_value) for other in other_values]
    return -sum(within) / max(len(within), 1)


def log_estimates(world, belief, candidates, estimator, k=10, epsilon=1e-6, eta=1e-6, margin=1.0, known=(),
                  label=1.0, shares=(1, 1, 1)):  # fmt: skip
    """log Pr(h|r,t), log Pr(r|h,t), log Pr(t|h,r), log Pr(r|m) of one belief against candidates.

    A candidate that is the truth, or makes another known triple, is left out; softmaxes take the truth back in. There,
    a candidate counts for as many as `shares` says, of heads, relations and tails.
    """
    h, r, t, words = belief
    positives = {*known, (h, r, t)}
    heads = [x for x in candidates[0] if (x, r, t) not in positives]
    relations = [x for x in candidates[1] if (h, x, t) not in positives]
    tails = [x for x in candidates[2] if (h, r, x) not in positives]
    true = score(world, h, r, t)
    groups = {
        "head": (true, [score(world, x, r, t) for x in heads], epsilon),
        "relation": (true, [score(world, h, x, t) for x in relations], epsilon),
        "tail": (true, [score(world, h, r, x) for x in tails], epsilon),
        "mention": (mention_score(world, r, words), [mention_score(world, x, words) for x in relations], eta),
    }
    stands_for = dict(zip(("head", "relation", "tail"), shares, strict=True)) | {"mention": shares[1]}
    estimates = {}
    for name, (value, others, floor) in groups.items():
        if name == "mention" and not words:
            estimates[name] = 0.0
        elif estimator == "negative":
            estimates[name] = negative_log(value, others, k, floor, label)
        elif estimator == "margin":
            estimates[name] = hinge(value, others, margin)
        else:
            total = math.exp(value) + stands_for[name] * sum(math.exp(other) for other in others)
            estimates[name] = value - math.log(total)
    return estimates


def log_credence(terms, weights):
    """Eqs 1, 6 in logarithms: a third of the weighted sum of the four terms."""
    return sum(weights[name] * value for name, value in terms.items()) / 3


def likelihood_loss(terms, weights, confidence, use_confidence):
    """Eq. 4 for one belief: −log credence, times its confidence where asked."""
    weight = confidence if use_confidence and not math.isnan(confidence) else 1.0
    return -weight * log_credence(terms, weights)


def confidence_loss(terms, weights, confidence, floor=1e-6):
    """Eq. 5 for one belief; nothing without a confidence. A confidence below the floor counts as the floor."""
    if math.isnan(confidence):
        return 0.0
    return 0.5 * (log_credence(terms, weights) - math.log(max(confidence, floor))) ** 2


def words_of(text):
    """φ(m): the set of lower-cased words."""
    return set(re.findall(r"[^\W_]+", text.lower()))


def rank(scores, truth, drop=()):
    """Section 5.2: mean of the best and the worst place of the truth, after dropping other known answers."""
    kept = [s for i, s in enumerate(scores) if i == truth or i not in drop]
    best = 1 + sum(s > scores[truth] for s in kept)
    worst = sum(s >= scores[truth] for s in kept)
    return (best + worst) / 2


def ndcg(world, beliefs, relevance):
    """Mean over (h, r) of Σ relevance(c) / log₂(1 + rank of t) by the ideal sum; beliefs are (h, r, t, c)."""
    shares = []
    for h, r in dict.fromkeys(belief[:2] for belief in beliefs):
        scores = [score(world, h, r, x) for x in range(len(world.entity))]
        answers = [(relevance(c), rank(scores, t)) for *query, t, c in beliefs if query == [h, r]]
        ideal = enumerate(sorted((gain for gain, _ in answers), reverse=True), start=1)
        gained = sum(gain / math.log2(1 + place) for gain, place in answers)
        shares.append(gained / sum(gain / math.log2(1 + place) for place, gain in ideal))
    return sum(shares) / len(shares)


def thresholds_tried(scores):
    """Halfway between two scores, and 1 below and above all of them."""
    distinct = sorted(set(scores))
    return [distinct[0] - 1, *((one + other) / 2 for one, other in pairwise(distinct)), distinct[-1] + 1]


def right_decisions(scores, labels, blur, sigma):
    """How many of "positive at or above σ" are right; outside the range of the scores, all or none lie above.

    Each score is spread as a normal distribution of deviation blur · (that of the scores) / n^(1/5) around itself, the
    deviation being what the middle half of the scores would have if they were normal, where that is less but not 0.
    """
    quarter, three_quarters = np.percentile(scores, [25, 75])
    deviation = min(math.sqrt(np.var(scores)), (three_quarters - quarter) / 1.349) or math.sqrt(np.var(scores))
    width = blur * deviation / len(scores) ** 0.2

    def above(score):
        if sigma < min(scores) or sigma > max(scores) or width == 0:
            return float(score > sigma)
        return (1 + math.erf((score - sigma) / width / math.sqrt(2))) / 2

    return sum(above(s) if label == 1 else 1 - above(s) for s, label in zip(scores, labels, strict=True))


def best_threshold(scores, labels, blur, everything=None, pseudo=0):
    """Section 5.4: σ at which "positive at or above" is right most often, by trying all.

    To the decisions on the scores come `pseudo` drawn from `everything`, scores and labels of all relations. Their
    share of right decisions is read off straight lines between the σ tried for all.
    """
    tries, prior = thresholds_tried(scores), [0.0]
    common = tries[:1]
    if everything is not None:
        common = thresholds_tried(everything[0])
        prior = [right_decisions(*everything, blur, sigma) / len(everything[0]) for sigma in common]
        tries = sorted({*tries, *common})
    right = [right_decisions(scores, labels, blur, sigma) + pseudo * np.interp(sigma, common, prior) for sigma in tries]
    return next(sigma for sigma, count in zip(tries, right, strict=True) if count > max(right) - 1e-9)


def thresholds(scores, relations, labels, blur, pseudo):
    """σ of each relation that has labels."""
    rows = {r: [i for i, other in enumerate(relations) if other == r] for r in set(relations)}
    return {
        r: best_threshold([scores[i] for i in own], [labels[i] for i in own], blur, (scores, labels), pseudo)
        for r, own in rows.items()
    }


def regression(features, labels, around, shrinkage):
    """Logistic regression with an offset, by small steps: Σ log(1 + exp(−y w·x)) + shrinkage · Σ (w − around)².

    The offset is shrunk a twentieth as much."""
    x = np.column_stack([features, np.ones(len(features))])
    w, away = np.array(around, float), shrinkage * np.array([1.0] * (x.shape[1] - 1) + [1 / 20])
    for _ in range(20_000):
        pulls = sum(-y * row / (1 + math.exp(y * float(row @ w))) for row, y in zip(x, labels, strict=True))
        w = w - (pulls + 2 * away * (w - around)) / len(x)
        if max(abs(pulls + 2 * away * (w - around))) < 1e-6:
            break
    return w


def answers_per_query(triples, relation):
    """Heads per tail and tails per head of a relation on average, each triple counted once; 1 and 1 without any."""
    pairs = {(h, t) for h, r, t in triples if r == relation}
    heads, tails = {h for h, _ in pairs}, {t for _, t in pairs}
    return (len(pairs) / len(tails), len(pairs) / len(heads)) if pairs else (1.0, 1.0)


def mapping_kind(triples, relation):
    """1-1, 1-N, N-1, N-N by the averages of heads per tail and tails per head."""
    heads_per_tail, tails_per_head = answers_per_query(triples, relation)
    return f"{'N' if heads_per_tail >= 1.5 else '1'}-{'N' if tails_per_head >= 1.5 else '1'}"


def adagrad(start, gradients, rate, epsilon=1e-10):
    """x ← x − rate · g / (√Σg² + ε), coordinate by coordinate."""
    x, total = np.array(start, float), np.zeros_like(start, float)
    for gradient in gradients:
        total += gradient**2
        x -= rate * gradient / (np.sqrt(total) + epsilon)
    return x


def ece_floor(credence, bins):
    """The expected ECE of a perfectly calibrated model: over all labels, with the probability that credence says."""
    total = 0.0
    for labels in product((False, True), repeat=len(credence)):
        chance = math.prod(c if true else 1 - c for c, true in zip(credence, labels, strict=True))
        total += chance * ece(credence, labels, bins)
    return total


def ece(credence, true, bins):
    """Mean gap between credence and truth over bins of equal mass."""
    order = sorted(range(len(credence)), key=lambda i: credence[i])
    size, extra = divmod(len(order), bins)
    total, start = 0.0, 0
    for number in range(bins):
        end = start + size + (number < extra)
        rows = order[start:end]
        if rows:
            gap = abs(sum(credence[i] for i in rows) - sum(bool(true[i]) for i in rows))
            total += gap
        start = end
    return total / len(order)


def popularity(triples, entities, relation, slot):
    """How often each entity stands in that slot of the relation."""
    return [sum(t[1] == relation and t[slot] == entity for t in triples) for entity in range(entities)]


def known_answers(triples, triple, slot):
    """What the known triples have in that slot where they agree with this one in the others."""
    return {t[slot] for t in triples if all(t[other] == triple[other] for other in range(3) if other != slot)}


def paired_bootstrap(a, b, random, rounds, coverage=0.95):
    """The interval of the mean of b − a over beliefs drawn with replacement, by drawing them one round at a time."""
    means = []
    for _ in range(rounds):
        rows = random.integers(0, len(a), len(a))
        means.append(sum(b[i] - a[i] for i in rows) / len(a))
    return np.percentile(means, [50 * (1 - coverage), 50 * (1 + coverage)])


def distmult(h, r, t):
    """Σ h · r · t"""
    return sum(a * b * c for a, b, c in zip(h, r, t, strict=True))


def as_complex(vector):
    half = len(vector) // 2
    return [complex(a, b) for a, b in zip(vector[:half], vector[half:], strict=True)]


def complex_product(h, r, t):
    """Re Σ h · r · t̄"""
    rows = zip(as_complex(h), as_complex(r), as_complex(t), strict=True)
    return sum((a * b * c.conjugate()).real for a, b, c in rows)


def rotation(h, r, t, alpha):
    """α − ‖h ∘ r/|r| − t‖"""
    rows = zip(as_complex(h), as_complex(r), as_complex(t), strict=True)
    return alpha - math.sqrt(sum(abs(a * b / abs(b) - c) ** 2 for a, b, c in rows))


def n3(vectors, of_complex):
    """Σ |x|³ over the coordinates of all vectors"""
    return sum(abs(x) ** 3 for v in vectors for x in (as_complex(v) if of_complex else v))


def unstructured(h, t):
    """−‖h − t‖²"""
    return -sum((a - b) ** 2 for a, b in zip(h, t, strict=True))


def structured(h, t, head_map, tail_map):
    """−‖W_h h − W_t t‖₁"""
    return -norm(head_map @ h - tail_map @ t, 1)


def single_layer(h, t, head_map, tail_map, bias, output):
    """uᵀ tanh(W_h h + W_t t + b)"""
    layer = head_map @ h + tail_map @ t + bias
    return sum(u * math.tanh(x) for u, x in zip(output, layer, strict=True))


def bilinear(h, t, matrix):
    """hᵀ W t"""
    return sum(h[i] * matrix[i][j] * t[j] for i in range(len(h)) for j in range(len(t)))


def neural_tensor(h, t, head_map, tail_map, bias, output, slices):
    """uᵀ tanh(hᵀ W^[1…k] t + W_h h + W_t t + b)"""
    met = np.array([bilinear(h, t, matrix) for matrix in slices])
    return single_layer(h, t, head_map, tail_map, bias + met, output)


def translation_weight(triples, relation):
    """w = 1 / log(heads per tail + tails per head)"""
    return 1 / math.log(sum(answers_per_query(triples, relation)))


def weighted_translation(h, r, t, weight, alpha, p):
    """α − w ‖h + r − t‖"""
    return alpha - weight * norm(h + r - t, p)


def hyperplane(h, t, step, normal):
    """−‖h⊥ + d − t⊥‖², x⊥ = x − (w·x) w, w the normal of length 1"""
    w = normal / norm(normal, 2)
    gap = (h - (w @ h) * w) + step - (t - (w @ t) * w)
    return -(norm(gap, 2) ** 2)


def slant_penalty(step, normal, epsilon=1e-3):
    """[cos²(d, w) − ε²]₊"""
    cosine = float(step @ normal) / (norm(step, 2) * norm(normal, 2))
    return max(0.0, cosine**2 - epsilon**2)


def head_share(triples, relation):
    """Bernoulli rule: the head is replaced with probability tails per head / (tails per head + heads per tail)."""
    heads_per_tail, tails_per_head = answers_per_query(triples, relation)
    return tails_per_head / (tails_per_head + heads_per_tail)


def answer_caps(triples, belief, cap):
    """Weights of the head and the tail query of a belief: one with more than `cap` known answers counts as if it had
    that many."""
    head, relation, tail = belief
    heads = len({h for h, r, t in triples if (r, t) == (relation, tail)})
    tails = len({t for h, r, t in triples if (h, r) == (head, relation)})
    return min(1, cap / max(heads, 1)), min(1, cap / max(tails, 1))


def squares(vectors):
    """Σ x² over the coordinates of all vectors"""
    return sum(x**2 for v in vectors for x in v)


def smoothed(vectors, triples, steps):
    """x ← ½ x + ½ mean of the neighbors' x, steps times, then back to the first length"""
    count = len(vectors)
    neighbors = [{t for h, _, t in triples if h == e} | {h for h, _, t in triples if t == e} for e in range(count)]
    moved = [np.array(v, float) for v in vectors]
    for _ in range(steps):
        means = [sum((moved[n] for n in near), np.zeros_like(moved[0])) / max(len(near), 1) for near in neighbors]
        moved = [(vector + mean) / 2 for vector, mean in zip(moved, means, strict=True)]
    return np.array([v * norm(u, 2) / norm(v, 2) for u, v in zip(vectors, moved, strict=True)])


def distinguishing_features(facts, entities, group):
    """Share of every feature that may name a group: held by half of it (a fifth if it names an entity), with lift 2.

    A feature is (relation, 0, tail) of a head, (relation, 1, head) of a tail, or the same with -1, any entity.
    """
    features = {int(entity): set() for entity in entities}
    for head, relation, tail in facts.tolist():
        for entity, slot, other in ((head, 0, tail), (tail, 1, head)):
            if entity in features:
                features[entity] |= {(relation, slot, other), (relation, slot, -1)}
    shares = {}
    for number in set(group.tolist()):
        inside = [features[int(entity)] for entity in entities[group == number]]
        outside = [features[int(entity)] for entity in entities[group != number]]
        for feature in set().union(*inside):
            share = sum(feature in one for one in inside) / len(inside)
            rest = sum(feature in one for one in outside) / max(len(outside), 1)
            if share >= (0.5 if feature[2] == -1 else 0.2) and share >= 2 * rest:
                shares[number, *feature] = share
    return shares
