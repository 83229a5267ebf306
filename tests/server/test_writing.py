"""Review, beliefs, jobs and versions over HTTP change the knowledge base, and only what they say."""

import asyncio
import io
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from doxa.model import Model
from doxa.server import work, worker
from doxa.server.runner import Runner

NEXT = "/api/v1/review/next"


@pytest.fixture
def queue(kb):
    """Three missing beliefs in the review queue."""
    rows = [("0,0", "right", "5,5", 0.9), ("0,0", "right", "4,4", 0.8), ("0,0", "up", "3,3", 0.7)]
    kb.queue.propose(pl.DataFrame(rows, schema=["head", "relation", "tail", "credence"], orient="row"), "missing")
    return kb.queue


def test_a_review_with_prefetched_proposals(store, tokens, queue, kb):
    me = tokens["curator"]
    first = store.post(NEXT, params={"count": 2}, headers=me).json()
    assert [one["credence"] for one in first["proposals"]] == [0.9, 0.8]
    assert first["queue"]["leased"] == 2
    number = first["proposals"][0]["id"]
    decided = store.post(f"/api/v1/review/{number}/decide", headers=me, json={"verdict": "accept"})
    assert decided.status_code == 200
    assert kb.holds("0,0", "right", "5,5")
    assert kb.entries(1)["curator"].item() == "curator"
    then = store.post(NEXT, params={"count": 2}, headers=me).json()["proposals"]
    assert [one["credence"] for one in then] == [0.8, 0.7]
    again = store.post(f"/api/v1/review/{number}/decide", headers=me, json={"verdict": "reject"})
    assert (again.status_code, "already decided by curator" in again.json()["detail"]) == (409, True)
    assert store.get(f"/api/v1/review/{number}", headers=me).json()["state"] == "decided"
    undone = store.post("/api/v1/review/undo", headers=me, json={})
    assert undone.json()["decision"] > decided.json()["decision"]
    assert undone.json()["proposal"] == number
    assert store.get(f"/api/v1/review/{number}", headers=me).json()["state"] == "open"
    assert not kb.holds("0,0", "right", "5,5")
    stats = store.get("/api/v1/review/stats").json()
    assert (stats["verdicts"], stats["queue"]["open"]) == ({}, 3)


def test_two_reviewers_get_different_proposals(store, tokens, queue):
    mine = store.post(NEXT, params={"count": 2}, headers=tokens["curator"]).json()["proposals"]
    theirs = store.post(NEXT, params={"count": 5}, headers=tokens["admin"]).json()["proposals"]
    assert {one["id"] for one in mine} & {one["id"] for one in theirs} == set()
    assert len(mine) + len(theirs) == 3
    taken = store.post(f"/api/v1/review/{mine[0]['id']}/decide", headers=tokens["admin"], json={"verdict": "accept"})
    assert (taken.status_code, "leased to curator" in taken.json()["detail"]) == (409, True)
    store.post(f"/api/v1/review/{mine[0]['id']}/release", headers=tokens["curator"])
    assert len(store.post(NEXT, params={"count": 5}, headers=tokens["admin"]).json()["proposals"]) == 2


def test_beliefs_are_added_retracted_and_have_a_history(store, tokens, kb):
    belief = {"head": "0,0", "relation": "up", "tail": "5,5"}
    headers = tokens["curator"]
    added = store.post("/api/v1/beliefs", headers=headers, json=belief | {"mention": "far up", "confidence": 0.5})
    assert kb.holds(*belief.values())
    removed = store.post("/api/v1/beliefs/retract", headers=headers, json=belief | {"reason": "wrong tail"})
    assert not kb.holds(*belief.values())
    history = store.get("/api/v1/beliefs/history", params=belief).json()
    assert [one["decision"] for one in history["decisions"]] == [added.json()["decision"], removed.json()["decision"]]
    assert history["assertions"][0]["mention"] == "far up"
    store.post("/api/v1/beliefs/undo", headers=headers, json=removed.json())
    assert kb.holds(*belief.values())
    assert store.get("/api/v1/beliefs/log", params={"last": 1}).json()["decisions"][0]["verdict"] == "undo"
    missing = store.post("/api/v1/beliefs/retract", headers=headers, json=belief | {"tail": "9,9"})
    assert missing.status_code == 404


def test_changes_are_what_was_decided_since_the_model_in_use(store, tokens, queue, kb, folder):
    me, first, second = tokens["curator"], ("0,0", "right", "1,0"), ("0,0", "right", "5,5")

    def changes(**about):
        rows = store.get("/api/v1/beliefs/changes", params=about).json()["changes"]
        return [((one["head"], one["relation"], one["tail"]), one["holds"], one["curator"]) for one in rows]

    assert changes() == []
    body = dict(zip(("head", "relation", "tail"), first, strict=True))
    retracted = store.post("/api/v1/beliefs/retract", headers=me, json=body).json()
    number = store.post(NEXT, headers=me).json()["proposals"][0]["id"]
    store.post(f"/api/v1/review/{number}/decide", headers=me, json={"verdict": "replace", "replacement": "2,5"})
    replaced = [(second, False, "curator"), (("0,0", "right", "2,5"), True, "curator")]
    assert changes() == [(first, False, "curator"), *replaced]
    assert changes(entity="1,0") == [(first, False, "curator")]
    store.post("/api/v1/beliefs/undo", headers=me, json=retracted)
    assert changes() == replaced
    again = kb.retract(*first)
    Model.load(folder).save(kb.place.path.parent / "second")
    kb.models.register(kb.place.path.parent / "second", kb.snapshot(), state="candidate", parent=1)
    store.post("/api/v1/models/2/publish", headers=tokens["admin"])
    assert changes() == []
    kb.undo(again)
    kb.add("0,0", "up", "somewhere new")
    assert changes() == [(first, True, "owner"), (("0,0", "up", "somewhere new"), True, "owner")]
    model = Model.load(folder)
    knows = model.judge([first]).as_dict()["beliefs"][0]["known"]
    rows = store.get("/api/v1/beliefs/changes").json()["changes"]
    assert [one["known"] for one in rows] == [knows, False]


def test_import_by_upload_is_all_or_nothing_and_undoable(store, tokens, kb):
    before = kb.status()["beliefs"]
    address, headers = "/api/v1/beliefs/import", tokens["admin"]
    response = store.post(
        address, params={"source": "http://elsewhere/x"}, headers=headers, content=b"a\tup\tb\nb\tup\tc\n"
    )
    assert response.status_code == 200
    assert kb.status()["beliefs"] == before + 2
    broken = store.post(address, params={"format": "jsonl"}, headers=headers, content=b'{"head": "x"\n')
    assert (broken.status_code, "upload" in broken.json()["detail"]) == (422, True)
    assert "/" not in broken.json()["detail"]
    assert kb.status()["beliefs"] == before + 2
    kb.undo(response.json()["decision"])
    assert kb.status()["beliefs"] == before
    assert any(one["action"] == "import" for one in store.get("/api/v1/trail", headers=headers).json()["trail"])


def test_publishing_swaps_the_model_and_rollback_returns(store, tokens, kb, folder, tmp_path):
    former = store.get("/readyz").json()["version"]
    Model.load(folder).save(tmp_path / "second")
    second = kb.models.register(tmp_path / "second", kb.snapshot(), state="candidate", parent=1)
    published = store.post(f"/api/v1/models/{second.id}/publish", headers=tokens["admin"]).json()["models"]
    assert [one["state"] for one in published] == ["retired", "live"]
    assert store.get("/api/v1/models/live").json()["number"] == second.id
    assert store.get("/readyz").json()["version"] != former
    assert store.post("/api/v1/models/rollback", headers=tokens["admin"]).json()["models"][0]["state"] == "live"
    assert store.get("/readyz").json()["version"] == former
    assert store.post("/api/v1/models/77/publish", headers=tokens["admin"]).status_code == 404
    assert "/" not in published[1]["folder"]


def test_requests_go_on_while_models_are_swapped(store, tokens, kb, folder, tmp_path):
    """Every answer is of one version as a whole, and after a publication of the published one."""
    Model.load(folder).save(tmp_path / "second")
    kb.models.register(tmp_path / "second", kb.snapshot(), state="candidate", parent=1)
    ended, versions = threading.Event(), list[int]()

    def ask():
        while not ended.is_set():
            live = store.get("/api/v1/models/live")
            asked = store.get("/api/v1/ask", params={"head": "0,0", "relation": "right"})
            assert (live.status_code, asked.status_code) == (200, 200)
            assert live.headers["etag"] == f'"{live.json()["version"]}"'
            versions.append(live.json()["number"])

    def publish(number):
        published = store.post(f"/api/v1/models/{number}/publish", headers=tokens["admin"])
        assert published.status_code == 200
        assert store.get("/api/v1/models/live").json()["number"] == number
        before = len(versions)
        until(lambda: number in versions[before:])

    with ThreadPoolExecutor(3) as pool:
        askers = [pool.submit(ask) for _ in range(3)]
        try:
            for number in (2, 1) * 5:
                publish(number)
        finally:
            ended.set()
    assert [asker.exception() for asker in askers] == [None] * 3


def test_compare_lists_the_decisions_between_two_versions(store, tokens, kb, folder):
    kb.add("0,0", "up", "4,4")
    kb.models.register(folder, kb.snapshot(), state="candidate")
    changed = store.get("/api/v1/models/compare", params={"a": 1, "b": 2}).json()
    assert [one["tail"] for one in changed["decisions"]] == ["4,4"]


def test_evaluation_reports_the_steps_that_are_done(kb):
    reports = []
    work.run(kb, "evaluate", {}, lambda share, what: reports.append((share, what)))
    shares = [share for share, _ in reports]
    assert reports[0] == (0.0, "entity, step 1 of 6")
    assert len(shares) > 2
    assert shares == sorted(set(shares))
    assert reports[-1] == (5 / 6, "popularity, step 6 of 6")


@pytest.mark.parametrize("kind", ["complete", "audit", "evaluate", "update"])
def test_each_job_does_its_work(kb, kind, monkeypatch):
    kb.decide("0,0", "right", "1,0", "reject")
    message, result = work.run(kb, kind, {"epochs": 1} if kind == "update" else {}, lambda share, what: None)
    assert message
    if kind in ("complete", "audit"):
        assert kb.queue.counts()["open"] == result["proposals"]
    elif kind == "evaluate":
        assert result["evaluation"]["protocol"]["queries"] > 0
    else:
        assert result["version"]["id"] == 2
        assert "/" not in result["version"]["folder"]


def test_a_job_runs_in_its_own_process_and_ends_with_an_event(store, tokens, kb):
    job = store.post("/api/v1/jobs", headers=tokens["admin"], json={"kind": "complete", "min_credence": 0, "top": 5})
    assert job.status_code == 202
    events = store.get(f"/api/v1/jobs/{job.json()['id']}/events").text.split("\n\n")
    last = events[-2].splitlines()
    assert last[0] == "event: end"
    ended = json.loads(last[1].removeprefix("data: "))
    assert (ended["state"], ended["result"]["proposals"]) == ("done", kb.queue.counts()["open"])
    assert store.post("/api/v1/jobs", headers=tokens["admin"], json={"kind": "rm -rf"}).status_code == 422


def test_a_running_job_is_canceled_over_http(store, tokens, kb):
    runner = store.app.state.context.runner
    kb.decide("0,0", "right", "1,0", "reject")
    number = store.post("/api/v1/jobs", headers=tokens["admin"], json={"kind": "update", "epochs": 1000}).json()["id"]
    until(lambda: store.get(f"/api/v1/jobs/{number}").json()["state"] == "running" and runner._process is not None)
    process = runner._process
    assert store.post(f"/api/v1/jobs/{number}/cancel", headers=tokens["curator"]).status_code == 403
    canceled = store.post(f"/api/v1/jobs/{number}/cancel", headers=tokens["admin"])
    assert canceled.json()["state"] == "canceled"
    until(lambda: process.returncode is not None)
    assert store.get(f"/api/v1/jobs/{number}/events").text.count('"state":"canceled"') == 1
    assert [one.id for one in kb.models.all()] == [1]
    assert kb.accounts.trail()[-1]["action"] == "cancel job"


def until(condition):
    """Wait for a condition, at most a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_worker_knows_its_place_before_it_imports_what_takes_long():
    program = "import sys, doxa.server.worker; print('torch' in sys.modules, 'polars' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


def test_a_worker_ends_where_its_server_has_ended(kb, monkeypatch):
    kb.jobs.add("complete", {"min_credence": 0})
    job = kb.jobs.start() | {"place": kb.place.location, "curator": "owner", "server": 0}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(job)))
    monkeypatch.setattr(worker.ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError))
    added = []
    monkeypatch.setattr(worker.os, "nice", added.append)
    assert worker.main() == 1
    assert added == [19]
    assert (kb.jobs.get(job["id"])["state"], kb.queue.counts()["open"]) == ("running", 0)


def test_a_job_whose_process_cannot_start_fails_and_the_next_one_is_tried(kb, monkeypatch):
    async def none_left(*arguments, **options):
        raise BlockingIOError(11, "no process left")

    async def run():
        runner = Runner(kb)
        await runner.start()
        while kb.jobs.get(numbers[-1])["state"] in ("waiting", "running"):
            await asyncio.sleep(0.01)
        await runner.stop()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", none_left)
    numbers = [kb.jobs.add("evaluate"), kb.jobs.add("evaluate")]
    asyncio.run(asyncio.wait_for(run(), 60))
    for number in numbers:
        job = kb.jobs.get(number)
        assert (job["state"], "no process left" in job["message"]) == ("failed", True)


def test_responses_name_no_path_of_the_machine(store, tokens, kb):
    folder = str(kb.place.path.parent)
    kb.models.register(kb.place.path.parent / "gone", kb.snapshot(), state="candidate")
    for path in ("/api/v1/models", "/api/v1/models/live", "/api/v1/beliefs/status", "/api/v1/reconcile"):
        assert folder not in store.get(path).text
    broken = store.post("/api/v1/models/2/publish", headers=tokens["admin"])
    assert (broken.status_code, folder in broken.text) == (503, False)
    assert kb.models.live().id == 1


def test_canceled_and_abandoned_jobs(kb):
    first, second = kb.jobs.add("update"), kb.jobs.add("update")
    taken = kb.jobs.start()
    assert kb.jobs.cancel(first)
    assert not kb.jobs.report(first, 0.5, started=taken["started"])
    assert not kb.jobs.finish(first, started=taken["started"])
    assert kb.jobs.get(first)["state"] == "canceled"
    before = kb.jobs.start()
    assert kb.jobs.requeue() == 1
    again = kb.jobs.start()
    assert before["id"] == again["id"] == second
    assert not kb.jobs.finish(second, started=before["started"])
    assert kb.jobs.finish(second, result={"a": 1}, started=again["started"])
    assert kb.jobs.get(second)["result"] == {"a": 1}


def test_accounts_over_http(store, tokens):
    made = store.post("/api/v1/accounts", headers=tokens["admin"], json={"name": "ada", "role": "reader"}).json()
    hers = {"Authorization": f"Bearer {made['token']}"}
    assert store.get("/api/v1/me", headers=hers).json()["name"] == "ada"
    assert made["token"] not in store.get("/api/v1/accounts", headers=tokens["admin"]).text
    store.delete("/api/v1/accounts/ada", headers=tokens["admin"])
    assert store.get("/api/v1/me", headers=hers).status_code == 401
