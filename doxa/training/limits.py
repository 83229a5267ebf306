"""Limits: memory and threads that a run would need are estimated before anything is built."""

from __future__ import annotations

import math

from doxa.cluster.connection import check_address
from doxa.config import Settings
from doxa.data.blocks import free_memory
from doxa.errors import UsageError
from doxa.systems import parameters, without_race
from doxa.training.plan import cores

COPIES = 3
"""Numbers that are kept for each parameter: the weight, the sum of the optimizer, the best weight so far."""

TABLES, ROWS = 3, 5
"""Tables of scores of a batch against its candidates, and copies of the vectors of both, that a step has at a time."""

PARTITIONS = 5
"""Partitions that a partitioned run has in memory at most: the two it trains, copies of them, and the next one."""

SHARE = 0.8
"""Share of the free memory that a run may need; the rest is for the beliefs and for what was not counted."""

COUNTABLE = 2**40
"""Dimensions above this need at least as much memory as this."""

THREADS_PER_CORE, MOST_THREADS = 16, 64
"""Threads or workers that a run may have: so many per core, and at least so many in all."""


def check_limits(settings: Settings, beliefs: int, entities: int, relations: int, words: int) -> None:
    """Refuse settings that need more memory or threads than there are, with the figures and what would fit."""
    with_partitions(settings)
    most = max(MOST_THREADS, THREADS_PER_CORE * cores())
    for name in ("threads", "workers"):
        if getattr(settings, name) > most:
            message = f"{name}={getattr(settings, name)}: this machine has {cores()} cores; at most {most} are allowed"
            raise UsageError(message, f"{name}={cores()} suits this machine")
    wanted, free = settings.dimension, SHARE * free_memory()
    settings = without_race(settings.changed(dimension=min(wanted, COUNTABLE)))
    at_a_time = min(
        entities, math.ceil(PARTITIONS * entities / settings.partitions) if settings.partitions else entities
    )
    exact, by_queries = settings.training_estimator == "exact", settings.batch_by == "queries"
    batch = min(settings.batch_size, beliefs)
    candidates = at_a_time if exact else min(settings.num_candidates, at_a_time)
    scores = TABLES * batch * candidates

    def needed(dimension: int) -> float:
        try:
            numbers = COPIES * parameters(settings.changed(dimension=dimension), at_a_time, relations, words)
        except RuntimeError:  # a table of more bytes than can be addressed
            return float(2**63)
        except UsageError:  # an odd dimension where the score needs an even one
            return needed(dimension - 1)
        vectors = ROWS * (3 * batch + (0 if by_queries else 2 * candidates)) * dimension
        return 4.0 * (numbers + vectors + scores)

    total = needed(settings.dimension)
    if total <= free:
        return
    fits, too_large = 0, settings.dimension
    while too_large - fits > 1:
        middle = (fits + too_large) // 2
        fits, too_large = (middle, too_large) if needed(middle) <= free else (fits, middle)
    amount = f"{'at least' if wanted > COUNTABLE else 'about'} {total / 1e9:,.1f} GB"
    message = f"a model of dimension {wanted:,} with {entities:,} entities needs {amount}"
    hint = f"a dimension of at most {fits - fits % 2:,} fits" if fits > 1 else "no dimension fits: use fewer beliefs"
    if exact and 8 * scores > total:  # 4 bytes each: more than half
        hint = f"a smaller batch_size needs less: a step of {batch:,} beliefs has {scores:,} scores"
    raise UsageError(f"{message}; {free / 1e9:,.1f} GB are at hand", hint)


def with_partitions(settings: Settings) -> Settings:
    """The settings; refuses a cluster that has nothing to do, and workers that partitions or queries cannot use."""
    if settings.batch_by == "queries" and settings.workers > 1:
        raise UsageError("batch_by=queries trains in one process", "leave workers out; threads share the work")
    if settings.cluster and not settings.partitions:
        raise UsageError("a cluster trains partitions, and partitions=0", "set partitions to at least twice its cores")
    if settings.cluster:
        check_address(settings.cluster)
    elif settings.partitions and settings.workers > 1:
        raise UsageError("partitions are trained one after the other in one process", "leave workers out, or use "
                         "cluster=local, whose cores are the workers")  # fmt: skip
    return settings
