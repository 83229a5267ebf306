"""Names by what is typed: prefix, word, typing errors, by number of facts."""

import numpy as np
import polars as pl
import pytest

pytest.importorskip("fastapi")

from doxa.server.name_index import NameIndex, simple

NAMES = ["New York", "New York City", "Newark", "York", "Düsseldorf", "/m/02vzc", "Łódź", "Sankt_Peterburg", "東京"]
FACTS = np.array([5, 9, 1, 3, 2, 2, 1, 4, 1])


@pytest.fixture(scope="module")
def index():
    return NameIndex(pl.Series(NAMES), FACTS)


@pytest.mark.parametrize(
    ("query", "first", "way"),
    [
        ("new york", "New York", "exact"),
        ("new", "New York City", "prefix"),
        ("york", "York", "exact"),
        ("cit", "New York City", "word"),
        ("dusseldorf", "Düsseldorf", "exact"),
        ("düssel", "Düsseldorf", "prefix"),
        ("dusledorf", "Düsseldorf", "similar"),
        ("petersburg", "Sankt_Peterburg", "similar"),
        ("nwe york", "New York", "similar"),
        ("02v", "/m/02vzc", "word"),
        ("東", "東京", "prefix"),
    ],
)
def test_the_best_match(index, query, first, way):
    best = index.search(query)[0]
    assert (best.name, best.match) == (first, way)


def test_equally_good_matches_are_ordered_by_facts_and_named_once(index):
    names = [match.name for match in index.search("new")]
    assert names[:3] == ["New York City", "New York", "Newark"]
    assert len(names) == len(set(names))
    assert [match.name for match in index.search("", 2)] == ["New York City", "New York"]


def test_a_limit_and_hostile_queries(index):
    assert len(index.search("new", 2)) == 2
    for query in ("\x00", "x" * 1000, "<script>", "\u202e", "🦊"):
        assert isinstance(index.search(query), list)
    assert simple("a" * 10_000) == "a" * 120


def test_prefix_search_agrees_with_a_scan(index):
    for query in ("n", "ne", "y", "s", "m"):
        expected = {name for name in NAMES if any(word.startswith(query) for word in simple(name).split())}
        assert {match.name for match in index.search(query) if match.match != "similar"} == expected


def test_names_route(client, model):
    name = model.vocabularies.entities[3]
    best = client.get("/api/v1/names", params={"q": name.upper()}).json()["names"][0]
    assert (best["name"], best["match"]) == (name, "exact")
    relation = model.vocabularies.relations[0]
    found = client.get("/api/v1/names", params={"q": relation[:2], "kind": "relation"}).json()["names"]
    assert relation in [one["name"] for one in found]


def test_entity_route_lists_its_facts(client, model):
    names = model.vocabularies
    for number in range(3):
        facts = {tuple(fact) for fact in model.known.triples.tolist() if number in (fact[0], fact[2])}
        entity = client.get(f"/api/v1/entities/{names.entities[number]}").json()
        listed = {(one["head"], one["relation"], one["tail"]) for one in entity["facts"]}
        assert listed == {(names.entities[h], names.relations[r], names.entities[t]) for h, r, t in facts}
        assert entity["total"] == sum(one["facts"] for one in entity["relations"]) == len(facts)
    assert client.get("/api/v1/entities/nobody").status_code == 404
