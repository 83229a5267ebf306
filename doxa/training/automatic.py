"""Settings left to doxa: how many beliefs a step, how many candidates, how many threads, from data and machine."""

from __future__ import annotations

import os

from doxa.config import Settings
from doxa.data.beliefs import Beliefs

BATCH, SIMPLE_BATCH, SMALLEST_BATCH = 512, 1024, 16
"""Beliefs per step: of a likelihood, of margin ranking whose steps are cheaper, and at least."""

STEPS = 20
"""Steps that an epoch of few beliefs still gets."""

CANDIDATES = 512


def chosen(settings: Settings, beliefs: Beliefs) -> Settings:
    """The settings with every number that was left to choose (0) in place."""
    most = SIMPLE_BATCH if settings.objective == "margin" else BATCH
    return settings.changed(
        batch=settings.batch or min(most, max(SMALLEST_BATCH, len(beliefs) // STEPS)),
        candidates=settings.candidates or min(CANDIDATES, len(beliefs.vocabularies.entities)),
        threads=settings.threads or (cores() if settings.workers == 1 else 1),
    )


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def told(settings: Settings) -> str:
    """The choice in a few words."""
    by = (
        f"{settings.workers} workers"
        if settings.workers > 1
        else f"{settings.threads} thread{'s'[: settings.threads != 1]}"
    )
    candidates = "all candidates" if settings.training_estimator == "exact" else f"{settings.candidates} candidates"
    return f"{settings.batch} beliefs a step, {candidates}, {by}"
