"""Audit of the atlas: how many planted false beliefs are among the N most suspect, and are the suggestions right?

    python experiments/curation/audit.py --work WORK

Trains on the atlas with the settings of `doxa demo`, into `WORK/atlas`, unless that model exists. N is the number of
planted beliefs. A suggestion is right if the belief with the suggested tail is a true one of the atlas.
"""

from __future__ import annotations

import numpy as np
from hiding import keep, options

import doxa
from doxa.data.beliefs import Beliefs
from doxa.demo import atlas
from doxa.demo.run import SETTINGS


def main() -> None:
    """Train, audit, count."""
    arguments = options(__doc__, with_data=False)
    world = atlas.load()
    train = Beliefs.from_frame(world.train)
    folder = arguments.work / "atlas"
    if not (folder / "model.json").exists():
        doxa.fit(train, Beliefs.from_frame(world.valid, train.vocabularies), settings=SETTINGS).save(folder)
    model = doxa.load(folder)
    planted = int(world.planted.sum())
    suspects = model.audit(train)
    triple = ["head", "relation", "tail"]
    true = {
        row
        for part in (world.train.filter(~world.planted), world.valid, world.test)
        for row in part.select(triple).rows()
    }
    rows = suspects.to_frame().select("head", "relation", "suggestion").rows()
    false = world.planted[suspects.rows]
    right = np.array([row in true for row in rows])
    least = np.argsort(model.credence(train), kind="stable")[:planted]
    without_mentions = model.audit().to_frame().select(triple).rows()[:planted]
    false_triples = set(world.train.filter(world.planted).select(triple).rows())
    keep(
        "audit",
        {
            "planted": planted,
            "found_among_as_many_suspects": float(false[:planted].mean()),
            "found_without_mentions": sum(row in false_triples for row in without_mentions) / planted,
            "found_by_credence_alone": float(world.planted[least].mean()),
            "by_chance": float(world.planted.mean()),
            "true_tail_suggested_of_all_planted": float(right[false].mean()),
            "true_tail_suggested_of_those_found": float(right[:planted][false[:planted]].mean()),
        },
    )


if __name__ == "__main__":
    main()
