"""Growth of FB15k without training anew, twice: the model of what is left learns the tenth that was hidden, or that and
all beliefs of the 200 hidden entities.

    python experiments/curation/updating.py --data DIR --work WORK

Filtered MRR on a sample of the test set, beside the model that learnt the same from the start. Time is that of the
processor, since the machine is shared; training anew counts as so many times its first epoch, validation and
calibration left out.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from hiding import SETTINGS, Hidden, hide, keep, model_of_all, model_of_less, model_of_more, options

from doxa.curation.update import update
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import head_ranks, tail_ranks
from doxa.evaluation.ranks import Metrics
from doxa.model import Model
from doxa.systems import build, recipe
from doxa.training.automatic import chosen
from doxa.training.loop import Trainer

TESTED = 2500


def main() -> None:
    """Update, and compare with what was learnt from everything."""
    given = options(__doc__)
    hidden = hide(given.data)
    less = model_of_less(hidden, given.work)
    some, left = hidden.some.to_frame(), hidden.left.to_frame()
    both = Beliefs.from_frame(some.vstack(hidden.strange.to_frame()))
    found = {
        "a_tenth": grown(hidden, less, model_of_more(hidden, given.work), Beliefs.from_frame(some),
                         Beliefs.from_frame(left.vstack(some))),
        "with_new_entities": grown(hidden, less, model_of_all(hidden, given.work), both, hidden.everything),
    }  # fmt: skip
    keep("updating", found)


def grown(hidden: Hidden, less: Model, anew: Model, new: Beliefs, everything: Beliefs) -> dict[str, Any]:
    """`less` updated with the new beliefs beside the model that learnt everything anew."""
    known = hidden.test.where(hidden.test.encode(anew.names).seen)
    rows = np.random.default_rng([0, 16]).permutation(len(known))[:TESTED]
    test = known.take(np.sort(rows))
    began = time.process_time()
    found = update(less, new)
    seconds = time.process_time() - began
    truth = [hidden.everything, hidden.every_valid, hidden.test]
    mrr = {name: quality(model, test, truth) for name, model in (("before", less), ("updated", found.model),
                                                                 ("anew", anew))}  # fmt: skip
    whole = SETTINGS["epochs"] * epoch_seconds(everything)
    return {
        "old_beliefs": len(hidden.left),
        "new_beliefs": len(new),
        "new_entities": found.counts["new_entities"],
        "processor_seconds": {"update": round(seconds, 1), "anew": round(whole, 1), "share": seconds / whole},
        "filtered_mrr": mrr,
        "points_lost": 100 * (mrr["anew"] - mrr["updated"]),
        "drift": vars(found.drift),
    }


def quality(model: Model, test: Beliefs, truth: list[Beliefs]) -> float:
    """Filtered MRR of both sides; a belief with an entity the model never saw counts as a guess."""
    asked = test.encode(model.vocabularies)
    triples = np.concatenate([part.encode(model.vocabularies).triples for part in truth])
    filter_ = TripleIndex(triples, len(model.vocabularies.entities), len(model.vocabularies.relations))
    return Metrics.of(
        np.concatenate([side(model.pbe, asked, filter_).filtered for side in (head_ranks, tail_ranks)])
    ).mrr


def epoch_seconds(beliefs: Beliefs) -> float:
    """Processor time of one epoch of training, validation and calibration left out."""
    settings = chosen(recipe(SETTINGS | {"epochs": 1}), beliefs)
    trainer = Trainer(build(beliefs, settings), beliefs, settings)
    began = time.process_time()
    trainer.run()
    return time.process_time() - began


if __name__ == "__main__":
    main()
