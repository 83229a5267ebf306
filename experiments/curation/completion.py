"""Completion of FB15k with a tenth of its beliefs hidden, and of the atlas: does credence hold for proposals?

    python experiments/curation/completion.py --data DIR --work WORK

Ranges of credence: how many proposals are expected to be right and how many are. On FB15k with the default base rate, a
proposal is right if it is one of the hidden beliefs; with the base rate of hidden and test beliefs together, if it is
one of both. On the atlas, with the default base rate, it is right if it is a test belief. The baseline proposes the
most popular pairs of each relation.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from hiding import hide, keep, model_of_less, options

import doxa
from doxa.curation.complete import Proposals
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.demo import atlas
from doxa.demo.run import SETTINGS
from doxa.evaluation.popularity import Popularity
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS

RANGES = ((0.02, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0))
EVERY = 3_000_000


def main() -> None:
    """Hide, train, complete, count."""
    arguments = options(__doc__)
    keep("completion", {"fb15k": of_fb15k(arguments.data, arguments.work), "atlas": of_atlas(arguments.work)})


def of_fb15k(data: Path, work: Path) -> dict[str, Any]:
    """The figures on FB15k."""
    hidden = hide(data)
    model = model_of_less(hidden, work)
    wanted = facts_of(model, hidden.random)
    both = wanted.union(facts_of(model, hidden.test).triples)
    began = time.monotonic()
    proposals = model.complete(top=EVERY, min_credence=RANGES[0][0])
    seconds = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    hits, also = (facts.contains(*proposals.triples.T) for facts in (wanted, both))
    popular = wanted.contains(*most_popular(model, len(wanted)).T)
    count = len(wanted)
    base_rate = len(both) / (len(both) + len(model.trained_facts))
    more = model.complete(top=EVERY, min_credence=RANGES[0][0], base_rate=base_rate)
    return {
        "hidden": count,
        "precision": float(hits[:count].mean()),
        "recall": float(hits[:count].sum() / count),
        "precision_of_the_first": {str(first): float(hits[:first].mean()) for first in (100, 1000, 10_000)},
        "hidden_or_in_test": {str(first): float(also[:first].mean()) for first in (100, 1000, 10_000, count)},
        "popularity_precision": float(popular.mean()),
        "seconds": round(seconds, 1),
        "peak_rss_mb": round(peak),
        "ranges": ranges(proposals, wanted),
        "base_rate_with_test": base_rate,
        "ranges_with_test": ranges(more, both),
    }


def of_atlas(work: Path) -> dict[str, Any]:
    """The figures on the atlas."""
    world = atlas.load()
    train = Beliefs.from_frame(world.train)
    folder = work / "atlas"
    if not (folder / "model.json").exists():
        doxa.fit(train, Beliefs.from_frame(world.valid, train.vocabularies), settings=SETTINGS).save(folder)
    model = doxa.load(folder)
    test = facts_of(model, Beliefs.from_frame(world.test))
    proposals = model.complete(top=EVERY, min_credence=RANGES[0][0])
    hits = test.contains(*proposals.triples.T)
    return {
        "test": len(test),
        "precision_of_the_first": {str(first): float(hits[:first].mean()) for first in (100, 1000)},
        "ranges": ranges(proposals, test),
    }


def ranges(proposals: Proposals, right: TripleIndex) -> list[dict[str, float]]:
    """Expected and measured precision of the proposals in each range of credence."""
    hits = right.contains(*proposals.triples.T)
    rows = []
    for low, high in RANGES:
        within = (proposals.credence >= low) & ((proposals.credence < high) | (high == 1))
        if within.any():
            expected, measured = float(proposals.credence[within].mean()), float(hits[within].mean())
            rows.append({"from": low, "to": high, "proposals": int(within.sum()), "expected": round(expected, 4),
                         "measured": round(measured, 4)})  # fmt: skip
    return rows


def facts_of(model: Model, beliefs: Beliefs) -> TripleIndex:
    """An index of beliefs with the ids of the model."""
    triples = beliefs.encode(model.vocabularies).triples
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


if __name__ == "__main__":
    main()
