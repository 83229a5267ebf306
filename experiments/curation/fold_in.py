"""Fold-in of unseen entities: 200 entities of FB15k are hidden entirely, and each is folded in from 5 of its beliefs.

    python experiments/curation/fold_in.py --data DIR --work WORK

Measures filtered Hits@10 of the missing entity, on the other beliefs of the hidden entity and on its test beliefs.
The reference is a model trained on everything: it has seen the other beliefs, but not the test set. A vector that
ranks high everywhere would do well here. So the script also counts the questions an entity does not answer but for
which it is among the ten best answers. Entities with many beliefs dominate the average, so the result depends on which
5 beliefs are drawn. The figures are those of the first draw; the ratio is also given for all draws and as a mean over
entities.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from hiding import Hidden, hide, keep, model_of_all, model_of_less, options

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation import protocol
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS

PER_ENTITY, QUESTIONS, DRAWS = 5, 1000, 4


def main() -> None:
    """Measure with several draws of the known beliefs."""
    arguments = options(__doc__)
    hidden = hide(arguments.data)
    less, everything = model_of_less(hidden, arguments.work), model_of_all(hidden, arguments.work)
    draws = [measure(hidden, less, everything, draw) for draw in range(DRAWS)]
    keep("fold_in", draws[0] | {"share_by_draw": [one["others"]["share"] for one in draws]})


def measure(hidden: Hidden, less: Model, everything: Model, draw: int) -> dict[str, Any]:
    """Fold each entity in, rank its other beliefs, and compare."""
    truth = [hidden.everything, hidden.every_valid, hidden.test]
    full_filter = filter_of(everything, truth)
    less.fold_in(draw_known(hidden.of_entities, hidden.entities[0], less, draw)[0])  # builds the indexes
    asked = hidden.test.where(hidden.test.encode(less.vocabularies).seen)
    asked = asked.take(np.random.default_rng([0, 17]).permutation(len(asked))[:QUESTIONS])
    edges, full_edges = edges_of(less, asked, filter_of(less, truth)), edges_of(everything, asked, full_filter)
    seconds, ours, theirs, tested, tested_theirs = [], [], [], [], []
    intruding, intruding_theirs = [], []
    for entity in hidden.entities:
        known, others = draw_known(hidden.of_entities, entity, less, draw)
        in_test = about(hidden.test, entity, less)
        if len(known) < PER_ENTITY or not len(others):
            continue
        began = time.perf_counter(), time.process_time()
        model = less.fold_in(known)
        seconds.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        grown_filter = filter_of(model, truth)
        ours.append(ranks(model, others, grown_filter))
        theirs.append(ranks(everything, others, full_filter))
        intruding.append(intrusion(model, entity, asked, grown_filter, edges))
        intruding_theirs.append(intrusion(everything, entity, asked, full_filter, full_edges))
        if len(in_test):
            tested.append(ranks(model, in_test, grown_filter))
            tested_theirs.append(ranks(everything, in_test, full_filter))
    mine, full = hits(ours), hits(theirs)
    mine_tested, full_tested = hits(tested), hits(tested_theirs)
    return {
        "entities": len(seconds),
        "beliefs_per_entity": PER_ENTITY,
        "others": {
            "beliefs": sum(map(len, ours)) // 2,
            "hits@10": mine,
            "hits@10_trained_on_all": full,
            "share": mine / full,
            "share_by_mean_over_entities": mean_hits(ours) / mean_hits(theirs),
        },
        "test": {
            "beliefs": sum(map(len, tested)) // 2,
            "hits@10": mine_tested,
            "hits@10_trained_on_all": full_tested,
            "share": mine_tested / full_tested,
        },
        "intrusion": {
            "questions": 2 * QUESTIONS,
            "among_ten_best": float(np.mean(intruding)),
            "among_ten_best_trained_on_all": float(np.mean(intruding_theirs)),
        },
        "milliseconds": times([wall for wall, _ in seconds]),
        "processor_milliseconds": times([processor for _, processor in seconds]),
    }


def about(beliefs: Beliefs, entity: str, model: Model) -> Beliefs:
    """Beliefs that link the entity to another one, with all other names known to the model."""
    itself = (beliefs.vocabularies.entities.names == entity).to_numpy()
    known = beliefs.encode(model.vocabularies)
    head, tail = itself[beliefs.head], itself[beliefs.tail]
    return beliefs.where(
        (head ^ tail) & (known.relation >= 0) & ((known.head >= 0) | head) & ((known.tail >= 0) | tail)
    )


def draw_known(beliefs: Beliefs, entity: str, model: Model, draw: int = 0) -> tuple[Beliefs, Beliefs]:
    """Five of its beliefs at random, and the others."""
    candidates = about(beliefs, entity, model)
    order = np.random.default_rng([draw, 13]).permutation(len(candidates))
    return candidates.take(np.sort(order[:PER_ENTITY])).compact(), candidates.take(np.sort(order[PER_ENTITY:]))


def filter_of(model: Model, truth: list[Beliefs]) -> TripleIndex:
    """An index of all true triples, with the ids of the model."""
    triples = np.concatenate([part.encode(model.vocabularies).triples for part in truth])
    return TripleIndex(triples, len(model.vocabularies.entities), len(model.vocabularies.relations))


def ranks(model: Model, beliefs: Beliefs, filter_: TripleIndex) -> np.ndarray:
    """Filtered ranks of both sides, among the entities of the model."""
    asked = beliefs.encode(model.vocabularies)
    return np.concatenate([protocol.ranks(model.pbe, slot, asked, filter_).filtered for slot in ENTITY_SLOTS])


def edges_of(model: Model, beliefs: Beliefs, filter_: TripleIndex) -> list[torch.Tensor]:
    """The scores of the tenth best false head and of the tenth best false tail of each belief."""
    asked = beliefs.encode(model.vocabularies)
    edges = []
    with torch.no_grad():
        for slot in ENTITY_SLOTS:
            scores = model.pbe.logits(slot, Batch.of(asked))
            known = filter_.answers(slot, asked.head, asked.relation, asked.tail)
            scores[tuple(map(torch.from_numpy, known))] = -torch.inf
            edges.append(scores.topk(10).values[:, -1])
    return edges


def intrusion(model: Model, entity: str, beliefs: Beliefs, filter_: TripleIndex, edges: list[torch.Tensor]) -> float:
    """Share of the questions the entity does not answer for which it is among the ten best answers."""
    asked, number = beliefs.encode(model.vocabularies), model.vocabularies.entities.id(entity)
    itself, repeated = torch.tensor([number]), np.full(len(asked), number)
    with torch.no_grad():
        scores = [model.pbe.logits(slot, Batch.of(asked), itself) for slot in ENTITY_SLOTS]
    among = np.concatenate([(one[:, 0] >= edge).numpy() for one, edge in zip(scores, edges, strict=True)])
    true = [filter_.contains(repeated, asked.relation, asked.tail),
            filter_.contains(asked.head, asked.relation, repeated)]  # fmt: skip
    return float(among[~np.concatenate(true)].mean())


def times(seconds: list[float]) -> dict[str, float]:
    """Median and 95 % quantile in milliseconds."""
    return {name: round(1000 * float(np.quantile(seconds, q)), 1) for name, q in (("median", 0.5), ("95%", 0.95))}


def hits(parts: list[np.ndarray]) -> float:
    """Hits@10 over all."""
    return float((np.concatenate(parts) <= 10).mean())


def mean_hits(parts: list[np.ndarray]) -> float:
    """Hits@10 of each entity, averaged."""
    return float(np.mean([hits([part]) for part in parts]))


if __name__ == "__main__":
    main()
