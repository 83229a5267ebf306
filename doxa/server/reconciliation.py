"""The W3C Reconciliation API 0.2: names matched against the knowledge base, and columns filled with its answers.

The score of a candidate is its name's similarity and, where the query has properties, the beliefs about it:

    score = 100 · (½ · name + ½ · mean over properties of belief)      without properties: 100 · name

where belief is 1 for a known fact and the model's credence otherwise. A query without a name has the model's answers as
candidates, and belief alone counts. A property is a relation; `^relation` is its inverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from doxa.errors import UsageError
from doxa.model import Model
from doxa.server.name_index import Match
from doxa.server.served import Served

TYPE = {"id": "entity", "name": "Entity"}
INVERSE = "^"
LIKELY = 0.5
"""Least probability of an answer that fills a cell."""

SETTINGS = [
    {
        "name": "limit", "label": "Values", "type": "number", "default": 1,
        "help_text": "How many values a cell gets at most.",
    },
    {
        "name": "answers", "label": "Answers", "type": "select", "default": "both",
        "help_text": "Known facts, answers of the model, or known facts and answers where none is known.",
        "choices": [{"value": "known", "name": "known facts"}, {"value": "model", "name": "answers of the model"},
                    {"value": "both", "name": "both"}],
    },
]  # fmt: skip


def manifest(address: str, name: str) -> dict[str, Any]:
    """What the service offers; `address` is that of the service."""
    page = address.partition("/api/")[0]

    def service(path: str) -> dict[str, str]:
        return {"service_url": address, "service_path": path}

    return {
        "versions": ["0.2"],
        "name": f"doxa: {name}",
        "identifierSpace": "urn:doxa:entity:",
        "schemaSpace": "urn:doxa:relation:",
        "defaultTypes": [TYPE],
        "view": {"url": f"{page}/#/entity?name={{{{id}}}}"},
        "preview": {"url": f"{address}/preview?id={{{{id}}}}", "width": 400, "height": 200},
        "suggest": {kind: service(f"/suggest/{kind}") for kind in ("entity", "property", "type")},
        "extend": {"propose_properties": service("/properties"), "property_settings": SETTINGS},
        "batchSize": 50,
    }


def properties(served: Served, query: str, limit: int) -> list[dict[str, str]]:
    """Relations that match a query, each with its inverse."""
    wanted = query.removeprefix(INVERSE)
    names = [match.name for match in served.relations.search(wanted, limit)]
    both = [{"id": name, "name": name} for name in names]
    return [*both, *({"id": f"{INVERSE}{name}", "name": f"{name} (inverse)"} for name in names)][: 2 * limit]


def matches(served: Served, query: Mapping[str, Any]) -> dict[str, Any]:
    """The candidates of one query, best first."""
    text, limit = str(query.get("query", "")).strip(), min(max(int(query.get("limit") or 5), 1), 50)
    wanted = [(str(one["pid"]), values_of(one.get("v"))) for one in query.get("properties") or () if "pid" in one]
    pairs, count = _pairs(served, wanted), max(limit, 10)
    candidates = served.entities.search(text[:1000], count) if text else _answers(served, pairs, count)
    rows: list[dict[str, Any]] = []
    for match, belief in zip(candidates, _beliefs(served, candidates, pairs), strict=True):
        score = match.score if belief is None else (match.score + belief) / 2 if text else belief
        features = [{"id": "name", "value": match.score}, {"id": "facts", "value": match.facts}]
        features += [] if belief is None else [{"id": "belief", "value": round(belief, 4)}]
        sure = match.match == "exact" and (belief is None or belief >= LIKELY)
        rows.append({"id": match.name, "name": match.name, "score": round(100 * score, 2), "match": sure,
                     "type": [TYPE], "features": features})  # fmt: skip
    rows.sort(key=lambda row: -row["score"])
    if sum(row["match"] for row in rows) > 1:
        rows = [row | {"match": False} for row in rows]
    return {"result": rows[:limit]}


def values_of(value: Any) -> list[str]:
    """The names of a property's value: a text, a number, an object with an id, or a list of them."""
    if isinstance(value, list):
        return [name for one in value for name in values_of(one)]
    if isinstance(value, Mapping):
        value = value.get("id") or value.get("name")
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return [value] if isinstance(value, str) and value else []


def _pairs(served: Served, wanted: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, str]]:
    """The properties and values whose names the model knows."""
    relations, pairs = set(served.model.vocabularies.relations.names), []
    for pid, texts in wanted:
        relation = pid.removeprefix(INVERSE)
        for text in texts if relation in relations else ():
            exact = [match.name for match in served.entities.search(text[:1000], 1) if match.match == "exact"]
            pairs += [(pid, name) for name in exact]
    return pairs


def _answers(served: Served, pairs: Sequence[tuple[str, str]], count: int) -> list[Match]:
    """The most probable entities with these properties; their names say nothing."""
    names: dict[str, Match] = {}
    questions = [_triple(pid, "?", other) for pid, other in pairs]
    for answer in served.model.ask(questions, count) if questions else ():
        for one in answer:
            facts = int(served.entities.facts[served.model.vocabularies.entities.id(one.name)])
            names.setdefault(one.name, Match(one.name, "similar", 0.0, facts))
    return list(names.values())


def _beliefs(served: Served, candidates: Sequence[Match], pairs: Sequence[tuple[str, str]]) -> list[float | None]:
    """How well the properties fit each candidate; None where nothing about them is known."""
    if not pairs or not candidates:
        return [None] * len(candidates)
    rows = [_triple(pid, match.name, other) for match in candidates for pid, other in pairs]
    judged = served.model.judge(rows).as_dict()["beliefs"]
    numbers = [1.0 if one["known"] else float(one["credence"] or 0.0) for one in judged]
    count = len(pairs)
    return [sum(numbers[start : start + count]) / count for start in range(0, len(numbers), count)]


def _triple(pid: str, entity: str, other: str) -> tuple[str, str, str]:
    return (other, pid[1:], entity) if pid.startswith(INVERSE) else (entity, pid, other)


def extend(served: Served, request: Mapping[str, Any]) -> dict[str, Any]:
    """Values of properties for entities: known facts first, then the model's probable answers."""
    try:
        ids = [str(one) for one in request["ids"]]
        columns = [(str(one["id"]), dict(one.get("settings") or {})) for one in request["properties"]]
    except (KeyError, TypeError, ValueError):
        raise UsageError("a data extension query needs ids and properties") from None
    model, known = served.model, set(served.model.vocabularies.entities.names)
    rows: dict[str, dict[str, Any]] = {one: {pid: [] for pid, _ in columns} for one in ids}
    present = [one for one in dict.fromkeys(ids) if one in known]
    for pid, settings in columns:
        limit = min(max(int(settings.get("limit") or 1), 1), 100)
        for entity, names in zip(present, _values(model, present, pid, settings, limit), strict=True):
            rows[entity][pid] = [{"id": name, "name": name} for name in names]
    meta = [{"id": pid, "name": pid.removeprefix(INVERSE), "type": TYPE} for pid, _ in columns]
    return {"meta": meta, "rows": rows}


def _values(
    model: Model, entities: Sequence[str], pid: str, settings: Mapping[str, Any], limit: int
) -> list[list[str]]:
    """The values of one property for each entity."""
    wanted = settings.get("answers", "both")
    if not entities:
        return []
    answers = model.ask([_triple(pid, entity, "?") for entity in entities], max(limit, 20))
    columns = []
    for answer in answers:
        known = [one.name for one in answer if one.known]
        probable = [one.name for one in answer if one.probability >= LIKELY]
        chosen = probable if wanted == "model" else known if wanted == "known" or known else probable
        columns.append(chosen[:limit])
    return columns


def preview(served: Served, name: str, facts: Sequence[Mapping[str, Any]], total: int) -> str:
    """A small page about an entity; every name is escaped."""
    lines = "".join(
        f"<li>{escape(one['head'])} · {escape(one['relation'])} · {escape(one['tail'])}</li>" for one in facts
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title></head>'
        f"<body><h1>{escape(name)}</h1><p>{total:,} known facts</p><ul>{lines}</ul></body></html>"
    )
