"""The review queue: leases, copies for a second reviewer, decisions and their undo."""

import multiprocessing

import polars as pl
import pytest

from doxa.errors import UsageError
from doxa.storage.store import queue as queue_module
from doxa.storage.store.knowledge_base import KnowledgeBase


def proposals(*tails, credence=None, **columns):
    count = len(tails)
    values = {"head": ["a"] * count, "relation": ["r"] * count, "tail": tails}
    return pl.DataFrame(values | {"credence": credence or [0.9 - place / 10 for place in range(count)]} | columns)


def test_queue_orders(kb):
    kb.queue.propose(proposals("x", "y", "z", credence=[0.95, 0.5, 0.7]), "missing")
    assert kb.queue.claim().tail == "x"
    assert kb.queue.claim(order="uncertainty", curator="bob").tail == "y"
    assert kb.queue.claim(curator="eve").tail == "z"
    assert kb.queue.claim(curator="zoe") is None
    assert kb.queue.claim().tail == "x", "the proposal in hand comes again"


def test_what_is_decided_or_known_is_not_proposed_again(kb):
    kb.import_beliefs([("a", "r", "known")])
    assert kb.queue.propose(proposals("known", "x", "y"), "missing") == 2
    first = kb.queue.claim()
    kb.queue.decide(first.id, "reject", reason="wrong tail")
    assert kb.queue.propose(proposals("known", "x", "y"), "missing") == 1, "x is rejected"
    assert kb.queue.counts() == {"open": 1, "decided": 1, "withdrawn": 1, "leased": 0}
    assert kb.queue.propose(proposals("known", "y"), "suspect") == 1, "y does not hold"
    kb.merge("known", "y")
    assert kb.queue.propose(proposals("y"), "missing") == 0, "y holds by its other name"


def test_decisions_and_their_undo(kb):
    kb.queue.propose(proposals("x", "y", suggestion=[None, "z"], rank=[1, 2]), "missing")
    first = kb.queue.claim()
    assert (first.triple, first.evidence, first.suggestion) == (("a", "r", "x"), {"rank": 1}, None)
    with pytest.raises(UsageError, match="has no suggestion"):
        kb.queue.decide(first.id, "replace")
    kb.queue.decide(first.id, "accept")
    second = kb.queue.claim()
    number = kb.queue.decide(second.id, "replace", note="see z")
    assert kb.holds("a", "r", "x")
    assert kb.holds("a", "r", "z")
    assert not kb.holds("a", "r", "y")
    with pytest.raises(UsageError, match="already decided by ann"):
        kb.queue.decide(second.id, "accept")
    assert kb.queue.undo_last() == number + 1
    assert not kb.holds("a", "r", "z")
    assert kb.queue.claim().id == second.id
    table = kb.queue.decisions()
    assert table.select("verdict", "credence", "kind").rows() == [("accept", 0.9, "missing")]


def test_reviewed_facts_are_never_in_valid_or_test(kb):
    tails = [f"t{number}" for number in range(30)]
    kb.queue.propose(proposals(*tails, credence=[0.5] * 30), "missing")
    while (proposal := kb.queue.claim()) is not None:
        kb.queue.decide(proposal.id, "accept")
    assert sum(len(table) for table in kb.frames("train")) == 30
    assert list(kb.frames("valid")) == list(kb.frames("test")) == []
    assert kb.labels(after=10)["label"].to_list() == [1] * 20


def test_a_lease_ends(kb, monkeypatch):
    time = 1_000_000
    monkeypatch.setattr(queue_module, "now", lambda: time)
    kb.queue.propose(proposals("x"), "missing")
    mine = kb.queue.claim(lease=10)
    with pytest.raises(UsageError, match="leased to ann"):
        kb.queue.decide(mine.id, "accept", curator="bob")
    assert kb.queue.claim(curator="bob") is None
    time += 10_000_001
    assert kb.queue.claim(curator="bob").id == mine.id
    with pytest.raises(UsageError, match="leased to bob"):
        kb.queue.decide(mine.id, "accept")
    kb.queue.decide(mine.id, "unsure", curator="bob")
    assert not kb.holds("a", "r", "x")


def test_released(kb):
    kb.queue.propose(proposals("x"), "missing")
    kb.queue.release(kb.queue.claim().id)
    assert kb.queue.claim(curator="bob").tail == "x"


def test_overlap_goes_to_two_reviewers(kb):
    assert kb.queue.propose(proposals("w", "x", "y", "z"), "missing", overlap=0.5) == 4
    assert kb.queue.counts()["open"] == 6
    mine = []
    while (proposal := kb.queue.claim()) is not None:
        mine.append(proposal.tail)
        kb.queue.decide(proposal.id, "accept")
    assert sorted(mine) == ["w", "x", "y", "z"], "nobody reviews a belief twice"
    second = []
    while (proposal := kb.queue.claim(curator="bob")) is not None:
        second.append(proposal.tail)
        kb.queue.decide(proposal.id, "reject", curator="bob")
    assert len(second) == 2
    assert set(second) <= set(mine)


def review(place, curator, results):
    kb = KnowledgeBase(place, curator=curator)
    done = []
    while (proposal := kb.queue.claim()) is not None:
        kb.queue.decide(proposal.id, "accept")
        done.append(proposal.id)
    results.put(done)


def test_no_proposal_is_decided_twice_by_several_processes(kb):
    tails = [f"t{number}" for number in range(24)]
    kb.queue.propose(proposals(*tails, credence=[0.5] * 24), "missing")
    kb.engine.dispose()
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=review, args=(kb.place, f"c{n}", results)) for n in range(3)]
    for worker in workers:
        worker.start()
    done = [number for _ in workers for number in results.get(timeout=120)]
    for worker in workers:
        worker.join()
    assert sorted(done) == sorted(set(done))
    assert len(done) == 24
    assert sorted(kb.entries().filter(pl.col("verdict") == "accept")["proposal"].to_list()) == sorted(done)
