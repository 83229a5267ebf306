"""The plan of a run: its batches, epochs and validations. Sizes decide, never the clock."""

from __future__ import annotations

import math
import os

from doxa.config import Settings

BATCH_SIZE, MARGIN_BATCH_SIZE, SMALLEST_BATCH = 512, 1024, 16
"""Beliefs per step: of a likelihood, of margin ranking whose steps are cheaper, and at least."""

STEPS_PER_EPOCH = 20
"""Steps that an epoch of few beliefs still takes."""

LARGE_BATCH_SIZE, LARGE_STEPS_PER_EPOCH = 1024, 256
"""Beliefs per step of a likelihood where an epoch takes so many such steps: threads wait less for each other."""

NUM_CANDIDATES = 512

VISITS, FEWEST_EPOCHS, MOST_EPOCHS = 16e6, 20, 200
"""Beliefs visited in a planned run, all epochs together, and the bounds of its epochs."""

MOST_VISITS, LEAST_EPOCHS = 100e6, 3
"""Beliefs visited at most, which leaves FEWEST_EPOCHS to 5 million beliefs, and the epochs of however many beliefs."""

VALIDATION_SHARE = 0.1
"""Work of validation as a share of the work of training, at most."""

VALIDATIONS, FEWEST_VALIDATIONS = 50, 4
"""Validations of a planned run at most, and those that it has whatever they cost."""


def automatic(settings: Settings, beliefs: int, entities: int) -> Settings:
    """The settings with every size that was left open (0) chosen from data and machine, but for the epochs."""
    return settings.changed(
        batch_size=settings.batch_size or _batch_size(settings, beliefs),
        num_candidates=settings.num_candidates or min(NUM_CANDIDATES, entities),
        threads=settings.threads or (cores() if settings.workers == 1 and not settings.cluster else 1),
    )


def _batch_size(settings: Settings, beliefs: int) -> int:
    most = MARGIN_BATCH_SIZE if settings.objective == "margin" else BATCH_SIZE
    if settings.optimizer == "adagrad" and beliefs >= LARGE_BATCH_SIZE * LARGE_STEPS_PER_EPOCH:
        most = LARGE_BATCH_SIZE
    return min(most, max(SMALLEST_BATCH, beliefs // STEPS_PER_EPOCH))


def cores() -> int:
    """The cores this process may use; OMP_NUM_THREADS lowers it."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(available, int(wanted)) if wanted.isdecimal() and int(wanted) else available


def summary(settings: Settings) -> str:
    """The automatic choices in a few words."""
    plural = "s" if settings.threads != 1 else ""
    by = f"{settings.workers} workers" if settings.workers > 1 else f"{settings.threads} thread{plural}"
    exact = settings.training_estimator == "exact"
    candidates = "all candidates" if exact else f"{settings.num_candidates} candidates"
    if settings.batch_by == "queries":
        candidates += " by queries"
    if not settings.share_candidates:
        candidates = f"{settings.negative_weight} negatives for each belief"
    length = f"{settings.time_budget:g} seconds" if settings.time_budget else f"{settings.epochs} epochs"
    by += f", {settings.partitions} partitions" if settings.partitions else ""
    return f"{length}, {settings.batch_size} beliefs per step, {candidates}, {by}"


def planned_epochs(beliefs: int) -> int:
    """Epochs of a run over so many beliefs: about VISITS beliefs are visited, fewer times each the more there are."""
    epochs = min(max(VISITS / beliefs, FEWEST_EPOCHS), MOST_EPOCHS, MOST_VISITS / beliefs)
    return max(round(epochs), LEAST_EPOCHS)


def planned_validations(settings: Settings, beliefs: int, entities: int, valid: int) -> int:
    """Epochs from one validation to the next, of settings with their other automatic values in place.

    Validation scores every belief of its sample against all entities; training scores a belief against its candidates,
    and does about three times the work with each score.
    """
    candidates = entities if settings.training_estimator == "exact" else settings.num_candidates
    share = min(valid, settings.validation_sample) * entities / (3 * beliefs * candidates)
    affordable = math.ceil(share / VALIDATION_SHARE)
    if settings.time_budget:
        return max(1, affordable)
    return max(1, min(max(affordable, math.ceil(settings.epochs / VALIDATIONS)), settings.epochs // FEWEST_VALIDATIONS))


def planned(settings: Settings, beliefs: int, entities: int, valid: int = 0) -> Settings:
    """The settings with every number that was left open (0) chosen, for so many beliefs and validation beliefs."""
    settings = automatic(settings, beliefs, entities)
    settings = settings.changed(epochs=settings.epochs or planned_epochs(beliefs))
    every = settings.validate_every or planned_validations(settings, beliefs, entities, valid)
    return settings.changed(validate_every=every)
