"""Updates of a model of FB15k instead of training again, in two cases: the model of the remaining beliefs gets the
hidden tenth, or the hidden tenth and all beliefs of the 200 hidden entities.

    python experiments/curation/updating.py --data DIR --work WORK

Measures filtered MRR on a sample of the test set, against the model trained on the same beliefs from the start. Times
are processor times, since the machine is shared. The time of training again is the time of one epoch times the number
of epochs, without validation and calibration.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from hiding import SETTINGS, Hidden, hide, keep, model_of_all, model_of_less, model_of_more, options

from doxa.curation.update import update
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS
from doxa.systems import build, recipe
from doxa.training.loop import TrainingLoop
from doxa.training.plan import automatic
from doxa.training.steps import Steps

TESTED = 2500


def main() -> None:
    """Update, and compare with the models trained from the start."""
    arguments = options(__doc__)
    hidden = hide(arguments.data)
    less = model_of_less(hidden, arguments.work)
    random, left = hidden.random.to_frame(), hidden.left.to_frame()
    both = Beliefs.from_frame(random.vstack(hidden.of_entities.to_frame()))
    figures = {
        "a_tenth": compare(hidden, less, model_of_more(hidden, arguments.work), Beliefs.from_frame(random),
                         Beliefs.from_frame(left.vstack(random))),
        "with_new_entities": compare(hidden, less, model_of_all(hidden, arguments.work), both, hidden.everything),
    }  # fmt: skip
    keep("updating", figures)


def compare(hidden: Hidden, less: Model, anew: Model, new: Beliefs, everything: Beliefs) -> dict[str, Any]:
    """`less` updated with the new beliefs, against the model trained on everything."""
    known = hidden.test.where(hidden.test.encode(anew.vocabularies).seen)
    rows = np.random.default_rng([0, 16]).permutation(len(known))[:TESTED]
    test = known.take(np.sort(rows))
    began = time.process_time()
    updated = update(less, new)
    seconds = time.process_time() - began
    truth = [hidden.everything, hidden.every_valid, hidden.test]
    mrr = {name: filtered_mrr(model, test, truth) for name, model in (("before", less), ("updated", updated.model),
                                                                 ("anew", anew))}  # fmt: skip
    whole = SETTINGS["epochs"] * epoch_seconds(everything)
    return {
        "old_beliefs": len(hidden.left),
        "new_beliefs": len(new),
        "new_entities": updated.counts["new_entities"],
        "processor_seconds": {"update": round(seconds, 1), "anew": round(whole, 1), "share": seconds / whole},
        "filtered_mrr": mrr,
        "points_lost": 100 * (mrr["anew"] - mrr["updated"]),
        "drift": vars(updated.drift),
    }


def filtered_mrr(model: Model, test: Beliefs, truth: list[Beliefs]) -> float:
    """Filtered MRR of heads and tails; a belief with an unseen entity counts as a guess."""
    asked = test.encode(model.vocabularies)
    triples = np.concatenate([part.encode(model.vocabularies).triples for part in truth])
    filter_ = TripleIndex(triples, len(model.vocabularies.entities), len(model.vocabularies.relations))
    return Metrics.of(np.concatenate([ranks(model.pbe, slot, asked, filter_).filtered for slot in ENTITY_SLOTS])).mrr


def epoch_seconds(beliefs: Beliefs) -> float:
    """Processor time of one training epoch, without validation and calibration."""
    settings = automatic(recipe(SETTINGS | {"epochs": 1}), len(beliefs), len(beliefs.vocabularies.entities))
    loop = TrainingLoop(Steps(build(beliefs, settings), beliefs, settings))
    began = time.process_time()
    loop.run()
    return time.process_time() - began


if __name__ == "__main__":
    main()
