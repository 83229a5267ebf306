"""Entities never seen: 200 of FB15k are hidden entirely, and each is folded in from 5 of its beliefs.

    python experiments/curation/fold_in.py --data DIR --work WORK

Filtered Hits@10 of the missing side of its other beliefs, where the rest is known, and of its beliefs in the test set,
which the model of everything has not seen either; beside it the model of everything, which has learnt from all of
them. A vector that ranks high everywhere would do well by this, so it is also counted to how many questions that it
does not answer an entity is among the ten best answers. The entities with most beliefs weigh most, so much hangs on
which 5 are drawn: the figures are those of the first draw, and beside them stand the shares of all draws, and the
share by the mean over entities.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from hiding import Hidden, hide, keep, model_of_all, model_of_less, options

from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import head_ranks, tail_ranks
from doxa.model import Model

GIVEN, ASKED, DRAWS = 5, 1000, 4


def main() -> None:
    """Measure with several draws of the beliefs given."""
    given = options(__doc__)
    hidden = hide(given.data)
    less, everything = model_of_less(hidden, given.work), model_of_all(hidden, given.work)
    found = [measure(hidden, less, everything, draw) for draw in range(DRAWS)]
    keep("fold_in", found[0] | {"share_by_draw": [one["others"]["share"] for one in found]})


def measure(hidden: Hidden, less: Model, everything: Model, draw: int) -> dict[str, Any]:
    """Fold each entity in, rank what else is true of it, and compare."""
    truth = [hidden.everything, hidden.every_valid, hidden.test]
    full_filter = filter_of(everything, truth)
    less.fold_in(some_of(hidden.strange, hidden.entities[0], less, draw)[0])  # indexes are made once
    asked = hidden.test.where(hidden.test.encode(less.names).seen)
    asked = asked.take(np.random.default_rng([0, 17]).permutation(len(asked))[:ASKED])
    edges, full_edges = edges_of(less, asked, filter_of(less, truth)), edges_of(everything, asked, full_filter)
    seconds, ours, theirs, tested, tested_theirs = [], [], [], [], []
    intruding, intruding_theirs = [], []
    for entity in hidden.entities:
        told, others = some_of(hidden.strange, entity, less, draw)
        in_test = about(hidden.test, entity, less)
        if len(told) < GIVEN or not len(others):
            continue
        began = time.perf_counter(), time.process_time()
        model = less.fold_in(told)
        seconds.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        own_filter = filter_of(model, truth)
        ours.append(ranks(model, others, own_filter))
        theirs.append(ranks(everything, others, full_filter))
        intruding.append(intrusion(model, entity, asked, own_filter, edges))
        intruding_theirs.append(intrusion(everything, entity, asked, full_filter, full_edges))
        if len(in_test):
            tested.append(ranks(model, in_test, own_filter))
            tested_theirs.append(ranks(everything, in_test, full_filter))
    mine, full = hits(ours), hits(theirs)
    mine_tested, full_tested = hits(tested), hits(tested_theirs)
    return {
        "entities": len(seconds),
        "beliefs_given": GIVEN,
        "others": {
            "beliefs": sum(map(len, ours)) // 2,
            "hits@10": mine,
            "hits@10_learnt_from_all": full,
            "share": mine / full,
            "share_by_mean_over_entities": mean_hits(ours) / mean_hits(theirs),
        },
        "test": {
            "beliefs": sum(map(len, tested)) // 2,
            "hits@10": mine_tested,
            "hits@10_learnt_from_all": full_tested,
            "share": mine_tested / full_tested,
        },
        "intrusion": {
            "questions": 2 * ASKED,
            "among_ten_best": float(np.mean(intruding)),
            "among_ten_best_learnt_from_all": float(np.mean(intruding_theirs)),
        },
        "milliseconds": times([wall for wall, _ in seconds]),
        "processor_milliseconds": times([processor for _, processor in seconds]),
    }


def about(beliefs: Beliefs, entity: str, model: Model) -> Beliefs:
    """Beliefs that join the entity with another, the rest of which the model knows."""
    own = (beliefs.vocabularies.entities.names == entity).to_numpy()
    known = beliefs.encode(model.vocabularies)
    head, tail = own[beliefs.head], own[beliefs.tail]
    return beliefs.where(
        (head ^ tail) & (known.relation >= 0) & ((known.head >= 0) | head) & ((known.tail >= 0) | tail)
    )


def some_of(beliefs: Beliefs, entity: str, model: Model, draw: int = 0) -> tuple[Beliefs, Beliefs]:
    """Five of its beliefs at random, and the others."""
    found = about(beliefs, entity, model)
    order = np.random.default_rng([draw, 13]).permutation(len(found))
    return found.take(np.sort(order[:GIVEN])).compact(), found.take(np.sort(order[GIVEN:]))


def filter_of(model: Model, truth: list[Beliefs]) -> TripleIndex:
    """All that is true, in the model's ids."""
    triples = np.concatenate([part.encode(model.vocabularies).triples for part in truth])
    return TripleIndex(triples, len(model.vocabularies.entities), len(model.vocabularies.relations))


def ranks(model: Model, beliefs: Beliefs, filter_: TripleIndex) -> np.ndarray:
    """Filtered ranks of both sides, among the model's own entities."""
    asked = beliefs.encode(model.vocabularies)
    return np.concatenate([side(model.pbe, asked, filter_).filtered for side in (head_ranks, tail_ranks)])


def edges_of(model: Model, beliefs: Beliefs, filter_: TripleIndex) -> list[torch.Tensor]:
    """The score of the tenth best false head, and that of the tenth best false tail, of each belief."""
    asked = beliefs.encode(model.vocabularies)
    head, relation, tail = map(torch.from_numpy, (asked.head, asked.relation, asked.tail))
    edges = []
    with torch.no_grad():
        for scores, known in (
            (model.pbe.head_logits(relation, tail), filter_.heads(asked.relation, asked.tail)),
            (model.pbe.tail_logits(head, relation), filter_.tails(asked.head, asked.relation)),
        ):
            scores[tuple(map(torch.from_numpy, known))] = -torch.inf
            edges.append(scores.topk(10).values[:, -1])
    return edges


def intrusion(model: Model, entity: str, beliefs: Beliefs, filter_: TripleIndex, edges: list[torch.Tensor]) -> float:
    """The share of the questions it does not answer for which the entity is among the ten best answers."""
    asked, own = beliefs.encode(model.vocabularies), model.vocabularies.entities.id(entity)
    head, relation, tail = map(torch.from_numpy, (asked.head, asked.relation, asked.tail))
    itself, all_of_it = torch.tensor([own]), np.full(len(asked), own)
    with torch.no_grad():
        scores = (model.pbe.head_logits(relation, tail, itself), model.pbe.tail_logits(head, relation, itself))
    among = np.concatenate([(one[:, 0] >= edge).numpy() for one, edge in zip(scores, edges, strict=True)])
    true = [filter_.contains(all_of_it, asked.relation, asked.tail),
            filter_.contains(asked.head, asked.relation, all_of_it)]  # fmt: skip
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
