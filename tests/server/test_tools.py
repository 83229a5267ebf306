"""The tools of language models, called by a client of the official SDK."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

pytest.importorskip("mcp")

from mcp import Client

from doxa.server import tools
from doxa.server.living import StoreSource
from doxa.server.security import Principal
from doxa.server.served import Source
from doxa.server.tools import proposed, tool_server

CURATOR, READER = Principal("agent", "curator"), Principal("agent", "reader")


def called(source, calls, who=CURATOR):
    """The results of calls, in order."""
    results = []

    async def run():
        async with Client(tool_server(source, lambda context: who)) as client:
            for name, arguments in calls:
                results.append(await client.call_tool(name, arguments))

    source.refresh()
    anyio.run(run)
    return results


def test_ten_questions_have_the_library_s_answers(folder, model):
    names, source = model.vocabularies, Source(folder)
    facts = [(names.entities[h], names.relations[r], names.entities[t]) for h, r, t in model.train[:10].tolist()]
    answers = called(source, [("ask", {"head": head, "relation": relation, "top": 3}) for head, relation, _ in facts])
    for (head, relation, _), answer in zip(facts, answers, strict=True):
        expected = [one.name for one in model.tails(head, relation, 3)]
        assert [one["name"] for one in answer.structured_content["answers"]] == expected


def test_each_tool_answers_and_errors_are_the_library_s(folder, model):
    h, r, t = model.train[0].tolist()
    names = model.vocabularies
    belief = {"head": names.entities[h], "relation": names.relations[r], "tail": names.entities[t]}
    judged, explained, near, new, typed, wrong, refused = called(
        Source(folder),
        [
            ("judge", belief),
            ("explain", belief),
            ("similar", {"entity": belief["head"]}),
            ("complete", {"min_credence": 0, "top": 2}),
            ("names", {"query": belief["head"]}),
            ("ask", {"head": belief["head"] + "x", "relation": belief["relation"]}),
            ("propose", belief),
        ],
    )
    assert judged.structured_content["beliefs"][0]["known"]
    assert set(explained.structured_content["terms"]) == {"Pr(h|r,t)", "Pr(r|h,t,m)", "Pr(t|h,r)"}
    assert near.structured_content["entity"] == belief["head"]
    assert len(new.structured_content["proposals"]) == 2
    assert typed.structured_content["names"][0]["name"] == belief["head"]
    assert wrong.is_error
    assert "Did you mean" in wrong.content[0].text
    assert refused.is_error
    assert "read-only" in refused.content[0].text


def test_complete_offers_nothing_that_is_decided(kb):
    source = StoreSource(kb)
    (result,) = called(source, [("complete", {"min_credence": 0, "top": 1000})])
    offered = [(one["head"], one["relation"], one["tail"]) for one in result.structured_content["proposals"]]
    assert offered
    assert not any(kb.holds(*triple) for triple in offered)
    kb.decide(*offered[0], "reject")
    kb.decide(*offered[1], "accept")
    (result,) = called(source, [("complete", {"min_credence": 0, "top": 1000})])
    then = [(one["head"], one["relation"], one["tail"]) for one in result.structured_content["proposals"]]
    assert then == offered[2:]


def test_a_proposal_goes_to_the_review_queue_and_nowhere_else(kb):
    source = StoreSource(kb)
    source.refresh()
    before = kb.status()["beliefs"]
    claim = ("0,0", "right", "5,5")
    result = proposed(source, CURATOR, claim, "read somewhere")
    assert result["proposed"] == 1
    assert (kb.status()["beliefs"], kb.holds(*claim)) == (before, False)
    waiting = kb.queue.claim()
    assert (waiting.triple, waiting.evidence["proposed_by"], waiting.evidence["note"]) == (
        claim,
        "agent",
        "read somewhere",
    )
    assert proposed(source, CURATOR, ("0,0", "right", "1,0"), None)["proposed"] == 0
    assert proposed(source, CURATOR, ("new", "right", "5,5"), None)["credence"] is None


def test_readers_may_not_propose(kb):
    (refused,) = called(StoreSource(kb), [("propose", {"head": "a", "relation": "b", "tail": "c"})], READER)
    assert refused.is_error
    assert kb.queue.counts()["open"] == 0


def test_tools_over_http_need_a_reader(client, folder):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    response = client.post("/mcp", json=message, headers=headers)
    assert {tool["name"] for tool in response.json()["result"]["tools"]} == {
        "ask", "judge", "explain", "similar", "complete", "names", "propose",
    }  # fmt: skip
    assert client.post("/mcp", json=message, headers=headers | {"X-Forwarded-For": "192.0.2.1"}).status_code == 401


def sent(client, name, arguments, headers):
    """The response to a call of a tool over HTTP."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    return client.post("/mcp", json=message, headers=accepted | headers)


def test_over_http_curators_propose_in_their_name_and_others_do_not(store, tokens, kb):
    claim = {"head": "0,0", "relation": "right", "tail": "5,5"}
    for who in ("nobody", "reader"):
        result = sent(store, "propose", claim, tokens[who]).json()["result"]
        assert (result["isError"], "token of a curator" in result["content"][0]["text"]) == (True, True)
        assert not sent(store, "judge", claim, tokens[who]).json()["result"].get("isError")
    assert sent(store, "propose", claim, {"X-Forwarded-For": "192.0.2.1"}).status_code == 401
    assert sent(store, "propose", claim, {"Authorization": "Bearer wrong"}).status_code == 401
    assert kb.queue.counts()["open"] == 0
    result = sent(store, "propose", claim, tokens["curator"]).json()["result"]
    assert result["structuredContent"]["proposed"] == 1
    assert kb.queue.claim().evidence["proposed_by"] == "curator"


def test_doxa_mcp_answers_over_standard_input_and_output(kb):
    from mcp.client.stdio import StdioServerParameters

    program = "from doxa.cli import main; main()"
    command = StdioServerParameters(command=sys.executable, args=["-c", program, "mcp", kb.place.location])
    claim = {"head": "0,0", "relation": "right", "tail": "5,5"}

    async def run():
        async with Client(command) as client:
            listed = await client.list_tools()
            return len(listed.tools), await client.call_tool("judge", claim), await client.call_tool("propose", claim)

    count, judged, proposal = anyio.run(run)
    assert (count, judged.structured_content["beliefs"][0]["known"]) == (7, False)
    assert proposal.structured_content["proposed"] == 1
    assert kb.queue.claim().triple == tuple(claim.values())


@pytest.fixture
def fresh(folder):
    """A client of a server whose tools nobody has used."""
    from fastapi.testclient import TestClient

    from doxa.server.app import Options, create_app

    with TestClient(create_app(Source(folder), Options()), "http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


def listed(client):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    return client.post("/mcp", json=message, headers=headers)


def test_first_requests_at_once_share_the_tools(fresh):
    with ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(listed, [fresh] * 4))
    assert [len(response.json()["result"]["tools"]) for response in responses] == [7] * 4


def test_tools_that_cannot_be_loaded_fail_alone_and_not_for_good(fresh, monkeypatch):
    def broken(server):
        raise RuntimeError("no tools today")

    with monkeypatch.context() as patch:
        patch.setattr(tools, "sessions_of", broken)
        assert listed(fresh).status_code == 500
    assert fresh.get("/readyz").status_code == 200
    assert listed(fresh).status_code == 200


def test_a_server_starts_without_the_library_of_the_tools():
    """It takes a second to import."""
    program = "import sys, doxa.server.app; print('mcp' in sys.modules, 'scipy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
