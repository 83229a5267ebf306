"""The prior of labels: which PRIOR_LABELS, RELATION and SPREAD of `doxa.calibration.labels` lose least?

    python experiments/curation/label_prior.py --data DIR --work WORK

Trains on WN18RR and NELL, into `WORK/prior-…`, unless these models exist. Half of their test beliefs, true and
corrupted, are a pool of labels; log loss is measured on the other half, in the mixture of each case:

- labels of the same mixture, or of one with 30 % or 90 % true beliefs;
- the curve shifted by 2 in log odds, too steep by 2, or shifted for each relation;
- one relation that is wrong, and the false beliefs of highest credence, labels that do not represent their mixture.

The regret of values in a case is their log loss less that of the best values for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hiding import keep, options
from numpy.typing import NDArray

import doxa
from doxa.calibration import labels as module
from doxa.calibration.rules import calibration_input
from doxa.data.negatives import corrupt_triples

SETTINGS: dict[str, dict[str, Any]] = {
    "wn18rr": {"score": "complex", "dimension": 60, "epochs": 10, "patience": 0, "threads": 1},
    "nell": {"score": "translation", "scale": 1.5, "dimension": 100, "epochs": 20, "patience": 0, "threads": 1},
}
GRID = list(itertools.product((50, 100, 150, 200, 300), (1.0, 3.0, 10.0, 30.0), (1.0, 2.0, 3.0)))
COUNTS, TESTED, SEEDS, MOST = (18, 50, 200, 2000), 4000, 5, 8000

Numbers = NDArray[np.float64]


class Sample(NamedTuple):
    """Old log odds, relations and truth of beliefs."""

    log_odds: Numbers
    relation: NDArray[np.int64]
    true: NDArray[np.bool_]

    def take(self, rows: Any) -> Sample:
        return Sample(*(column[rows] for column in self))

    def moved(self, log_odds: Numbers) -> Sample:
        return self._replace(log_odds=log_odds)


def main() -> None:
    """Train, fit with all values, compare."""
    arguments = options(__doc__)
    figures: dict[str, Any] = {"cases": 0}
    for name in SETTINGS:
        sample, source, relations = load(arguments.data / name, arguments.work / f"prior-{name}", SETTINGS[name])
        losses: dict[str, list[list[float]]] = {}
        for seed in range(SEEDS):
            for case, labels, test in cases(sample, source, relations, seed):
                losses.setdefault(case, []).append([loss(values, labels, test, relations) for values in GRID])
        table = np.array([np.mean(rows, axis=0) for rows in losses.values()])
        regret = table - table.min(axis=1, keepdims=True)
        figures["cases"] = len(losses)
        figures[name] = {
            " ".join(map(str, values)): {"mean": float(regret[:, row].mean()), "largest": float(regret[:, row].max())}
            for row, values in enumerate(GRID)
        }
    keep("label_prior", figures)


def load(data: Path, folder: Path, settings: dict[str, Any]) -> tuple[Sample, NDArray[np.int64], int]:
    """Test beliefs and four corrupted ones of each, with the row that they were made from."""
    train = doxa.read(data / "train.tsv")
    if not (folder / "model.json").exists():
        valid = doxa.read(data / "valid.tsv")
        doxa.fit(train, valid.where(valid.encode(train.vocabularies).seen), **settings).save(folder)
    model = doxa.load(folder)
    test = doxa.read(data / "test.tsv").positives().encode(model.vocabularies)
    test = test.where(test.seen)
    test = test.take(np.sort(np.random.default_rng(0).permutation(len(test))[:MOST]))
    parts, rows = [test], [np.arange(len(test))]
    for seed in range(100, 104):
        false, source = corrupt_triples(test, model.known.union(test.triples), seed)
        parts.append(false)
        rows.append(source)
    inputs, relation = [], []
    for part in parts:
        inputs.append(calibration_input(model.pbe, part, model.calibration.rule, model.calibration.mention_exponent))
        relation.append(part.relation)
    every = np.concatenate(relation)
    log_odds = model.calibration.curve.logit(np.concatenate(inputs), every)
    true = np.arange(len(every)) < len(test)
    return Sample(log_odds, every, true), np.concatenate(rows), len(model.vocabularies.relations)


def cases(sample: Sample, source: NDArray[np.int64], relations: int, seed: int) -> Iterator[tuple[str, Sample, Sample]]:
    """Name, labels and test beliefs of each case."""
    random = np.random.default_rng(seed)
    side = (random.random(int(sample.true.sum())) < 0.5)[source]
    pool, rest = sample.take(side), sample.take(~side)

    def draw(part: Sample, share: float, count: int) -> Sample:
        positives = round(count * share)
        true, false = np.flatnonzero(part.true), np.flatnonzero(~part.true)
        return part.take(np.concatenate([random.choice(true, positives), random.choice(false, count - positives)]))

    test = draw(rest, 0.5, TESTED)
    for count in COUNTS:
        for share in (0.5, 0.3, 0.9):
            yield f"{share:.0%} true, {count}", draw(pool, share, count), draw(rest, share, TESTED)
        labels = draw(pool, 0.5, count)
        for shift in (2.0, -2.0):
            moved = (part.moved(part.log_odds + shift) for part in (labels, test))
            yield f"shifted by {shift}, {count}", next(moved), next(moved)
        yield f"too steep, {count}", labels.moved(2 * labels.log_odds), test.moved(2 * test.log_odds)
        off = random.normal(0, 1.5, relations)
        moved = (part.moved(part.log_odds + off[part.relation]) for part in (labels, test))
        yield f"relations shifted, {count}", next(moved), next(moved)
        if count <= 200:
            false = np.flatnonzero(~pool.true)
            yield f"highest false, {count}", pool.take(false[np.argsort(-pool.log_odds[false])[:count]]), test
    frequent = np.argsort(-np.bincount(pool.relation[pool.true], minlength=relations))[:8]
    wrong = random.choice(frequent)
    rows = random.choice(np.flatnonzero(pool.true & (pool.relation == wrong)), 200)
    labels = pool.take(rows)._replace(true=np.zeros(200, bool))
    yield "a wrong relation, 200", labels, test._replace(true=test.true & (test.relation != wrong))


def loss(values: tuple[int, float, float], labels: Sample, test: Sample, relations: int) -> float:
    """Log loss of the test beliefs after an adjustment with these values."""
    module.PRIOR_LABELS, module.RELATION, module.SPREAD = values
    made = module.fit_adjustment(*labels, relations)
    log_odds = made.apply(test.log_odds, test.relation)
    return float(np.logaddexp(0, np.where(test.true, -log_odds, log_odds)).mean())


if __name__ == "__main__":
    main()
