"""Several processes review one queue at once: no proposal is decided twice, none is lost, and the log equals what the
processes say they did.

Each process claims and decides, sometimes leaves a proposal to its lease, decides after the lease has ended, gives a
proposal back, undoes its last review, or proposes more. What is left in the end is reviewed when all leases have ended.
"""

import json
import random
import time
from collections import Counter, defaultdict

from tests.faults import store, store_check, store_worker, tools

PROCESSES = 8
FULL = 60
"""Seconds of review."""

LEASES = (0.05, 0.2, 20.0)
"""Seconds of a lease; the longest is never left."""

FEW = 2 * store_worker.PROPOSED
"""Open proposals below which the first process proposes more."""


AGAIN = 0.05
"""Share of the reviews of the first process before which it proposes more anyway; open proposals are replaced."""


class Reviewer:
    """A process that reviews for some seconds; what it did is a list of reports."""

    def __init__(self, place, number, seed, seconds):
        from doxa.storage.store.knowledge_base import KnowledgeBase

        self.kb = KnowledgeBase(place, curator=f"r{number}", timeout=store_worker.TIMEOUT)
        self.number, self.seconds = number, seconds
        self.chance, self.reports, self.names = random.Random(seed), [], 0

    def report(self, action, **values):
        self.reports.append({"action": action, "curator": self.kb.curator, **values})

    def run(self):
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            if self.number == 0 and (self.kb.queue.counts()["open"] < FEW or self.chance.random() < AGAIN):
                token = f"{self.kb.curator}-{len(self.reports)}"
                count = store_worker.propose(
                    self.kb, self.chance, token, overlap=0.2, relation=f"batch {len(self.reports) // 200}"
                )
                self.report("propose", token=token, count=count)
            self.review()
        return self.reports

    def review(self):
        """Claim a proposal and do something with it."""
        from doxa.errors import UsageError

        lease = self.chance.choice(LEASES)
        proposal = self.kb.queue.claim(order=self.chance.choice(("credence", "uncertainty")), lease=lease)
        if proposal is None:
            time.sleep(0.01)
            return
        self.report("claim", proposal=proposal.id, until=proposal.leased_until, lease=lease)
        action = self.chance.choice(("decide",) * 6 + ("late", "leave", "release", "undo"))
        if action == "late" and lease < 1:
            time.sleep(lease)
        if action == "leave" and lease < 1:  # under another name, since one's own lease is renewed
            self.names += 1
            self.kb.curator = f"r{self.number}-{self.names}"
        elif action == "release":
            self.kb.queue.release(proposal.id)
            self.report("release", proposal=proposal.id)
        else:
            verdict = self.chance.choice(("accept", "reject", "unsure"))
            try:
                decision = self.kb.queue.decide(proposal.id, verdict)
            except UsageError as refusal:  # the lease has ended, and another reviewer was faster
                late = time.time_ns() // 1000 >= proposal.leased_until
                self.report("refused", proposal=proposal.id, late=late, message=str(refusal))
                return
            self.report("decide", proposal=proposal.id, verdict=verdict, decision=decision)
            if action == "undo":
                self.report("undo", proposal=proposal.id, decision=self.kb.queue.undo_last())


def drain(place):
    """Two reviewers decide what is left when all leases have ended; their reports."""
    time.sleep(max(lease for lease in LEASES if lease < 1))
    reports = []
    for name in ("first", "second"):
        reviewer = Reviewer(place, name, 0, 0)
        while (proposal := reviewer.kb.queue.claim()) is not None:
            decision = reviewer.kb.queue.decide(proposal.id, "unsure")
            reviewer.report("decide", proposal=proposal.id, verdict="unsure", decision=decision)
        reports += reviewer.reports
    return reports


def check(place, reports):
    """What must hold after all have ended."""
    import sqlalchemy as sa

    from doxa.storage.store import schema
    from doxa.storage.store.knowledge_base import KnowledgeBase

    kb = KnowledgeBase(place)
    store_check.check_projections(kb)
    with kb.reading() as connection:
        decisions = connection.execute(sa.select(schema.decision).order_by(schema.decision.c.id)).all()
        proposals = {row.id: row for row in connection.execute(sa.select(schema.proposal))}
        for report in reports:
            if report["action"] == "propose":
                assert len(store_check.proposals_of(connection, report["token"])) == report["count"], report
    logged = {
        row.id: (row.curator, "undo" if row.undoes else row.verdict, row.proposal_id)
        for row in decisions
        if row.curator.startswith("r")
    }
    reported = {
        one["decision"]: (one["curator"], one.get("verdict", "undo"), one["proposal"] if "verdict" in one else None)
        for one in reports
        if one["action"] in ("decide", "undo")
    }
    assert logged == reported, f"log and reports differ: {sorted(set(logged.items()) ^ set(reported.items()))[:5]}"
    left = [row for row in proposals.values() if row.state == "open"]
    assert not left, f"lost: {left[:3]}"
    effective, _ = store_check.effective_decisions(decisions)
    by_fact = Counter(
        (row.curator, row.belief_id, proposals[row.proposal_id].run_id) for row in effective if row.proposal_id
    )
    assert max(by_fact.values()) == 1, "a reviewer has decided both copies of a proposal"
    check_leases(reports)


def check_leases(reports):
    """Nobody gets a proposal during the lease of another one, unless it was given back, or decided and undone.

    Nobody is refused during a lease.
    """
    early = [one for one in reports if one["action"] == "refused" and not one["late"]]
    assert not early, f"refused in spite of a lease: {early[:3]}"
    claims, ends = defaultdict(list), defaultdict(list)
    for one in reports:
        if one["action"] == "claim":
            start = one["until"] - round(one["lease"] * 1e6)
            claims[one["proposal"]].append((start, one["until"], one["curator"]))
        elif one["action"] in ("release", "undo"):
            ends[one["proposal"]].append(one["curator"])
    for proposal, times in claims.items():
        for (_, until, one), (start, _, other) in zip(sorted(times), sorted(times)[1:], strict=False):
            free = one == other or start >= until or {one, other} & set(ends[proposal])
            assert free, f"two leases of proposal {proposal}"


def start(place, number, seed, seconds, folder):
    """A reviewer in a child, which writes its reports as JSON when it ends."""

    def work():
        reports = Reviewer(place, number, f"{seed} {number}", seconds).run()
        (folder / f"{number}.json").write_text(json.dumps(reports))

    return tools.start(work, folder / f"{number}.log")


def review(place, folder, seconds, seed, processes):
    """All of it on one store; the counts of what was done."""
    folder.mkdir(parents=True, exist_ok=True)
    store.call(lambda: store_worker.prepare(place, folder / "model"), folder / "log")
    children = [start(place, number, seed, seconds, folder) for number in range(processes)]
    for number, child in enumerate(children):
        code = tools.ended(child, seconds + 5 * tools.LONGEST)
        assert code == 0, (folder / f"{number}.log").read_text()[-3000:]

    def finish():
        reports = [one for number in range(processes) for one in json.loads((folder / f"{number}.json").read_text())]
        check(place, reports + drain(place))
        (folder / "counts.json").write_text(json.dumps(Counter(one["action"] for one in reports)))

    store.call(finish, folder / "log")
    return json.loads((folder / "counts.json").read_text())


def run(places, folder, seconds, seed, processes=PROCESSES):
    """Review on each database; returns the faults and the figures of each database."""
    faults, figures = [], {}
    for name, place in places.items():
        counts, fault = {}, ""
        try:
            counts = review(place("review"), folder / f"review-{name}", seconds, seed, processes)
        except AssertionError as failure:
            fault = f"review on {name}, seed {seed}: {failure}"
            faults.append(fault)
        figures[name] = {"processes": processes, "seconds": seconds, **counts, "faults": int(bool(fault))}
        done = ", ".join(f"{number} {action}" for action, number in counts.items())
        print(f"review on {name}: seed {seed}, {processes} processes, {seconds:g} s: {fault or done}", flush=True)
    return faults, figures
