"""Facts about cities and regions, one small function per family of relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tools.atlas.places import (
    City,
    Country,
    Distances,
    by_size,
    capital_of,
    distances,
    eastward,
    neighbors,
    northward,
    per_country,
)

MAIN_CITIES = 8
NEAR_KM, NEAREST, NEAR_CITIES = 250.0, 2, 24
COMPASS_KM, COMPASS_LINKS, COMPASS_CITIES = 500.0, 2, 16
LARGER_KM, LARGER_RATIO = 800.0, 2
EVERY_HABIT = 3  # the largest cities have all habits stated, the others one each


class Fact(NamedTuple):
    """Something true: <head, relation, tail>."""

    head: str
    relation: str
    tail: str


def standing(cities: Sequence[City], countries: Mapping[str, Country]) -> Iterator[Fact]:
    """City and country: where it lies, and what it is to its country."""
    for code, group in per_country(cities).items():
        country = countries[code].name
        capital = capital_of(countries[code], group)
        for rank, city in enumerate(group):
            yield Fact(city.name, "located in", country)
            if rank < MAIN_CITIES:
                yield Fact(country, "has city", city.name)
        if capital is not None:
            yield Fact(capital.name, "capital of", country)
            yield Fact(country, "has capital", capital.name)
        if len(group) >= 3:
            yield Fact(group[0].name, "largest city of", country)
            yield Fact(group[1].name, "second city of", country)


def regions(cities: Sequence[City], countries: Mapping[str, Country], region_of: Mapping[int, str]) -> Iterator[Fact]:
    """City and region, region and country."""
    seen: set[str] = set()
    for city in by_size(cities):
        region = region_of.get(city.key)
        if region is None:
            continue
        yield Fact(city.name, "lies in region", region)
        if region not in seen:
            seen.add(region)
            yield Fact(city.name, "largest city in region", region)
            yield Fact(region, "region of", countries[city.country].name)
            yield Fact(countries[city.country].name, "has region", region)
        yield Fact(region, "region keeps time zone", city.zone)


def zones(cities: Sequence[City]) -> Iterator[Fact]:
    """City and time zone."""
    for city in cities:
        yield Fact(city.name, "in time zone", city.zone)


def continents(cities: Sequence[City], countries: Mapping[str, Country]) -> Iterator[Fact]:
    """City and continent, for the main cities only: seven answers are too easily guessed."""
    for code, group in per_country(cities).items():
        for city in group[:EVERY_HABIT]:
            yield Fact(city.name, "on continent", countries[code].continent)


def near(cities: Sequence[City], apart: Distances) -> Iterator[Fact]:
    """City and city: the two nearest within 250 km, for the 24 largest cities of each country."""
    large = {city.key for group in per_country(cities).values() for city in group[:NEAR_CITIES]}
    for city, others in neighbors(cities, apart, NEAR_KM):
        if city.key in large:
            for other in others[:NEAREST]:
                yield Fact(city.name, "near", other.name)


def nearest_larger(cities: Sequence[City], apart: Distances) -> Iterator[Fact]:
    """City and city: the nearest at least twice as populous, within 800 km."""
    for city, others in neighbors(cities, apart, LARGER_KM):
        larger = [other for other in others if other.population >= LARGER_RATIO * city.population]
        if larger:
            yield Fact(city.name, "nearest larger city", larger[0].name)


def compass(cities: Sequence[City]) -> Iterator[Fact]:
    """City and city, among the sixteen largest of a country: the nearest two that lie south or west of it.

    «South» is within 27° of due south, and within 500 km.
    """
    for group in per_country(cities).values():
        large = group[:COMPASS_CITIES]
        for city, others in neighbors(large, distances(large), COMPASS_KM):
            south = [other for other in others if -northward(city, other) > 2 * abs(eastward(city, other))]
            west = [other for other in others if -eastward(city, other) > 2 * abs(northward(city, other))]
            for other in south[:COMPASS_LINKS]:
                yield Fact(city.name, "north of", other.name)
            for other in west[:COMPASS_LINKS]:
                yield Fact(city.name, "east of", other.name)


def habits(
    cities: Sequence[City],
    countries: Mapping[str, Country],
    currency_of: Mapping[str, str],
    language_of: Mapping[str, str],
) -> Iterator[Fact]:
    """City and what its country brings along: money, language, dialing code, internet domain.

    `language_of` holds only countries with one official language, `currency_of` only those with one currency.
    """
    for code, group in per_country(cities).items():
        country = countries[code]
        customs = [
            ("people pay with", currency_of.get(code)),
            ("people speak", language_of.get(code)),
            ("reached by dialling", country.dialing_code),
            ("web addresses end in", country.domain),
        ]
        for rank, city in enumerate(group):
            for turn, (relation, custom) in enumerate(customs):
                if custom and (rank < EVERY_HABIT or rank % len(customs) == turn):
                    yield Fact(city.name, relation, custom)
