"""Slow, obvious twins of partitioned training."""

import numpy as np


def buckets_of(tasks):
    """Which task trains the beliefs from partition i to partition j: the first one that has both, as a dictionary."""
    trained = {}
    for number, pair in enumerate(tasks):
        for head in pair:
            for tail in pair:
                trained.setdefault((head, tail), number)
    return trained


def false_share(whole, part, drawn, wanted):
    """How many false candidates of the whole each false candidate of a part stands for, by listing.

    The truth is entity 0 and in the part. Every other entity is in it with the same chance, and is drawn with the same
    chance. `wanted` is the expected weight of each false entity.
    """
    chance_in_part = (part - 1) / (whole - 1)
    chance_drawn = drawn / part
    return wanted / (chance_in_part * chance_drawn)


def merged(tables, deltas):
    """Shared tables after the changes of several tasks, added one by one."""
    total = {name: np.array(table, dtype=np.float64) for name, table in tables.items()}
    for delta in deltas:
        for name, change in delta.items():
            total[name] += change
    return total
