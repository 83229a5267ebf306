"""Load on a server: single questions at a fixed rate, as many as it can answer, beside an update, for a long time, and
batches beside the library."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from doxa.errors import DoxaError
from doxa.lab.figures import Figure
from doxa.lab.load import Connection, Load, closed_loop, open_loop
from doxa.model import Model

RATE, SECONDS, ROUNDS = 300, 50.0, 5
RATE_BESIDE_UPDATE = 150
CONNECTIONS = 8, 32
"""Connections that ask one question after the other."""

SOAK_CONNECTIONS, SOAK_PAUSE = 200, 0.4
"""Connections of a long load, and seconds between an answer and the next question: fewer than 500 questions a second,
half of what the server grants to one client."""

SETTLED = 60.0
"""Seconds after which the memory of a server under steady load is compared with that at the end."""

BATCH = 10_000
TURNS = 3
DECIDED = 500
"""Facts that the update learns: known ones with another tail."""

EPOCHS = 1000
"""Passes of the update: more than it gets done while it is measured."""

TOKEN = "t" * 43
START = "from doxa.cli import main; main()"


@dataclass(frozen=True)
class Site:
    """A server in a process of its own."""

    host: str
    port: int

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def call(self, path: str, body: Any = None) -> Any:
        """The JSON of a response; with a body, the request is a POST."""
        content = b"" if body is None else json.dumps(body).encode()
        status, answer = asyncio.run(Connection(*self.address).request(f"/api/v1/{path}", content, TOKEN))
        if status >= 300:
            raise DoxaError(f"the server answered {path} with status {status}: {answer[:500].decode()}")
        return json.loads(answer)

    def memory(self) -> float:
        """Resident memory in MB."""
        _, text = asyncio.run(Connection(*self.address).request("/metrics", token=TOKEN))
        match = re.search(rb"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)
        return float(match[1]) / 2**20 if match else float("nan")


def questions_of(model: Model, count: int) -> list[tuple[str, str, str]]:
    """Questions about known facts, half of them for the head and half for the tail."""
    names, draw = model.vocabularies, np.random.default_rng(0)
    facts = model.train[draw.integers(len(model.train), size=count)].tolist()
    rows = []
    for number, (head, relation, tail) in enumerate(facts):
        names_of = (names.entities[head], names.relations[relation], names.entities[tail])
        rows.append((names_of[0], names_of[1], "?") if number % 2 else ("?", names_of[1], names_of[2]))
    return rows


def path_of(question: tuple[str, str, str]) -> str:
    """The address of a question."""
    parts = dict(zip(("head", "relation", "tail"), question, strict=True))
    return "/api/v1/ask?" + urlencode({name: value for name, value in parts.items() if value != "?"})


def serve(model: Path, rate: float = RATE, seconds: float = SECONDS, soak: float = 0.0) -> Iterator[Figure]:
    """Response times at a fixed rate, questions per second, batches beside the library, response times while an update
    trains, and with `soak` that many seconds of load on many connections."""
    loaded = Model.load(model)
    questions = questions_of(loaded, BATCH)
    paths = [path_of(question) for question in questions]
    with served(str(model)) as site:
        yield from _at_rate("ask", site, paths, rate, seconds)
        for connections in CONNECTIONS:
            yield from _in_turn(site, paths, connections, seconds)
        yield _batches(site, loaded, questions)
        if soak:
            yield from _soaked(site, paths, soak)
    with tempfile.TemporaryDirectory(prefix="doxa-bench-") as folder:
        place = str(Path(folder) / "kb.db")
        _make_store(place, model.resolve(), loaded)
        with served(place) as site:
            job = _training(site)
            figures = list(_at_rate("ask beside an update", site, paths, RATE_BESIDE_UPDATE, seconds))
            if site.call(f"jobs/{job}")["state"] != "running":
                figures = [replace(one, note=f"{one.note}; the update ended meanwhile") for one in figures]
            yield from figures
            site.call(f"jobs/{job}/cancel", {})


def _at_rate(name: str, site: Site, paths: Sequence[str], rate: float, seconds: float) -> Iterator[Figure]:
    """Median and 99th percentile of the response time at a rate, after two seconds of it; the median of some rounds.

    A machine that stands still for a moment spoils one round.
    """
    asyncio.run(open_loop(site.address, paths, rate, 2.0))
    rounds = [asyncio.run(open_loop(site.address, paths, rate, seconds / ROUNDS)) for _ in range(ROUNDS)]
    errors, count = sum(load.errors for load in rounds), sum(len(load.times) for load in rounds)
    for label, share in (("median", 0.5), ("99th percentile", 0.99)):
        times = [load.milliseconds(share) for load in rounds]
        note = f"{count:,} questions at {rate:g}/s, {errors} errors; {_range(times)}"
        yield Figure(f"{name}, {label}", float(np.median(times)), "ms", note=note)


def _in_turn(site: Site, paths: Sequence[str], connections: int, seconds: float) -> Iterator[Figure]:
    """Questions per second of some connections, each of which waits for its answer, as wrk and oha ask them; and the
    99th percentile of the response time, the median of some rounds."""
    rounds = [asyncio.run(closed_loop(site.address, paths, connections, seconds / ROUNDS)) for _ in range(ROUNDS)]
    name, errors = f"ask on {connections} connections", sum(load.errors for load in rounds)
    rates = [len(load.times) / load.seconds for load in rounds]
    yield Figure(name, float(np.median(rates)), "questions/s", note=f"{errors} errors; {_range(rates)}")
    times = [load.milliseconds(0.99) for load in rounds]
    yield Figure(f"{name}, 99th percentile", float(np.median(times)), "ms", note=_range(times))


def _range(values: Sequence[float]) -> str:
    return f"{len(values)} rounds: {min(values):,.0f} to {max(values):,.0f}"


def _batches(site: Site, model: Model, questions: Sequence[tuple[str, str, str]]) -> Figure:
    """A batch over HTTP in turn with the same call of the library, which is the limit."""
    body = json.dumps({"questions": questions}).encode()
    over_http, library = [], []
    for _ in range(TURNS):
        start = time.perf_counter()
        status, _ = asyncio.run(Connection(*site.address).request("/api/v1/ask", body))
        over_http.append(time.perf_counter() - start)
        if status != 200:
            raise DoxaError(f"the server answered a batch with status {status}")
        start = time.perf_counter()
        model.ask(questions)
        library.append(time.perf_counter() - start)
    speeds = [len(questions) / float(np.median(times)) for times in (over_http, library)]
    note = f"batches of {len(questions):,}, median of {TURNS}; the limit is the library's"
    return Figure("ask in batches", speeds[0], "questions/s", speeds[1], note)


def _soaked(site: Site, paths: Sequence[str], seconds: float) -> Iterator[Figure]:
    """Load on many connections, and the memory of the server at its beginning and at its end."""
    settled = min(SETTLED, seconds / 2)
    parts = [asyncio.run(closed_loop(site.address, paths, SOAK_CONNECTIONS, settled, SOAK_PAUSE))]
    before = site.memory()
    parts.append(asyncio.run(closed_loop(site.address, paths, SOAK_CONNECTIONS, seconds - settled, SOAK_PAUSE)))
    after = site.memory()
    load = Load([one for part in parts for one in part.times], sum(part.errors for part in parts),
                sum(part.seconds for part in parts))  # fmt: skip
    note = f"{SOAK_CONNECTIONS} connections, {load.seconds:,.0f} s, p99 {load.milliseconds(0.99):.0f} ms"
    yield Figure("ask for a long time", len(load.times) / load.seconds, "questions/s", note=note)
    yield Figure("errors", load.errors, "requests", note=f"of {len(load.times) + load.errors:,}")
    yield Figure("memory at the end", after, "MB", note=f"{before:,.0f} MB after {settled:g} s")


def _make_store(place: str, folder: Path, model: Model) -> None:
    """A knowledge base of what a model knows, with that model, and some decided facts for an update to learn."""
    from doxa.data.beliefs import Beliefs
    from doxa.storage.store.knowledge_base import KnowledgeBase

    kb = KnowledgeBase.create(place, valid=0.1, test=0.0, curator="bench")
    kb.import_beliefs(Beliefs.from_triples(model.vocabularies, model.known.triples), source="model")
    kb.models.register(folder, kb.snapshot())
    draw = np.random.default_rng(0)
    facts = model.train[draw.integers(len(model.train), size=DECIDED)].copy()
    facts[:, 2] = draw.permutation(facts[:, 2])
    kb.import_beliefs(Beliefs.from_triples(model.vocabularies, facts), source="decided")
    kb.close()


def _training(site: Site) -> int:
    """Start an update, and wait until it trains; its number."""
    job = site.call("jobs", {"kind": "update", "epochs": EPOCHS})
    while job["state"] != "done" and not (job["state"] == "running" and job["progress"]):
        if job["state"] not in ("waiting", "running"):
            raise DoxaError(f"the update is {job['state']}: {job['message']}")
        time.sleep(0.5)
        job = site.call(f"jobs/{job['id']}")
    return int(job["id"])


@contextmanager
def served(path: str) -> Iterator[Site]:
    """A server of a model folder or a knowledge base, which is ready."""
    run = [sys.executable, "-c", START, "serve", path, "--port", "0", "--token", TOKEN]
    server = subprocess.Popen(run, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        match = re.search(r"http://([\d.]+):(\d+)/", server.stdout.readline())
        if match is None:
            raise DoxaError("the server did not start")
        site = Site(match[1], int(match[2]))
        asyncio.run(_ready(site))
        yield site
    finally:
        server.terminate()
        server.wait()


async def _ready(site: Site) -> None:
    while True:
        try:
            if (await Connection(*site.address).request("/readyz"))[0] == 200:
                return
        except OSError:
            await asyncio.sleep(0.1)
