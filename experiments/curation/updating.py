"""Growth of FB15k without training anew: the model of what is left learns all that was hidden.

    python experiments/curation/updating.py --data DIR --work WORK

That is an eighth more beliefs, with 200 new entities. Filtered MRR on a sample of the test set, beside the model that
learnt everything from the start. Time is that of the processor, since the machine is shared; that of training anew is
worked out from one epoch and from two.
"""

from __future__ import annotations

import time

import numpy as np
from hiding import SETTINGS, hide, keep, model_of_all, model_of_less, options

import doxa
from doxa.beliefs import Beliefs
from doxa.evaluation.protocol import head_ranks, tail_ranks
from doxa.evaluation.ranks import Metrics
from doxa.facts import Facts
from doxa.model import Model
from doxa.updating import update

TESTED = 10_000


def main() -> None:
    """Update, and compare with what was learnt from everything."""
    given = options(__doc__)
    hidden = hide(given.data)
    less, everything = model_of_less(hidden, given.work), model_of_all(hidden, given.work)
    rows = np.random.default_rng([0, 16]).permutation(len(hidden.test))[:TESTED]
    test = hidden.test.take(np.sort(rows))
    new = Beliefs.from_table(hidden.some.to_table().vstack(hidden.strange.to_table()))
    began = time.process_time()
    found = update(less, new)
    seconds = time.process_time() - began
    truth = [hidden.everything, hidden.every_valid, hidden.test]
    mrr = {name: quality(model, test, truth) for name, model in (("before", less), ("updated", found.model),
                                                                 ("anew", everything))}  # fmt: skip
    once, twice = (learning_seconds(hidden.everything, hidden.every_valid, epochs) for epochs in (1, 2))
    anew = once + (SETTINGS["epochs"] - 1) * (twice - once)
    keep(
        "updating",
        {
            "old_beliefs": len(hidden.left),
            "new_beliefs": len(new),
            "new_entities": found.done["new_entities"],
            "processor_seconds": {"update": round(seconds, 1), "anew": round(anew, 1), "share": seconds / anew},
            "filtered_mrr": mrr,
            "points_lost": 100 * (mrr["anew"] - mrr["updated"]),
            "drift": vars(found.drift),
        },
    )


def quality(model: Model, test: Beliefs, truth: list[Beliefs]) -> float:
    """Filtered MRR of both sides; a belief with an entity the model never saw counts as a guess."""
    asked = test.encoded(model.names)
    triples = np.concatenate([part.encoded(model.names).triples for part in truth])
    filter_ = Facts(triples, len(model.names.entities), len(model.names.relations))
    return Metrics.of(
        np.concatenate([side(model.pbe, asked, filter_).filtered for side in (head_ranks, tail_ranks)])
    ).mrr


def learning_seconds(beliefs: Beliefs, valid: Beliefs, epochs: int) -> float:
    """Processor time of training."""
    began = time.process_time()
    doxa.fit(beliefs, valid, **(SETTINGS | {"epochs": epochs}))
    return time.process_time() - began


if __name__ == "__main__":
    main()
