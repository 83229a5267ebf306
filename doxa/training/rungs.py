"""The rungs of a race: how many steps each member trains for, and on which beliefs.

Rungs are planned in steps from sizes alone, so that a choice repeats from its seed. The unit of work is a
multiplication of a matrix product; a step scores each belief against its candidates, with a product for the scores and
one for the gradient of either side:

    work of a step         3 · batch · (2 · candidates + relations) · dimension
    work of a validation   3 · beliefs · (2 · entities + relations) · dimension

A validation ranks each belief, and classifies the belief and a negative. A race has at most SHARE of the work of race
and training together:

    race ≤ SHARE / (1 − SHARE) · training
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.core import dense_core
from doxa.data.splits import split
from doxa.data.triples import TripleIndex

SHARE = 0.25
"""Share of the whole work that a race may have, or of a time budget."""

VALIDATION_SHARE = 0.3
"""Share of the race's work that validation may have."""

FEWEST_STEPS = 20
"""Steps of a member in the first rung; where there is work for fewer, a race would be decided by chance."""

LARGE = 20_000
"""Beliefs that a race takes without sampling."""

EPOCHS = 30
"""Epochs that the last rung has on the core of a large graph."""

MOST_VALIDATION, LEAST_VALIDATION = 2000, 500
"""Beliefs that members are compared on; on a core with fewer, training beliefs of the core are held out in addition."""

FEWEST_VALIDATION = 100
"""Beliefs that members are compared on at least, where there are as many."""


@dataclass(frozen=True)
class Sizes:
    """What the work depends on besides the settings."""

    beliefs: int
    entities: int
    relations: int


@dataclass(frozen=True)
class Plan:
    """Steps of a member by rung, the members that start, and how many beliefs they train on and are compared on."""

    steps: tuple[int, ...]
    members: int
    beliefs: int
    validation: int

    def starters(self, rung: int) -> int:
        """Members that take part in a rung: half of the rung before, rounded up."""
        return halved(self.members, rung)


def step_work(settings: Settings, sizes: Sizes) -> float:
    """Multiplications of a training step; the settings have their automatic values in place."""
    every = settings.training_estimator == "exact"
    entities = sizes.entities if every else min(settings.num_candidates, sizes.entities)
    relations = sizes.relations if every else min(settings.num_candidates, sizes.relations)
    return 3.0 * settings.batch_size * (2 * entities + relations) * settings.dimension


def validation_work(settings: Settings, sizes: Sizes, beliefs: int) -> float:
    """Multiplications of ranking head, relation and tail of so many beliefs, and of classifying as many pairs."""
    return 3.0 * beliefs * (2 * sizes.entities + sizes.relations) * settings.dimension


def training_work(settings: Settings, sizes: Sizes) -> float:
    """Multiplications of a whole training, its validations not counted."""
    return settings.epochs * math.ceil(sizes.beliefs / settings.batch_size) * step_work(settings, sizes)


def halved(members: int, times: int) -> int:
    """Members left after so many rungs: half of the rung before each time, rounded up."""
    for _ in range(times):
        members = (members + 1) // 2
    return members


def rungs_of(members: int) -> int:
    """Rungs until one member is left: half of them, rounded up, leave each."""
    return max(1, math.ceil(math.log2(members)))


def planned(members: Sequence[Settings], sizes: Sizes, valid: int, seconds_per_step: float = 0.0) -> Plan | None:
    """The rungs for as many of the members, from the first on, as the work suffices for; None where it is too little.

    Each rung has half the members (rounded up) and twice the steps of the one before. With a time budget, the measured
    `seconds_per_step` take the place of the work.
    """
    for count in range(len(members), 1, -1):
        plan = _planned(members[:count], sizes, valid, seconds_per_step)
        if plan is not None:
            return plan
    return None


def _planned(members: Sequence[Settings], sizes: Sizes, valid: int, seconds_per_step: float) -> Plan | None:
    """The rungs for all these members; None where a member would train for less than FEWEST_STEPS."""
    first, rungs = members[0], range(rungs_of(len(members)))
    starters = [halved(len(members), rung) for rung in rungs]
    visits = sum(count * 2**rung for rung, count in enumerate(starters))
    costliest = max(step_work(settings, sizes) for settings in members)
    if first.time_budget:
        budget = SHARE * first.time_budget / seconds_per_step * costliest
    else:
        budget = SHARE / (1 - SHARE) * min(training_work(settings, sizes) for settings in members)
    each = max(validation_work(settings, sizes, 1) for settings in members)
    validation = min(valid, MOST_VALIDATION, int(VALIDATION_SHARE * budget / (sum(starters) * each)))
    steps = int((budget - sum(starters) * validation * each) / (visits * costliest))
    if steps < FEWEST_STEPS or validation < min(valid, FEWEST_VALIDATION):
        return None
    beliefs = max(LARGE, steps * 2 ** rungs[-1] * first.batch_size // EPOCHS)
    return Plan(tuple(steps * 2**rung for rung in rungs), len(members), min(beliefs, sizes.beliefs), validation)


@dataclass(frozen=True, eq=False)
class RaceData:
    """What members train on and are compared on; `known` filters the ranks."""

    train: Beliefs
    valid: Beliefs
    known: TripleIndex

    @property
    def sizes(self) -> Sizes:
        return Sizes(len(self.train), self.known.entities, self.known.relations)


def race_data(train: Beliefs, valid: Beliefs, plan: Plan, seed: int) -> RaceData:
    """All beliefs, or the dense core of a large graph; the validation beliefs among its names."""
    if plan.beliefs < len(train):
        train = dense_core(train, plan.beliefs)
        valid = valid.encode(train.vocabularies)
        valid = valid.where(valid.seen)
        missing = min(LEAST_VALIDATION, plan.validation) - len(valid.positives())
        if missing > 0:
            train, more = split(train, (min(0.1, missing / len(train)),), seed)
            valid = Beliefs.concat([_plain(valid.positives()), _plain(more)])
    sizes = len(train.vocabularies.entities), len(train.vocabularies.relations)
    known = TripleIndex(train.triples, *sizes).union(valid.positives().triples)
    rows = np.random.default_rng([seed, 5]).permutation(len(valid))[: plan.validation]
    return RaceData(train, valid.take(np.sort(rows)), known)


def _plain(beliefs: Beliefs) -> Beliefs:
    return replace(beliefs, text=None, label=None)
