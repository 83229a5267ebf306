"""Kills of the server: SIGKILL at random moments of decisions and updates, then a new server on the same store.

No decision that was answered with 200 is lost, every job that was accepted is there and goes on, and the server is
ready again. With the folder of a large model, the server is a new process each time and must be ready in time.
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median

from tests.faults import store, tools
from tests.faults.server_clients import LOST, TOKEN, Client, Curator

FULL = 200
"""Kills."""

CURATORS = ("ada", "bob")
PROPOSED = 20_000
"""Proposals on a large model."""

READY = 5.0
"""Seconds within which a server on a large model is ready again."""

LIFE = 4.0
"""Seconds that most servers live at most."""

LONG = 10
"""The first of this many servers lives up to a little longer than an update takes, the very first one until its end."""

LONGEST_UPDATE = 60.0
"""Seconds that are waited for the end of the first update: on a busy machine it has no share of the processor."""

START = "from doxa.cli import main; main()"


def prepare(place, model, folder):
    """A store with a live model, proposals and accounts; writes the accounts' tokens into the folder."""
    from doxa.storage.store.knowledge_base import KnowledgeBase
    from tests.faults import store_worker

    if model is None:
        store_worker.prepare(place, folder / "model")
    else:
        prepare_large(place, model)
    kb = KnowledgeBase(place, curator="owner")
    for name in CURATORS:
        (folder / f"{name}.token").write_text(kb.accounts.add(name, "curator"))
    kb.close()


def prepare_large(place, folder):
    """A store of the facts that a model knows, with that model and random proposals."""
    import numpy as np
    import polars as pl

    from doxa.data.beliefs import Beliefs
    from doxa.model import Model
    from doxa.storage.store.knowledge_base import KnowledgeBase

    model, draw = Model.load(folder), np.random.default_rng(0)
    kb = KnowledgeBase.create(place, valid=0.02, test=0.0, curator="owner")
    kb.import_beliefs(Beliefs.from_triples(model.vocabularies, model.known.triples), source="model")
    kb.models.register(folder, kb.snapshot())
    facts = model.train[draw.integers(len(model.train), size=PROPOSED)].copy()
    facts[:, 2] = draw.permutation(facts[:, 2])
    names = Beliefs.from_triples(model.vocabularies, facts).to_frame().select("head", "relation", "tail")
    kb.queue.propose(names.with_columns(credence=pl.Series(draw.random(len(names)))), "missing")
    kb.close()


class Life:
    """A server from its start to its end."""

    def __init__(self, place, log, fresh):
        self.began = time.monotonic()
        arguments = ("serve", place, "--port", 0, "--token", TOKEN)
        if fresh:
            with open(log, "w") as file:
                run = [sys.executable, "-c", START, *map(str, arguments)]
                self.child = subprocess.Popen(run, stdout=file, stderr=file).pid
        else:
            self.child = tools.start(tools.command(*arguments), log)
        self.log = log
        self.address = self.wait_for_address()
        self.client = Client(self.address)
        self.wait_until_ready()
        self.seconds = time.monotonic() - self.began

    def wait_for_address(self):
        while time.monotonic() - self.began < tools.LONGEST:
            match = re.search(r"http://([\d.]+):(\d+)/", self.log.read_text() if self.log.exists() else "")
            if match:
                return match[1], int(match[2])
            if os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(0.01)
        raise AssertionError(f"the server does not start: {self.log.read_text()[-3000:]}")

    def wait_until_ready(self):
        while time.monotonic() - self.began < tools.LONGEST:
            with contextlib.suppress(*LOST):
                if self.client.call("GET", "/readyz")[0] == 200:
                    return
            self.client.close()
            time.sleep(0.01)
        raise AssertionError(f"the server is not ready: {self.log.read_text()[-3000:]}")

    def jobs(self):
        """State by number of all jobs."""
        self.client.close()  # the server itself closes a connection that was idle for some seconds
        return {job["id"]: job["state"] for job in self.client.get("/api/v1/jobs")["jobs"]}

    def end(self, number=signal.SIGKILL):
        self.client.close()
        os.kill(self.child, number)
        return tools.ended(self.child)


class Trials:
    """Kills of servers of one store, one after the other."""

    def __init__(self, folder, seed, model=None):
        self.folder, self.seed, self.model, self.chance = folder, seed, model, random.Random(seed)
        self.place = str(folder / "kb.db")
        self.done, self.jobs, self.faults, self.ready = Counter(), set(), [], []
        self.answered, self.restarted, self.update_seconds = [], 0, LIFE
        store.call(lambda: prepare(self.place, model, folder), folder / "log")
        self.tokens = {name: (folder / f"{name}.token").read_text() for name in CURATORS}

    def start(self, number):
        life = Life(self.place, self.folder / f"server{number}.log", fresh=self.model is not None)
        self.ready.append(life.seconds)
        if self.model is not None and number and life.seconds > READY:
            self.faults.append(f"kill {number}: ready after {life.seconds:.2f} s")
        return life

    def run(self, count):
        """So many kills; then the jobs end, and the store is whole."""
        before = {}
        for number in range(count):
            life = self.start(number)
            self.check(life, before)
            before = self.kill(life, number)
            if (number + 1) % 20 == 0:
                line = f"  {number + 1} kills, {sum(self.done.values())} decisions, {len(self.faults)} faults"
                print(line, *self.faults[-3:], sep="\n    ", flush=True)
        life = self.start(count)
        self.check(life, before)
        self.finish(life)
        return self.faults

    def kill(self, life, number):
        """Let curators decide while an update runs, and kill the server; the jobs as they last were."""
        states = life.jobs()
        if not {"waiting", "running"} & set(states.values()):
            status, job = life.client.call("POST", "/api/v1/jobs", {"kind": "update", "epochs": 1})
            assert status == 202, (status, job)
            self.jobs.add(job["id"])
        curators = [Curator(life.address, name, self.tokens[name], f"{self.seed} {number} {name}") for name in CURATORS]
        for curator in curators:
            curator.start()
        states = self.wait(life, number)
        life.end()
        for curator in curators:
            curator.join(60)
            self.faults += [f"kill {number}: {fault}" for fault in curator.faults]
        self.answered = [row for curator in curators for row in curator.answered]
        self.done.update(row["verdict"] for row in self.answered)
        return states

    def wait(self, life, number):
        """Some seconds, or a random part of the time that an update takes; then the jobs as they are."""
        began = time.monotonic()
        if number:
            time.sleep(self.chance.uniform(0, LIFE if number % LONG else 1.2 * self.update_seconds))
        while not number and {"waiting", "running"} & set(life.jobs().values()):
            if time.monotonic() - began > LONGEST_UPDATE:
                break
            time.sleep(0.05)
        if not number:
            self.update_seconds = time.monotonic() - began
        return life.jobs()

    def check(self, life, before):
        """What was answered before the kill is in the log of the new server, and no job is lost."""
        log = {row["decision"]: row for row in life.client.get("/api/v1/beliefs/log?last=10000")["decisions"]}
        for row in self.answered:
            stored = log.get(row["decision"])
            if stored is None or any(stored[name] != value for name, value in row.items()):
                self.faults.append(f"lost: {row}, in the log {stored}")
        states = life.jobs()
        for number in self.jobs - states.keys():
            self.faults.append(f"lost: job {number}")
        for number, state in before.items():
            now = states.get(number)
            if state == "running" and now in ("waiting", "running"):
                self.restarted += 1
            elif now in ("failed", "canceled"):
                self.faults.append(f"job {number} was {state} and is {now}")

    def finish(self, life):
        """All jobs end well without another kill; then the projections are a replay of the log."""
        deadline = time.monotonic() + 5 * tools.LONGEST
        while {"waiting", "running"} & set(life.jobs().values()) and time.monotonic() < deadline:
            time.sleep(0.2)
        states = life.jobs()
        if set(states.values()) - {"done"}:
            self.faults.append(f"jobs that did not go on: {states}")
        life.end(signal.SIGTERM)

        def whole():
            from doxa.storage.store.knowledge_base import KnowledgeBase
            from tests.faults import store_check

            kb = KnowledgeBase(self.place, curator="checker")
            store_check.check_database(kb)
            store_check.check_projections(kb)
            store_check.check_models(kb, [])

        store.call(whole, self.folder / "log")


def run(folder, count, seed, model=None):
    """So many kills; returns the faults and the figures."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    trials = Trials(folder, seed, None if model is None else Path(model).resolve())
    faults = trials.run(count)
    figures = {
        "kills": count, "decisions answered": dict(trials.done), "jobs": len(trials.jobs),
        "seconds of an update": round(trials.update_seconds, 1), "jobs cut and started again": trials.restarted,
        "ready after seconds, median": round(median(trials.ready), 2),
        "ready after seconds, most": round(max(trials.ready), 2), "faults": len(faults),
        "seconds": round(time.monotonic() - began),
    }  # fmt: skip
    print(f"server: seed {seed}, {figures}", flush=True)
    return faults, figures
