"""What curators are shown, in slow, obvious Python: candidates of completion, suspicion, vectors of new entities."""

import math

import numpy as np

from tests.reference import belief_score, credence, norm, softmax_share


def pool(facts, relation, column, share=0.3):
    """The entities in a slot (column 0 or 2) of a relation, and of slots with this share of theirs there."""
    slots = {}
    for triple in facts:
        for place in (0, 2):
            slots.setdefault((triple[1], place), set()).add(triple[place])
    here = slots.get((relation, column), set())
    return here.union(*(there for there in slots.values() if len(there & here) >= share * len(there)))


def with_answer(triple, column, entity):
    """The triple with this entity in the column."""
    return tuple(entity if place == column else value for place, value in enumerate(triple))


def candidate(world, known, pools, triple, best=5):
    """Of a new triple: log Pr, rank and number of known answers, each of head and tail, by full sums over new answers.

    `pools` are the candidates by column. A rank past `best` is best + 1.
    """
    value = belief_score(world, *triple)
    log_pr, ranks, counts = [], [], []
    for column, seen in ((0, world.seen_heads), (2, world.seen_tails)):
        every = {x: with_answer(triple, column, x) for x in range(len(world.entity))}
        scores = {x: belief_score(world, *every[x]) for x in seen if every[x] not in known}
        total = sum(math.exp(score) for score in scores.values())
        if triple[column] not in seen:  # an entity never seen in its slot joins the candidates of its own query
            total += math.exp(value)
        log_pr.append(min(value - math.log(total), 0.0) if total else 0.0)
        rank = 1 + sum(scores[x] > value for x in scores if x in pools[column])
        ranks.append(min(rank, best + 1))
        counts.append(sum(answer in known for answer in every.values()))
    return log_pr, ranks, counts


def candidates(world, facts, known, relation, about=None, best=5):
    """All new pairs of entities of the pools that are among the best answers of a query: {triple: its features}.

    With `about`, of a query about one of these entities.
    """
    pools = {column: pool(facts, relation, column) for column in (0, 2)}
    rows = {}
    for triple in ((h, relation, t) for h in pools[0] for t in pools[2]):
        if triple not in known:
            features = candidate(world, known, pools, triple, best)
            asked = [triple[2], triple[0]]  # the head is an answer to a query about the tail
            answers = [triple[0] in world.seen_heads, triple[2] in world.seen_tails]
            ranked = zip(features[1], answers, asked, strict=True)
            if any(answer and rank <= best and (about is None or entity in about) for rank, answer, entity in ranked):
                rows[triple] = features
    return rows


def suspicion(world, belief, known, alternative):
    """− logit credence, the surprise of likelier known answers, and the lead of the best other answer on each side.

    Credence is the logistic of log Pr(h,r,t) here; the surprise − log of the share of questions with several answers.
    """
    h, r, t = belief
    total = -math.log(credence(world, h, r, t, []))
    better_tail, sides = None, []
    for column, truth, seen in ((0, h, world.seen_heads), (2, t, world.seen_tails)):
        put = (lambda x: (x, r, t)) if column == 0 else (lambda x: (h, r, x))
        true_score = belief_score(world, h, r, t)
        leads = {x: belief_score(world, *put(x)) - true_score for x in range(len(world.entity)) if x != truth}
        best = max((x for x in seen if x != truth), key=lambda x: leads[x])
        total += alternative * max(leads[best], 0)
        groups = {}
        for one in known:
            if one[1] == r:
                groups.setdefault(one[2 - column], set()).add(one[column])
        share = (sum(len(answers) > 1 for answers in groups.values()) + 1) / (len(groups) + 2)
        rivals = [x for x in leads if put(x) in known and leads[x] > 0]
        total += -math.log(share) if rivals else 0
        sides.append(max(rivals, key=lambda x: leads[x]) if rivals else -1)
        better_tail = best if column == 2 and leads[best] > 0 else -1
    return total, better_tail, sides


def settled(world, beliefs, start, spread, steps, rate, other, firmness, sharpness):
    """The vector of an entity x the world lacks, from beliefs (h, r, t) in which x is None and where it was put first.

    Adagrad on Σ log Pr(x|r,t) + other · log Pr(t|x,r) − firmness ‖z‖² of x = start + spread · z, gradients by
    differences.
    """
    known = list(world.entity)

    def value(head, r, tail):
        return world.scale * (world.alpha - norm(head + world.relation[r] - tail, world.p))

    def true(belief, x):
        h, r, t = belief
        return value(x, r, world.entity[t]) if h is None else value(world.entity[h], r, x)

    def asked(belief, x):
        h, r, _ = belief
        return [value(x, r, e) if h is None else value(e, r, x) for e in known]

    def loss(z):
        x = start + spread * z
        total = firmness * sum(z * z)
        for belief in beliefs:
            true_value = true(belief, x)
            total -= math.log(softmax_share(true_value, [true_value, *(true(belief, e) for e in known)]))
            total -= other * math.log(softmax_share(true_value, [true_value, *asked(belief, x)]))
        return total

    def suits(e):
        shares = [softmax_share(true(belief, e), [true(belief, rival) for rival in known]) for belief in beliefs]
        return math.prod(shares) ** sharpness

    weights = [suits(e) for e in known]
    start = (start + sum(w * e for w, e in zip(weights, known, strict=True)) / sum(weights)) / 2
    z, past = np.zeros(len(start)), np.zeros(len(start))
    for step in range(steps):
        gradient = np.array([(loss(z + d) - loss(z - d)) / 2e-6 for d in 1e-6 * np.eye(len(z))])
        past += gradient**2
        z = z - rate * (1 - step / steps) * gradient / (np.sqrt(past) + 1e-10)
    return start + spread * z
