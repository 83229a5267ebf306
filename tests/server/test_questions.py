"""Questions over HTTP answer what the library answers."""

import io
import json

import polars as pl
import pytest

ASK = "/api/v1/ask"
JUDGE = "/api/v1/judge"
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
LINES = {"content-type": "application/x-ndjson"}


@pytest.fixture
def fact(model):
    head, relation, tail = model.train[0]
    names = model.vocabularies
    return names.entities[head], names.relations[relation], names.entities[tail]


def arrow(rows):
    out = io.BytesIO()
    pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row").write_ipc_stream(out)
    return out.getvalue()


def about(triple):
    return dict(zip(("head", "relation", "tail"), triple, strict=True))


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_ask_is_the_library_s_answer(client, model, fact, missing):
    question = [name if place != missing else "?" for place, name in enumerate(fact)]
    expected = model.ask([tuple(question)], top=3)[0].as_dict()
    parameters = {name: value for name, value in about(question).items() if value != "?"}
    answer = client.get(ASK, params=parameters | {"top": 3}).json()
    assert answer["question"] == expected["question"]
    for one, other in zip(answer["answers"], expected["answers"], strict=True):
        assert one == pytest.approx(other)


def test_a_mention_and_new_only_reach_the_library(client, model, fact):
    asked = {"head": fact[0], "tail": fact[2], "mention": "is left of"}
    expected = model.relations(fact[0], fact[2], "is left of").as_dict()
    assert client.get(ASK, params=asked).json()["question"] == expected["question"]
    new = client.get(ASK, params={"head": fact[0], "relation": fact[1], "new_only": True, "top": 100}).json()
    assert fact[2] not in [one["name"] for one in new["answers"]]


def test_errors_are_problems_with_the_library_s_words(client, fact):
    response = client.get(ASK, params={"head": fact[0] + "x", "relation": fact[1]})
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "urn:doxa:problem:unknown-name"
    assert f"Did you mean {fact[0]!r}" in response.json()["detail"]
    nothing = client.get(ASK)
    assert (nothing.status_code, "expected exactly one" in nothing.json()["detail"]) == (422, True)
    assert client.get(ASK, params={"top": 0}).json()["hints"] == ["top: Input should be greater than or equal to 1"]
    assert client.get("/api/v1/nothing").headers["content-type"] == "application/problem+json"
    assert client.delete(ASK).status_code == 405


def test_the_version_of_the_model_is_the_etag(client, fact):
    asked = {"head": fact[0], "relation": fact[1]}
    tag = client.get(ASK, params=asked).headers["etag"]
    assert client.get("/readyz").json()["version"] in tag
    again = client.get(ASK, params=asked, headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(ASK, params=asked, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_batch_in_each_format_has_the_same_answers(client, model, fact):
    questions = [(fact[0], fact[1], "?"), ("?", fact[1], fact[2])]
    expected = [[one["name"] for one in answer.as_dict()["answers"]] for answer in model.ask(questions, top=2)]
    plain = client.post(ASK, json={"questions": questions, "top": 2}).json()["answers"]
    text = "\n".join(json.dumps(list(question)) for question in questions)
    lines = [json.loads(line) for line in client.post(f"{ASK}?top=2", content=text, headers=LINES).text.splitlines()]
    assert plain == lines
    assert [[one["name"] for one in answer["answers"]] for answer in plain] == expected
    table = pl.read_ipc_stream(client.post(f"{ASK}?top=2", content=arrow(questions), headers=ARROW).content)
    assert table.filter(question=0)["tail"].to_list() == expected[0]
    assert table.filter(question=1)["head"].to_list() == expected[1]


def test_judge_one_and_many(client, model, fact):
    expected = model.judge([fact]).as_dict()
    judged = client.get(JUDGE, params=about(fact)).json()
    assert judged["beliefs"][0] == pytest.approx(expected["beliefs"][0])
    assert judged["mixture"] == expected["mixture"]
    assert client.get(JUDGE, params=about(fact) | {"tail": "nowhere"}).status_code == 404
    rows = [fact, (fact[0], fact[1], "nowhere")]
    verdicts = [one["verdict"] for one in model.judge(rows).as_dict()["beliefs"]]
    many = client.post(JUDGE, json={"beliefs": [about(row) for row in rows]}).json()["beliefs"]
    assert [one["verdict"] for one in many] == verdicts
    assert verdicts[1] == "unknown"
    table = pl.read_ipc_stream(client.post(JUDGE, content=arrow(rows), headers=ARROW).content)
    assert table["verdict"].to_list() == verdicts
    text = "\n".join(json.dumps(about(row)) for row in rows)
    lines = client.post(JUDGE, content=text, headers=LINES).text.splitlines()
    assert [json.loads(line)["verdict"] for line in lines] == verdicts


def test_base_rate_changes_credence(client, fact):
    low, high = (client.get(JUDGE, params=about(fact) | {"base_rate": rate}).json() for rate in (0.01, 0.99))
    assert low["beliefs"][0]["credence"] < high["beliefs"][0]["credence"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\xff", "application/json"),
        (b'{"questions": [["\\ud800", "r", "?"]]}', "application/json"),
        (b'{"questions": [["a", "r"]]}', "application/json"),
        (b'["\\ud800", "r", "?"]', LINES["content-type"]),
        (b'[1, 2, "?"]', LINES["content-type"]),
        (b"[" * 100_000, LINES["content-type"]),
        (b"\x00\x01", ARROW["content-type"]),
    ],
)
def test_a_broken_body_is_a_problem(client, content, kind):
    response = client.post(ASK, content=content, headers={"content-type": kind})
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")


def test_bodies_of_other_types_and_sizes_are_refused(client):
    assert client.post(ASK, content=b"a=1", headers={"content-type": "text/csv"}).status_code == 415
    many = {"questions": [["a", "b", "?"]] * 10_001}
    assert client.post(ASK, json=many).status_code == 413
    assert client.post(ASK, content=b" " * (16 * 2**20 + 1)).status_code == 413


def test_explain_and_similar_are_the_library_s(client, model, fact):
    explained = client.get("/api/v1/explain", params=about(fact)).json()
    expected = model.explain(*fact).as_dict()
    assert explained["terms"] == pytest.approx(expected["terms"])
    assert [one["head"] for one in explained["influences"]] == [one["head"] for one in expected["influences"]]
    near = client.get("/api/v1/similar", params={"entity": fact[0], "top": 3}).json()
    assert [one["name"] for one in near["similar"]] == [one.name for one in model.similar(fact[0], 3)]
