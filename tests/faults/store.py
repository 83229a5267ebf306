"""Kills of processes that change a store: SIGKILL at random moments of import, decide and update, on each database.

Nothing that was reported is lost, nothing half-done is visible, and the next process goes on.
"""

import contextlib
import os
import random
import signal
import time
from collections import Counter

from tests import databases
from tests.faults import store_worker, tools

FULL = 500
"""Kills on each database."""

KINDS = ("import", "decide", "update")

KILLS_PER_STORE = 20
"""Kills after which a new store begins, so that the checks stay short."""

OPERATIONS = 3
"""A worker is killed within the time of this many operations, by the time that its kind took on average."""


@contextlib.contextmanager
def places(folder):
    """For each database a function from a number to the place of a store, by the name of the database."""
    makers = {"sqlite": lambda number: str(folder / f"kb{number}.db")}
    reason = databases.why_no_postgres()
    if reason:
        print(f"PostgreSQL: skipped, {reason}", flush=True)
        yield makers
        return
    with databases.postgres() as url:
        makers["postgres"] = lambda number: databases.with_options(url, schema=f"kill_{os.getpid()}_{number}")
        yield makers


def client(place):
    """The place as a worker opens it: a server knows the connection by its name."""
    return databases.with_options(place, application_name="worker") if place.startswith("postgresql") else place


def call(action, log):
    """Run a function in a child; its output if it fails."""
    code = tools.ended(tools.start(action, log), 300)
    assert code == 0, log.read_text()[-3000:]


class Trials:
    """Kills on the stores of one database, one worker after the other."""

    def __init__(self, name, place, folder, seed):
        self.name, self.place, self.folder, self.seed = name, place, folder, seed
        self.chance = random.Random(f"{seed} {name}")
        self.seconds = dict.fromkeys(KINDS, 0.2)
        self.done, self.cut, self.faults = Counter(), Counter(), []
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, count):
        """So many kills; returns the faults, each as text."""
        for number in range(count):
            store = self.place(number // KILLS_PER_STORE)
            if number % KILLS_PER_STORE == 0:
                call(lambda place=store: store_worker.prepare(place, self.folder / "model"), self.folder / "log")
            kind = KINDS[number % len(KINDS)]
            try:
                self.kill(store, kind, number)
            except AssertionError as fault:
                self.faults.append(f"{self.name}, seed {self.seed}, kill {number} ({kind}): {fault}")
                print(f"fault: {self.faults[-1]}", flush=True)
            if (number + 1) % 50 == 0:
                print(f"  {self.name}: {number + 1} kills, {len(self.faults)} faults", flush=True)
        return self.faults

    def kill(self, store, kind, number):
        """Start a worker, kill it at a random moment, and check what it leaves."""
        from tests.faults import store_check

        log, name = self.folder / f"w{number}.log", f"w{number}"
        log.write_text("")
        seed = f"{self.seed} {number}"

        def work():
            file = os.open(log, os.O_WRONLY | os.O_APPEND)
            store_worker.Worker(client(store), name, seed, self.folder / "models", file).run(kind)

        child = tools.start(work, self.folder / "output")
        try:
            began = self.wait_until_ready(child, log)
            time.sleep(self.chance.uniform(0, OPERATIONS * self.seconds[kind]))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            code = tools.ended(child)
        seconds = time.monotonic() - began
        assert code == -signal.SIGKILL, (self.folder / "output").read_text()[-3000:]
        done, unfinished = store_check.reports_of(log)
        self.done.update(report["operation"] for report in done)
        if unfinished is not None:
            self.cut[unfinished["operation"]] += 1
        self.seconds[kind] = 0.9 * self.seconds[kind] + 0.1 * seconds / (len(done) + 1)
        call(lambda: store_check.check(store, log), self.folder / "log")

    def wait_until_ready(self, child, log):
        """The time when the worker has opened the store."""
        deadline = time.monotonic() + tools.LONGEST
        while time.monotonic() < deadline:
            if log.stat().st_size:
                return time.monotonic()
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                raise AssertionError((self.folder / "output").read_text()[-3000:])
            time.sleep(0.001)
        raise AssertionError("the worker does not begin")


def run(places, folder, count, seed):
    """So many kills on each database; returns the faults and the figures of each database."""
    faults, figures = [], {}
    for name, place in places.items():
        began = time.monotonic()
        trials = Trials(name, place, folder / f"kills-{name}", seed)
        faults += trials.run(count)
        figures[name] = {"kills": count, "cut": dict(trials.cut), "done": dict(trials.done),
                         "faults": len(trials.faults), "seconds": round(time.monotonic() - began)}  # fmt: skip
        cut = ", ".join(f"{n} {operation.strip('_')}" for operation, n in trials.cut.most_common())
        print(f"store on {name}: seed {seed}, {count} kills ({cut}), {len(trials.faults)} faults", flush=True)
    return faults, figures
