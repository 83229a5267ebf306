"""Reconciliation answers have the form that the W3C specification 0.2 prescribes, and the right names first."""

import json

import pytest
from pydantic import TypeAdapter

from doxa.server.reconciliation import values_of
from tests.server import reconciliation_rules as rules

RECONCILE = "/api/v1/reconcile"


def matched(client, **queries):
    response = client.post(RECONCILE, data={"queries": json.dumps(queries)})
    assert response.status_code == 200
    TypeAdapter(dict[str, rules.Candidates]).validate_python(response.json())
    assert response.json().keys() == queries.keys()
    return response.json()


def test_the_manifest_has_what_the_specification_requires(client):
    manifest = client.get(RECONCILE).json()
    rules.Manifest.model_validate(manifest)
    assert "0.2" in manifest["versions"]
    assert set(manifest["suggest"]) == {"entity", "property", "type"}
    for service in manifest["suggest"].values():
        shown = client.get(service["service_url"] + service["service_path"]).json()
        assert rules.Suggestions.model_validate(shown).result
    service = manifest["extend"]["propose_properties"]
    proposed = client.get(service["service_url"] + service["service_path"], params={"type": "entity"}).json()
    assert rules.Proposal.model_validate(proposed).properties
    assert manifest["view"]["url"] == "http://127.0.0.1/#/entity?name={{id}}"
    assert client.get(manifest["preview"]["url"].replace("{{id}}", "3,3")).status_code == 200


def test_candidates_are_sorted_and_typed(client):
    result = matched(client, q0={"query": "2,3"}, q1={"query": "2,33", "limit": 2}, q2={"query": ""})
    best = result["q0"]["result"][0]
    assert (best["id"], best["match"], best["score"]) == ("2,3", True, 100)
    assert best["type"] == [{"id": "entity", "name": "Entity"}]
    scores = [one["score"] for one in result["q1"]["result"]]
    assert len(scores) <= 2
    assert scores == sorted(scores, reverse=True)
    assert result["q2"]["result"] == []


def test_beliefs_decide_between_similar_names(client, model):
    names = model.vocabularies
    head, relation, tail = model.train[0].tolist()
    entity, other = names.entities[head], names.entities[tail]
    fits = {"pid": names.relations[relation], "v": other}
    right = matched(client, q={"query": entity, "properties": [fits]})["q"]["result"][0]
    assert (right["id"], right["match"]) == (entity, True)
    assert {"id": "belief", "value": 1.0} in right["features"]
    wrong = matched(client, q={"query": entity, "properties": [fits | {"v": entity}]})["q"]["result"]
    assert next(one["score"] for one in wrong if one["id"] == entity) < right["score"]
    inverse = {"pid": f"^{names.relations[relation]}", "v": {"id": entity}}
    assert matched(client, q={"query": other, "properties": [inverse]})["q"]["result"][0]["id"] == other


def test_beliefs_alone_find_a_candidate_without_a_name(client, model):
    names = model.vocabularies
    _, relation, tail = model.train[0].tolist()
    value = {"pid": names.relations[relation], "v": names.entities[tail]}
    first = matched(client, q={"properties": [value]})["q"]["result"][0]
    known = {names.entities[h] for h, r, t in model.known.triples.tolist() if (r, t) == (relation, tail)}
    assert (first["id"] in known, first["score"], first["match"]) == (True, 100, False)
    assert matched(client, q={"properties": [{"pid": "no relation", "v": 3}]})["q"]["result"] == []


def test_numbers_are_values_too():
    assert values_of([1990, 2.5, True, "a", {"id": "b", "name": "c"}, None, ""]) == ["1990", "2.5", "a", "b"]


def test_data_extension_fills_cells(client, model):
    names = model.vocabularies
    head, relation, _ = model.train[0].tolist()
    pid = names.relations[relation]
    query = {
        "ids": [names.entities[head], "nobody"],
        "properties": [{"id": pid}, {"id": f"^{pid}", "settings": {"limit": 2}}],
    }
    result = client.post(RECONCILE, data={"extend": json.dumps(query)}).json()
    rules.Extension.model_validate(result)
    assert [one["id"] for one in result["meta"]] == [pid, f"^{pid}"]
    known = model.known.triples
    tails = {names.entities[t] for h, r, t in known.tolist() if (h, r) == (head, relation)}
    assert {one["id"] for one in result["rows"][names.entities[head]][pid]} <= tails
    assert result["rows"][names.entities[head]][pid]
    assert result["rows"]["nobody"] == {pid: [], f"^{pid}": []}
    assert client.get(f"{RECONCILE}/properties", params={"limit": 3}).json()["properties"]


def test_suggest_and_preview(client):
    shown = client.get(f"{RECONCILE}/suggest/entity", params={"prefix": "3,"}).json()["result"]
    assert {"id", "name"} <= set(shown[0])
    assert "3,3" in [one["id"] for one in shown]
    preview = client.get(f"{RECONCILE}/preview", params={"id": "3,3"})
    assert preview.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in preview.headers["content-security-policy"]


@pytest.mark.parametrize(
    "form",
    [{}, {"queries": "["}, {"queries": "[]"}, {"queries": '{"q0": 1}'}, {"queries": '{"q0": {"query": 1}}'},
     {"extend": "{}"}, {"extend": '{"ids": [1], "properties": 3}'},
     {"queries": '{"q0": {"query": "a", "limit": "x"}}'}, {"queries": '{"q0": {"query": "a", "properties": [1]}}'},
     {"queries": '{"q0": {"query": "\\ud800"}}'}, {"queries": '{"q0": {"query": "a", "limit": 1e999}}'}],
)  # fmt: skip
def test_faulty_queries_are_problems(client, form):
    assert client.post(RECONCILE, data=form).status_code in (415, 422)


def test_names_in_a_preview_are_escaped():
    from doxa.server.reconciliation import preview

    page = preview(None, "<script>x</script>", [{"head": "<b>", "relation": '"', "tail": "&"}], 1)
    assert "<script>" not in page
    assert "&lt;b&gt;" in page
