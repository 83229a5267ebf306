"""Labels on the atlas: how far do a few, many of one relation, and thousands move the credence of the demo's model?

    python experiments/curation/labels.py --work WORK

Trains on the atlas with the settings of `doxa demo`, into `WORK/atlas`, unless that model exists. Three measurements,
each with SEEDS draws of labels:

- FEW labels as a curator makes them: true and corrupted test beliefs; suspects of `audit` with their real labels;
  proposals of `complete`, true if they are test beliefs. Measured on the true test beliefs.
- MANY beliefs of one relation, all labeled false, for each relation that has as many: known beliefs, proposals of
  `complete`, and corrupted beliefs, which the model rejects anyway. Measured on the true test beliefs of the relation.
- THOUSANDS of labels from half of the test beliefs, true and corrupted. Measured on the other half, against the ECE
  that a perfectly calibrated model with the same credences would show on as many beliefs (the floor).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hiding import keep, options
from numpy.typing import NDArray

import doxa
from doxa.calibration.contradictions import surprise
from doxa.calibration.curves import Curve
from doxa.calibration.rules import calibration_input
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import corrupt_triples
from doxa.demo import atlas
from doxa.demo.run import SETTINGS
from doxa.evaluation.calibration import Reliability
from doxa.model import Model

SEEDS, FEW, MANY, THOUSANDS = 10, 18, 200, 2000
TRIPLE = ["head", "relation", "tail"]

Rows = NDArray[np.int64]
Labels = tuple["Scored", NDArray[np.bool_]]


class Scored(NamedTuple):
    """Beliefs as the calibration curve sees them: its inputs, their relations, and what contradictions take away."""

    inputs: NDArray[np.float64]
    relation: Rows
    against: NDArray[np.float64]

    def take(self, rows: Any) -> Scored:
        return Scored(*(column[rows] for column in self))

    def concat(self, other: Scored) -> Scored:
        return Scored(*(np.append(*columns) for columns in zip(self, other, strict=True)))

    def credence(self, curve: Curve) -> NDArray[np.float64]:
        return curve.probability(self.inputs, self.relation, against=self.against)


@dataclass(frozen=True, eq=False)
class World:
    """The atlas with its model; `true` are the test beliefs with known names, `plain` the same without mentions, and
    `false` several corrupted ones of each, made from the row `source` of `true`."""

    atlas: atlas.Atlas
    model: Model
    true: Scored
    plain: Scored
    false: Scored
    source: Rows

    def score(self, beliefs: Beliefs) -> Scored:
        """Beliefs with known names, scored."""
        known, judge = beliefs.encode(self.model.vocabularies), self.model.calibration
        inputs = calibration_input(self.model.pbe, known, judge.rule, judge.mention_exponent)
        against = judge.contradictions.against(surprise(self.model.pbe, known, self.model.known))
        return Scored(inputs, known.relation, against)


def main() -> None:
    """Train, label, measure."""
    world = load(options(__doc__, with_data=False).work / "atlas")
    keep("labels", {"few": few(world), "thousands": thousands(world), "one_relation": one_relation(world)})


def load(folder: Path) -> World:
    """The model, trained unless it exists, and the labeled test beliefs."""
    table = atlas.load()
    train = Beliefs.from_frame(table.train)
    if not (folder / "model.json").exists():
        doxa.fit(train, Beliefs.from_frame(table.valid, train.vocabularies), settings=SETTINGS).save(folder)
    model = doxa.load(folder)
    test = Beliefs.from_frame(table.test).encode(model.vocabularies)
    test = test.where(test.seen)
    known = model.known.union(test.triples)
    parts = [corrupt_triples(test, known, seed) for seed in range(100, 104)]
    nothing = Scored(np.zeros(0), np.zeros(0, np.int64), np.zeros(0))
    world = World(table, model, nothing, nothing, nothing, np.concatenate([source for _, source in parts]))
    false = Beliefs.concat([beliefs for beliefs, _ in parts])
    return replace(world, true=world.score(test), plain=world.score(test.without_mentions()), false=world.score(false))


def adjusted(curve: Curve, beliefs: Scored, true: Any) -> Curve:
    """The curve after `update` with these labels."""
    label = np.where(np.broadcast_to(true, len(beliefs.inputs)), 1, -1).astype(np.int8)
    return curve.adjust(beliefs.inputs, beliefs.relation, label, beliefs.against)


def few(world: World) -> dict[str, Any]:
    """Change of the mean credence of true test beliefs by FEW labels, of each kind."""
    curve, results = world.model.calibration.curve, {}
    texts = {"with_mentions": world.true, "without_mentions": world.plain}
    before = {name: float(beliefs.credence(curve).mean()) for name, beliefs in texts.items()}
    for kind, draws in kinds(world).items():
        moved: dict[str, list[float]] = {name: [] for name in texts}
        share = []
        for beliefs, true in draws:
            after = adjusted(curve, beliefs, true)
            share.append(float(true.mean()))
            for name, tested in texts.items():
                moved[name].append(float(tested.credence(after).mean()) - before[name])
        results[kind] = {
            "share_labeled_true": float(np.mean(share)),
            **{name: {"mean": float(np.mean(x)), "largest": max(x, key=abs)} for name, x in moved.items()},
        }
    return {"labels": FEW, "draws": SEEDS, "mean_credence_before": before, "change": results}


def kinds(world: World) -> dict[str, Iterator[Labels]]:
    """Draws of FEW labels; suspects and proposals: the first ones of the list, then samples of its beginning."""
    model, tables = world.model, world.atlas
    train = Beliefs.from_frame(tables.train)
    suspects = model.audit(train).rows[: 10 * FEW]
    test = set(tables.test.select(TRIPLE).rows())
    proposals = model.complete(top=10 * FEW, min_credence=0.0).to_frame().select(TRIPLE)
    right = np.array([row in test for row in proposals.rows()])

    def beginning(beliefs: Scored, true: NDArray[np.bool_]) -> Iterator[Labels]:
        for seed in range(SEEDS):
            rows = np.random.default_rng(seed).permutation(len(true))[:FEW] if seed else np.arange(FEW)
            yield beliefs.take(rows), true[rows]

    def mixed() -> Iterator[Labels]:
        for seed in range(SEEDS):
            random = np.random.default_rng(seed)
            parts = (world.true, world.false)
            true, false = (part.take(random.permutation(len(part.inputs))[: FEW // 2]) for part in parts)
            yield true.concat(false), np.arange(FEW) < FEW // 2

    return {
        "true and corrupted test beliefs": mixed(),
        "suspects": beginning(world.score(train.take(suspects)), ~tables.planted[suspects]),
        "proposals": beginning(world.score(Beliefs.from_frame(proposals)), right),
    }


def one_relation(world: World) -> dict[str, Any]:
    """By how much MANY labels of a relation, all false, lower the mean credence of its true test beliefs."""
    model, curve = world.model, world.model.calibration.curve
    known = world.score(Beliefs.from_frame(world.atlas.train.filter(~world.atlas.planted)))
    lowered: dict[str, dict[str, float]] = {"known": {}, "proposals": {}, "corrupted": {}}
    elsewhere: dict[str, list[float]] = {kind: [] for kind in lowered}
    before = world.true.credence(curve)
    for number, name in enumerate(model.vocabularies.relations.names):
        of_it = world.true.relation == number
        if not of_it.any():
            continue
        frame = model.complete(relations=[name], top=MANY, min_credence=0.0).to_frame().select(TRIPLE)
        pools = {
            "known": known.take(known.relation == number),
            "proposals": world.score(Beliefs.from_frame(frame)),
            "corrupted": world.false.take(world.false.relation == number),
        }
        for kind, pool in pools.items():
            if len(pool.inputs) < MANY:
                continue
            rows = np.random.default_rng(0).permutation(len(pool.inputs))[:MANY]
            fall = before - world.true.credence(adjusted(curve, pool.take(rows), False))
            lowered[kind][name] = float(fall[of_it].mean())
            elsewhere[kind].append(float(fall[~of_it].mean()))
    return {"labels": MANY} | {
        kind: {
            "relations": len(values),
            "least": min(values.values()),
            "median": float(np.median(list(values.values()))),
            "other_relations": float(np.mean(elsewhere[kind])),
            "by_relation": values,
        }
        for kind, values in lowered.items()
        if values
    }


def thousands(world: World) -> dict[str, Any]:
    """ECE on half of the test beliefs with THOUSANDS of labels from the other half."""
    curve = world.model.calibration.curve
    off = replace(curve, log_odds=curve.log_odds + float(np.log(9)))
    cases = {
        "half true": (curve, 0.5),
        "30 % true": (curve, 0.3),
        "half true, calibrated for a base rate of 0.9": (off, 0.5),
    }
    return {"labels": THOUSANDS, "draws": SEEDS} | {name: _ece(world, *case) for name, case in cases.items()}


def _ece(world: World, curve: Curve, share: float) -> dict[str, Any]:
    """ECE before and after the labels, and its floor, over SEEDS halves."""
    figures: dict[str, list[float]] = {"before": [], "after": [], "floor": []}
    count = 0
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        half = random.random(len(world.true.inputs)) < 0.5
        true, false = (random.permutation(np.flatnonzero(part)) for part in (half, half[world.source]))
        positives = int(share * THOUSANDS)
        labels = world.true.take(true[:positives]).concat(world.false.take(false[: THOUSANDS - positives]))
        after = adjusted(curve, labels, np.arange(THOUSANDS) < positives)
        true, false = (random.permutation(np.flatnonzero(~part)) for part in (half, half[world.source]))
        false = false[: int(len(true) * (1 - share) / share)]
        asked = world.true.take(true).concat(world.false.take(false))
        truth, count = np.arange(len(asked.inputs)) < len(true), len(asked.inputs)
        credence = asked.credence(after)
        figures["before"].append(Reliability.of(asked.credence(curve), truth).ece)
        figures["after"].append(Reliability.of(credence, truth).ece)
        calibrated = random.random((20, count)) < credence
        figures["floor"].append(float(np.mean([Reliability.of(credence, drawn).ece for drawn in calibrated])))
    return {"beliefs": count} | {
        name: {"mean": float(np.mean(values)), "largest": max(values)} for name, values in figures.items()
    }


if __name__ == "__main__":
    main()
