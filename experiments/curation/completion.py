"""Completion of FB15k with a tenth of its beliefs hidden: precision, recall, exactness, time and memory.

    python experiments/curation/completion.py --data DIR --work WORK

Makes as many proposals as there are hidden beliefs. The baseline proposes the most popular pairs of each relation. For
some relations every candidate pair is also scored one by one; the best of them must be the same list. Proposals in the
test set are true without being hidden beliefs.
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
from doxa.slots import ENTITY_SLOTS

EXHAUSTIVE_PAIRS = 150_000


def main() -> None:
    """Hide, train, complete, count."""
    arguments = options(__doc__)
    hidden = hide(arguments.data)
    model = model_of_less(hidden, arguments.work)
    wanted = hidden.random.encode(model.vocabularies)
    answers = facts_of(model, wanted.triples)
    tested = facts_of(model, hidden.test.encode(model.vocabularies).triples)
    began = time.monotonic()
    proposals = model.complete(top=len(wanted), min_credence=0.0)
    seconds = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    hits = answers.contains(*proposals.triples.T)
    also = tested.contains(*proposals.triples.T)
    popular = answers.contains(*most_popular(model, len(wanted)).T)
    shares = {str(count): float(hits[:count].mean()) for count in (100, 1000, 10_000)}
    keep(
        "completion",
        {
            "hidden": len(wanted),
            "proposals": len(proposals),
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
    """An index of triples with the ids of the model."""
    return TripleIndex(triples, len(model.vocabularies.entities), len(model.vocabularies.relations))


def most_popular(model: Model, count: int) -> np.ndarray:
    """The new triples with the highest product of head and tail frequency in the relation, over all relations."""
    facts = model.trained_facts
    popularity = Popularity(facts)
    best, score = np.zeros((0, 3), np.int64), np.zeros(0)
    for relation in range(facts.relations):
        pools = [entity[of == relation] for of, entity in map(facts.seen, ENTITY_SLOTS)]
        heads, tails = np.repeat(pools[0], len(pools[1])), np.tile(pools[1], len(pools[0]))
        triples = np.stack([heads, np.full_like(heads, relation), tails], axis=1)
        triples = triples[~model.known.contains(*triples.T)]
        best = np.concatenate([best, triples])
        score = np.concatenate([score, popularity.plausibility(Beliefs.from_triples(model.vocabularies, triples))])
        kept = np.argsort(-score, kind="stable")[:count]
        best, score = best[kept], score[kept]
    return best


def exhaustive(model: Model) -> dict[str, float]:
    """Judge every pair of several relations one by one, complete the same relations, and compare."""
    facts = model.trained_facts
    of_heads, of_tails = map(facts.seen, ENTITY_SLOTS)
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
    proposals = model.complete(relations=names, min_credence=0.0, top=1000)
    quick = time.monotonic() - began
    edge = np.sort(credence)[-1000]
    surely = triples[credence > edge + 1e-5]
    same = facts_of(model, proposals.triples).contains(*surely.T)
    return {
        "relations": len(chosen),
        "pairs": len(triples),
        "above_the_edge": len(surely),
        "of_these_in_the_list": float(same.mean()),
        "largest_difference_of_credence": float(
            np.abs(np.sort(model.credence(proposals.beliefs))[::-1] - np.sort(credence)[::-1][:1000]).max()
        ),
        "seconds_one_by_one": round(slow, 1),
        "seconds_complete": round(quick, 1),
    }


if __name__ == "__main__":
    main()
