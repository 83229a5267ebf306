"""The audit of the atlas: how many of its planted falsehoods are among as many suspects, and are they put right?

    python experiments/curation/audit.py --work WORK

Learns the atlas as `doxa demo` does, into `WORK/atlas` unless it is there. A suggestion is right when the belief it
makes is a true one of the atlas.
"""

from __future__ import annotations

import numpy as np
from hiding import keep, options

import doxa
from doxa.data.beliefs import Beliefs
from doxa.demo import atlas
from doxa.demo.run import SETTINGS


def main() -> None:
    """Learn, audit, count."""
    given = options(__doc__, with_data=False)
    world = atlas.load()
    train = Beliefs.from_frame(world.train)
    folder = given.work / "atlas"
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
    bare = model.audit()
    false_ones = set(world.train.filter(world.planted).select(triple).rows())
    found_bare = sum(row in false_ones for row in bare.to_frame().select(triple).rows()[:planted])
    keep(
        "audit",
        {
            "planted": planted,
            "found_among_as_many_suspects": float(false[:planted].mean()),
            "found_without_mentions": found_bare / planted,
            "found_by_credence_alone": float(world.planted[least].mean()),
            "by_chance": float(world.planted.mean()),
            "true_tail_suggested_of_all_planted": float(right[false].mean()),
            "true_tail_suggested_of_those_found": float(right[:planted][false[:planted]].mean()),
        },
    )


if __name__ == "__main__":
    main()
