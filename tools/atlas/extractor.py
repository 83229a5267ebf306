"""A simulated extractor: it words each fact, gives a confidence, and is sometimes wrong.

The facts of the atlas come from clean tables, but doxa learns from automatically extracted beliefs.
So every fact gets a mention, drawn from `tools.atlas.phrases`, and a confidence c:

    logit c = 0.4 + 2.2 s − 1.1 f + 0.9 ε,      ε ~ N(0, 1)

where s = P(relation | phrase) is the specificity of the phrase and f = 1 for a false belief. A false belief is a true
one whose head or tail was replaced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tools.atlas.cities import Fact
from tools.atlas.facts import World
from tools.atlas.phrases import CLEAR, VAGUE
from tools.atlas.places import distances, eastward, northward

VAGUE_SHARE = 0.7
FALSE_SHARE = 0.05
PLAUSIBLE_SHARE = 0.6  # share of false beliefs whose replacement is on the same continent
APART_KM = 900.0  # smallest distance of two cities in a false geographic belief
DRAWS = 60
GEOGRAPHIC = frozenset({"near", "nearest larger city", "east of", "north of"})
# Families of related relations: if one holds for a pair, no false belief states another for it.
FAMILIES = (
    frozenset({"official language", "also spoken", "regional language", "official in", "has most speakers in"}),
    frozenset({"uses currency", "currency of", "formerly used", "former currency of"}),
    frozenset({"has time zone", "time zone of"}),
    frozenset({"located in", "has city"}),
)


@dataclass(frozen=True)
class Wording:
    """The phrases of one relation with the probability of each."""

    phrases: tuple[str, ...]
    weights: tuple[float, ...]


def falling(count: int, total: float) -> list[float]:
    """Weights 1, 1/2, 1/3 … that add up to `total`."""
    weights = [1.0 / rank for rank in range(1, count + 1)]
    return [total * weight / sum(weights) for weight in weights]


def wordings() -> dict[str, Wording]:
    """Relation → its phrases, vague ones first."""
    wording_of: dict[str, Wording] = {}
    for relation, clear in CLEAR.items():
        vague = tuple(phrase for phrase, relations in VAGUE.items() if relation in relations)
        weights = falling(len(vague), VAGUE_SHARE) + falling(len(clear), 1.0 - VAGUE_SHARE)
        wording_of[relation] = Wording(vague + clear, tuple(weights))
    return wording_of


class Extractor:
    """Words facts and makes false beliefs; all randomness comes from one generator."""

    def __init__(self, world: World, chance: np.random.Generator) -> None:
        self.world = world
        self.chance = chance
        self.wordings = wordings()
        self.true = frozenset(world.facts)
        self.stated: dict[frozenset[str], set[str]] = defaultdict(set)
        self.seen: dict[tuple[str, bool], list[str]] = defaultdict(list)
        counts: dict[str, int] = defaultdict(int)
        for fact in world.facts:
            self.stated[frozenset({fact.head, fact.tail})].add(fact.relation)
            counts[fact.relation] += 1
        for relation, replace_head, name in sorted(
            {
                (fact.relation, at_head, fact.head if at_head else fact.tail)
                for fact in world.facts
                for at_head in (True, False)
            }
        ):
            self.seen[relation, replace_head].append(name)
        self.specificity = self.specificities(counts)

    def specificities(self, counts: Mapping[str, int]) -> dict[tuple[str, str], float]:
        """P(relation | phrase) by Bayes' rule, for every relation and phrase."""
        joint = {
            (relation, phrase): counts[relation] * weight
            for relation, wording in self.wordings.items()
            for phrase, weight in zip(wording.phrases, wording.weights, strict=True)
        }
        totals: dict[str, float] = defaultdict(float)
        for (_, phrase), mass in joint.items():
            totals[phrase] += mass
        return {(relation, phrase): mass / totals[phrase] for (relation, phrase), mass in joint.items()}

    def mention(self, relation: str, false: bool = False) -> str:
        """A phrase that states the relation; a false belief takes the vaguer of two draws."""
        wording = self.wordings[relation]
        drawn = [
            wording.phrases[int(self.chance.choice(len(wording.phrases), p=wording.weights))] for _ in range(1 + false)
        ]
        return min(drawn, key=lambda phrase: self.specificity[relation, phrase])

    def confidence(self, relation: str, mention: str, false: bool = False) -> float:
        """The confidence of the extractor, in (0, 1]."""
        noise = self.chance.standard_normal()
        logit = 0.4 + 2.2 * self.specificity[relation, mention] - 1.1 * false + 0.9 * noise
        return round(float(1.0 / (1.0 + np.exp(-logit))), 3)

    def false_facts(self, facts: Sequence[Fact]) -> list[Fact]:
        """Corruptions of different facts, enough to make `FALSE_SHARE` of all beliefs."""
        wanted = round(len(facts) * FALSE_SHARE / (1.0 - FALSE_SHARE))
        made: dict[Fact, None] = {}
        for position in self.chance.permutation(len(facts)):
            false = self.corrupt(facts[int(position)], at_head=len(made) % 2 == 0)
            if false is not None:
                made[false] = None
            if len(made) == wanted:
                break
        return list(made)

    def corrupt(self, fact: Fact, at_head: bool) -> Fact | None:
        """Replace head or tail by another entity seen in that slot; None if no false result was drawn."""
        original = fact.head if at_head else fact.tail
        home = self.world.continent_of.get(original)
        plausible = self.chance.random() < PLAUSIBLE_SHARE
        candidates = self.seen[fact.relation, at_head]
        for _ in range(DRAWS):
            other = candidates[int(self.chance.integers(len(candidates)))]
            if plausible and home and self.world.continent_of.get(other) != home:
                continue
            false = fact._replace(head=other) if at_head else fact._replace(tail=other)
            if self.surely_false(false):
                return false
        return None

    def surely_false(self, fact: Fact) -> bool:
        """Whether the fact, and every relation related to it, is false for this pair."""
        pair = frozenset({fact.head, fact.tail})
        if fact.head == fact.tail or fact in self.true:
            return False
        family = next((family for family in FAMILIES if fact.relation in family), frozenset({fact.relation}))
        if self.stated.get(pair, set()) & family:
            return False
        if fact.relation in GEOGRAPHIC:
            head, tail = self.world.cities[fact.head], self.world.cities[fact.tail]
            far = bool(distances([head, tail])[0, 1] > APART_KM)
            contrary = {"north of": northward(tail, head) < 0, "east of": eastward(tail, head) < 0}
            return far and contrary.get(fact.relation, True)
        return True
