"""Completion, audit, map, models, export, health and figures."""

import json

import polars as pl

from tests.server.test_tools import sent


def test_complete_streams_progress_then_proposals_then_a_summary(client, model):
    expected = model.complete(min_credence=0, top=4)
    response = client.get("/api/v1/complete", params={"min_credence": 0, "top": 4})
    lines = [json.loads(line) for line in response.text.splitlines()]
    proposals = [line["proposal"] for line in lines if "proposal" in line]
    assert [(one["head"], one["relation"], one["tail"]) for one in proposals] == expected.to_frame().select(
        "head", "relation", "tail"
    ).rows()
    assert lines[-1]["summary"]["basis"] == expected.basis
    assert client.get("/api/v1/complete", params={"entity": "nobody"}).status_code == 404


def test_audit_of_all_and_of_one_entity(client, model):
    whole = client.get("/api/v1/audit", params={"top": 5}).json()
    expected = model.audit(top=5).to_frame()
    assert [one["head"] for one in whole["suspects"]] == expected["head"].to_list()
    entity = model.vocabularies.entities[0]
    part = client.get("/api/v1/audit", params={"entity": entity}).json()["suspects"]
    assert part
    assert all(entity in (one["head"], one["tail"]) for one in part)


def test_an_audit_that_takes_too_long_is_refused(folder):
    from fastapi.testclient import TestClient

    from doxa.server.app import create_app
    from doxa.server.limits import Limits
    from doxa.server.served import Source

    with TestClient(create_app(Source(folder), limits=Limits(audited=10)), base_url="http://127.0.0.1") as client:
        response = client.get("/api/v1/audit")
        assert (response.status_code, "name an entity" in response.json()["hints"][0]) == (413, True)


def test_a_search_that_takes_too_long_is_refused(folder, model):
    from fastapi.testclient import TestClient

    from doxa.server.app import create_app
    from doxa.server.completion import search_cost
    from doxa.server.limits import Limits
    from doxa.server.served import Served, Source

    served, relation = Served(model, "1"), model.vocabularies.relations[0]
    whole, part = search_cost(served, (), ()), search_cost(served, (), [relation])
    corner = next(one for one in model.vocabularies.entities.names if one == "0,0")
    assert (
        part
        < whole
        == len(model.vocabularies.entities)
        * sum(served.pools.cost(one) for one in range(len(model.vocabularies.relations)))
    )
    assert 0 < search_cost(served, [corner], ()) <= whole
    with TestClient(create_app(Source(folder), limits=Limits(searched=part)), base_url="http://127.0.0.1") as client:
        response = client.get("/api/v1/complete")
        assert (response.status_code, "name an entity" in response.json()["hints"][0]) == (413, True)
        assert client.get("/api/v1/complete", params={"relation": relation}).status_code == 200
        result = sent(client, "complete", {}, {}).json()["result"]
        assert (result["isError"], "takes too long" in result["content"][0]["text"]) == (True, True)


def test_map_and_models(client, model):
    drawn = client.get("/api/v1/map", params={"most": 10}).json()
    assert len(drawn["entities"]) == 10
    assert all(0 <= one["x"] <= 1 for one in drawn["entities"])
    live = client.get("/api/v1/models/live").json()
    assert live["info"]["entities"] == len(model.vocabularies.entities)
    assert client.get("/api/v1/models").json()["models"][0]["version"] == live["version"]
    assert client.get("/api/v1/models/live/validation").json()["beliefs"] == len(model.valid)


def test_export_is_the_known_facts(client, model):
    table = pl.read_csv(client.get("/api/v1/export").content, separator="\t", infer_schema=False, has_header=False)
    assert len(table) in (len(model.known), len(model.known) + 1)
    rows = [json.loads(line) for line in client.get("/api/v1/export?format=jsonl").text.splitlines()]
    assert len(rows) == len(model.known)
    assert client.get("/api/v1/export?format=/etc/passwd").status_code == 422


def test_health_readiness_and_figures(client):
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").status_code == 200
    figures = client.get("/metrics").text
    assert 'doxa_requests_total{method="GET",route="/readyz",status="200"}' in figures
    assert "process_resident_memory_bytes" in figures


def test_every_operation_of_openapi_has_a_summary_and_problems(app):
    for path, operations in app.openapi()["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            assert "422" in operation["responses"], path
