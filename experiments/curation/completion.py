"""Completion of FB15k with a tenth of its beliefs hidden: how many come back, how exactly, in what time and memory?

    python experiments/curation/completion.py --data DIR --work WORK

As many proposals as beliefs are hidden. Beside them: the most popular pairs of each relation; and for some relations
every candidate pair scored one by one, whose best must be the same list. Proposals that stand in the test set are true
without being among the hidden.
"""

from __future__ import annotations

import resource
import time

import numpy as np
from hiding import hide, keep, model_of_less, options

from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.popularity import Popularity
from doxa.model import Model

EXHAUSTIVE_PAIRS = 150_000


def main() -> None:
    """Hide, learn, complete, count."""
    given = options(__doc__)
    hidden = hide(given.data)
    model = model_of_less(hidden, given.work)
    wanted = hidden.some.encode(model.vocabularies)
    answers = facts_of(model, wanted.triples)
    tested = facts_of(model, hidden.test.encode(model.vocabularies).triples)
    began = time.monotonic()
    found = model.complete(top=len(wanted), min_credence=0.0)
    seconds = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    hits = answers.contains(*found.triples.T)
    also = tested.contains(*found.triples.T)
    popular = answers.contains(*most_popular(model, len(wanted)).T)
    shares = {str(count): float(hits[:count].mean()) for count in (100, 1000, 10_000)}
    keep(
        "completion",
        {
            "hidden": len(wanted),
            "proposals": len(found),
            "precision": float(hits.mean()),
            "recall": float(hits.sum() / len(answers)),
            "precision_of_the_first": shares,
            "hidden_or_in_test": float((hits | also).mean()),
            "popularity_precision": float(popular.mean()),
            "seconds": round(seconds, 1),
            "peak_rss_mb": round(peak),
            "exhaustive": exhaustive(model),
        },
    )


def facts_of(model: Model, triples: np.ndarray) -> TripleIndex:
    """TripleIndex in the model's ids."""
    return TripleIndex(triples, len(model.vocabularies.entities), len(model.vocabularies.relations))


def most_popular(model: Model, count: int) -> np.ndarray:
    """The new pairs of highest (times seen as head) · (times seen as tail) · of the relation, over all relations."""
    facts = model.trained_facts
    popularity = Popularity(facts)
    best, score = np.zeros((0, 3), np.int64), np.zeros(0)
    for relation in range(facts.relations):
        pools = [entity[of == relation] for of, entity in (facts.positions(0), facts.positions(2))]
        heads, tails = np.repeat(pools[0], len(pools[1])), np.tile(pools[1], len(pools[0]))
        triples = np.stack([heads, np.full_like(heads, relation), tails], axis=1)
        triples = triples[~model.known.contains(*triples.T)]
        best = np.concatenate([best, triples])
        score = np.concatenate([score, popularity.plausibility(Beliefs.from_triples(model.vocabularies, triples))])
        kept = np.argsort(-score, kind="stable")[:count]
        best, score = best[kept], score[kept]
    return best


def exhaustive(model: Model) -> dict[str, float]:
    """Every pair of some relations judged one by one, and the same relations completed."""
    facts = model.trained_facts
    of_heads, of_tails = facts.positions(0), facts.positions(2)
    sizes = np.bincount(of_heads[0], minlength=facts.relations) * np.bincount(of_tails[0], minlength=facts.relations)
    chosen, total = [], 0
    for relation in np.argsort(-facts.counts, kind="stable"):
        if sizes[relation] >= 2000 and total + sizes[relation] <= EXHAUSTIVE_PAIRS:
            chosen.append(int(relation))
            total += int(sizes[relation])
    pairs = []
    for relation in chosen:
        heads, tails = of_heads[1][of_heads[0] == relation], of_tails[1][of_tails[0] == relation]
        grid = np.stack(np.meshgrid(heads, [relation], tails, indexing="ij"), axis=-1).reshape(-1, 3)
        loops = (facts.triples[:, 1] == relation) & (facts.triples[:, 0] == facts.triples[:, 2])
        pairs.append(grid if loops.any() else grid[grid[:, 0] != grid[:, 2]])
    triples = np.concatenate(pairs)
    triples = triples[~model.known.contains(*triples.T)]
    began = time.monotonic()
    credence = model.credence(Beliefs.from_triples(model.vocabularies, triples))
    slow = time.monotonic() - began
    names = [model.vocabularies.relations[relation] for relation in chosen]
    began = time.monotonic()
    found = model.complete(relations=names, min_credence=0.0, top=1000)
    quick = time.monotonic() - began
    edge = np.sort(credence)[-1000]
    surely = triples[credence > edge + 1e-5]
    same = facts_of(model, found.triples).contains(*surely.T)
    return {
        "relations": len(chosen),
        "pairs": len(triples),
        "above_the_edge": len(surely),
        "of_these_in_the_list": float(same.mean()),
        "largest_difference_of_credence": float(
            np.abs(np.sort(model.credence(found.beliefs))[::-1] - np.sort(credence)[::-1][:1000]).max()
        ),
        "seconds_one_by_one": round(slow, 1),
        "seconds_complete": round(quick, 1),
    }


if __name__ == "__main__":
    main()
