"""Countries, cities and regions as plain records: which cities the atlas holds, their names, what lies where.

Nothing here reads a package; `tools.atlas.facts` fills the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

CITIES_PER_COUNTRY = 48
MORE_CITIES = {"US": 130}  # the only country whose regions GeoNames names in the package
ALWAYS_KEPT = 6  # the largest cities of a country are kept whatever their size
SMALLEST_CITY = 60_000
SUBURB_KM = 20.0  # a place this close to a city three times its size counts as a part of it
SUBURB_RATIO = 3
PLAIN_NAME_RATIO = 4  # of two cities of one name, one this many times larger keeps the plain name
CITIES_PER_REGION = 2
REGIONS_PER_COUNTRY = 4
EARTH_RADIUS_KM = 6371.0

Distances = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Country:
    """A country or territory, with the codes by which the packages know it."""

    code: str
    name: str
    continent: str
    capital: str
    population: int
    dialing_code: str
    domain: str
    neighbors: tuple[str, ...]


@dataclass(frozen=True)
class City:
    """A populated place; `region` is the GeoNames code of its first-level division."""

    key: int
    name: str
    country: str
    region: str
    zone: str
    latitude: float
    longitude: float
    population: int
    aliases: frozenset[str]


def distances(cities: Sequence[City]) -> Distances:
    """Great-circle distance in kilometers between all cities.

    d = 2 R asin √(sin²(Δφ/2) + cos φ₁ cos φ₂ sin²(Δλ/2))

    Shape: (cities, cities).
    """
    latitude = np.radians([city.latitude for city in cities])
    longitude = np.radians([city.longitude for city in cities])
    across = np.sin((latitude[:, None] - latitude[None, :]) / 2) ** 2
    along = np.sin((longitude[:, None] - longitude[None, :]) / 2) ** 2
    haversine = across + np.cos(latitude)[:, None] * np.cos(latitude)[None, :] * along
    return np.asarray(2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(haversine, 0.0, 1.0))))


def by_size(cities: Iterable[City]) -> list[City]:
    """Largest first; the key decides ties, so the order never changes."""
    return sorted(cities, key=lambda city: (-city.population, city.key))


def per_country(cities: Iterable[City]) -> dict[str, list[City]]:
    """The cities of each country, largest first."""
    groups: dict[str, list[City]] = defaultdict(list)
    for city in by_size(cities):
        groups[city.country].append(city)
    return dict(sorted(groups.items()))


def capital_of(country: Country, cities: Sequence[City]) -> City | None:
    """The city that bears the name of the capital, else the largest one known by it."""
    named = [city for city in cities if city.name == country.capital]
    known = [city for city in cities if country.capital in city.aliases]
    return next(iter(by_size(named) or by_size(known)), None) if country.capital else None


def without_suburbs(cities: Sequence[City]) -> list[City]:
    """Leave out the quarters of large cities, which GeoNames lists as places of their own."""
    if not cities:
        return []
    population = np.array([city.population for city in cities])
    near_larger = (distances(cities) < SUBURB_KM) & (
        population[None, :] >= SUBURB_RATIO * np.maximum(population[:, None], 1)
    )
    return [city for city, suburb in zip(cities, near_larger.any(axis=1), strict=True) if not suburb]


def choose_cities(countries: Mapping[str, Country], cities: Iterable[City]) -> list[City]:
    """The capital and the largest cities of every country, one of each name in a country."""
    chosen: list[City] = []
    for code, candidates in per_country(cities).items():
        if code not in countries:
            continue
        capital = capital_of(countries[code], candidates)
        ranked = without_suburbs(candidates[:400])
        if capital is not None and capital not in ranked:
            ranked = by_size([*ranked, capital])
        names: set[str] = set()
        kept: list[City] = []
        for city in ranked:
            large = city.population >= SMALLEST_CITY or len(kept) < ALWAYS_KEPT
            room = len(kept) < MORE_CITIES.get(code, CITIES_PER_COUNTRY)
            if (room and large and city.name not in names) or city == capital:
                names.add(city.name)
                kept.append(city)
        chosen.extend(kept)
    return chosen


def name_cities(cities: Sequence[City], countries: Mapping[str, Country], taken: set[str]) -> list[City]:
    """Give every city a name of its own: «Valencia (Spain)», «Singapore (city)», plain «London»."""
    namesakes: dict[str, list[City]] = defaultdict(list)
    for city in by_size(cities):
        namesakes[city.name].append(city)
    named: list[City] = []
    for city in cities:
        same = namesakes[city.name]
        name = city.name
        outshines = city is same[0] and (len(same) == 1 or city.population >= PLAIN_NAME_RATIO * same[1].population)
        if not outshines:
            name = f"{name} ({countries[city.country].name})"
        elif name in taken:
            name = f"{name} (city)"
        if name in taken:
            raise ValueError(f"two entities would be called {name!r}")
        taken.add(name)
        named.append(replace(city, name=name))
    return named


def name_regions(cities: Sequence[City], states: Mapping[str, str]) -> dict[int, str]:
    """City key → name of its first-level region, for regions that hold at least two of the cities.

    GeoNames gives the region's code but, save for the United States, not its name; it is then called
    after its largest city: «Munich's region».
    """
    members: dict[tuple[str, str], list[City]] = defaultdict(list)
    for city in by_size(cities):
        if city.region and city.region != "00":
            members[city.country, city.region].append(city)
    large = {place: group for place, group in members.items() if len(group) >= CITIES_PER_REGION}
    regions: dict[int, str] = {}
    for (country, code), group in sorted(large.items()):
        if sum(place[0] == country for place in large) < REGIONS_PER_COUNTRY:
            continue
        name = states[code] if country == "US" else f"{group[0].name}'s region"
        regions.update({city.key: name for city in group})
    return regions


def neighbors(cities: Sequence[City], apart: Distances, within: float) -> Iterator[tuple[City, list[City]]]:
    """Every city with the others within so many kilometers, nearest first."""
    order = np.argsort(apart, axis=1, kind="stable")
    for row, city in enumerate(cities):
        close = [int(other) for other in order[row] if other != row and apart[row, other] <= within]
        yield city, [cities[other] for other in close]


def northward(city: City, other: City) -> float:
    """How far `other` lies north of `city`, in degrees."""
    return other.latitude - city.latitude


def eastward(city: City, other: City) -> float:
    """How far `other` lies east of `city`, in degrees of latitude's length, the short way round."""
    around = (other.longitude - city.longitude + 180.0) % 360.0 - 180.0
    return around * float(np.cos(np.radians((city.latitude + other.latitude) / 2)))
