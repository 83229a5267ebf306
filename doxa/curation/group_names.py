"""Names for groups of entities: what the members of a group share, and the entities of other groups do not.

An entity has the feature (relation, tail) or (head, relation) of every known fact, and the slots of its relations. With
share(f) the part of a group that has a feature f, and rest(f) the part of all other entities on the map that has it,

    lift(f) = share(f) / rest(f)

A group is named by the feature with the largest share(f) − rest(f) among those with a share of at least a half and a
lift of at least LEAST_LIFT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from doxa.data.vocabulary import Ids
from doxa.model import Model

LEAST_SHARE, LEAST_PART = 0.5, 0.2
"""Part of a group that must have the feature it is named by; and part from which a mixed group mentions a feature."""

LEAST_LIFT = 2.0
"""How many times as frequent as elsewhere this feature must be."""

ANY = -1
"""Other entity of a feature that is only a slot of a relation."""

KEY = ["relation", "slot", "other"]
"""What identifies a feature: the relation, the slot of the member, and the other entity."""


def names_of_groups(model: Model, entities: Ids, group: Ids, central: Sequence[str]) -> tuple[str, ...]:
    """One name for each group; `group` is the number of each entity's group, `central` the entity at its center.

    Best is a relation and an entity, such as "located in · Germany", or "Germany · has city" for tails. Else it is a
    slot, such as "head of located in". Else the group is mixed, and its name says which part of it has a feature, or
    only where its center is. No two groups have the same feature in their names.
    """
    names: dict[int, str] = {}
    used: set[tuple[int, ...]] = set()
    for number, share, *key in shared_features(model.known.triples, entities, group).iter_rows():
        if number not in names and tuple(key) not in used:
            used.add(tuple(key))
            mixed = "" if share >= LEAST_SHARE else f"mixed, {share:.0%} "
            names[number] = mixed + _text(model, *key)
    sizes = np.bincount(group, minlength=len(central))
    for number, name in enumerate(central):
        if sizes[number] == 1:
            names[number] = name
    return tuple(names.get(number, f"mixed, around {name}") for number, name in enumerate(central))


def shared_features(facts: Ids, entities: Ids, group: Ids) -> pl.DataFrame:
    """The features that may name a group, the best first: group, share, relation, slot, other.

    First come those of a relation and an entity that at least half of the group has, then slots that at least half
    has, then those of a relation and an entity that fewer have.
    """
    sizes = pl.DataFrame({"group": group}).group_by("group").agg(size=pl.len())
    members = pl.DataFrame({"entity": entities, "group": group})
    features = pl.concat(_features(facts)).join(members, on="entity").unique()
    counts = features.group_by("group", *KEY).agg(members=pl.len()).join(sizes, on="group")
    counts = counts.with_columns(total=pl.col("members").sum().over(KEY), others=len(entities) - pl.col("size"))
    share, rest, is_slot = pl.col("share"), pl.col("rest"), pl.col("other") == ANY
    counts = counts.with_columns(
        share=pl.col("members") / pl.col("size"),
        rest=(pl.col("total") - pl.col("members")) / pl.max_horizontal("others", 1),
    )
    least = pl.when(is_slot).then(LEAST_SHARE).otherwise(LEAST_PART)
    counts = counts.filter((share >= least) & (share >= LEAST_LIFT * rest))
    level = pl.when(share < LEAST_SHARE).then(2).when(is_slot).then(1).otherwise(0)
    counts = counts.with_columns(level=level, loss=(rest - share).round(9))
    return counts.sort("level", "loss", "group", *KEY).select("group", "share", *KEY)


def _features(facts: Ids) -> Iterator[pl.DataFrame]:
    """Every entity with its features; slot 0 is the head's, slot 1 the tail's."""
    head, relation, tail = facts.T
    for slot, entity, other in ((0, head, tail), (1, tail, head)):
        for end in (other, np.full(len(facts), ANY)):
            columns = {"entity": entity, "relation": relation, "slot": np.full(len(facts), slot), "other": end}
            yield pl.DataFrame(columns)


def _text(model: Model, relation: int, slot: int, other: int) -> str:
    name = model.vocabularies.relations[relation]
    if other == ANY:
        return f"{('head', 'tail')[slot]} of {name}"
    end = model.vocabularies.entities[other]
    return f"{end} · {name}" if slot else f"{name} · {end}"
