"""Load on a server: single questions at a fixed rate, as many as it can answer, and batches beside the library.

Questions arrive at the times of a Poisson process, whether or not earlier ones are answered, and each response time
counts from its arrival: a server that falls behind shows it. The client is a few lines of asyncio, because a client
that is slower than the server measures itself.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

from doxa.errors import DoxaError
from doxa.lab.figures import Figure
from doxa.model import Model

RATE, SECONDS, CONNECTIONS = 300, 20.0, 64
BATCH = 10_000
TURNS = 3
START = "from doxa.cli import main; main()"


@dataclass
class Load:
    """Response times in seconds, and how many requests failed."""

    times: list[float] = field(default_factory=list)
    errors: int = 0
    seconds: float = 0.0

    def milliseconds(self, share: float) -> float:
        """The response time that this share of requests does not exceed."""
        return float(np.quantile(self.times, share) * 1000) if self.times else float("nan")


class Connection:
    """One connection that is kept open, with one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of the response."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port, limit=2**26)
        reader, writer = self._streams
        method = f"POST {path} HTTP/1.1\r\nContent-Type: application/json" if body else f"GET {path} HTTP/1.1"
        writer.write(f"{method}\r\nHost: {self.host}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        return int(head.split(" ", 2)[1]), await reader.readexactly(int(length[1]) if length else 0)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


async def open_loop(
    address: tuple[str, int], paths: Sequence[str], rate: float, seconds: float, connections: int = CONNECTIONS
) -> Load:
    """Send requests at the times of a Poisson process with `rate` arrivals per second."""
    load, free = Load(seconds=seconds), asyncio.Queue[Connection]()
    pool = [Connection(*address) for _ in range(connections)]
    for connection in pool:
        free.put_nowait(connection)
    arrivals = np.cumsum(np.random.default_rng(0).exponential(1 / rate, int(rate * seconds)))
    start = time.perf_counter() + 0.1

    async def send(arrival: float, path: str) -> None:
        await asyncio.sleep(max(0.0, start + arrival - time.perf_counter()))
        connection = await free.get()
        try:
            status, _ = await connection.request(path)
            load.errors += status != 200
            load.times.append(time.perf_counter() - start - arrival)
        except (OSError, asyncio.IncompleteReadError):
            load.errors += 1
        free.put_nowait(connection)

    await asyncio.gather(*(send(at, paths[number % len(paths)]) for number, at in enumerate(arrivals.tolist())))
    for connection in pool:
        connection.close()
    return load


async def closed_loop(address: tuple[str, int], paths: Sequence[str], connections: int, seconds: float) -> Load:
    """Send the next request on each connection as soon as the last one is answered."""
    load, start = Load(), time.perf_counter()

    async def one(number: int) -> None:
        connection, turn = Connection(*address), number
        while time.perf_counter() - start < seconds:
            sent = time.perf_counter()
            status, _ = await connection.request(paths[turn % len(paths)])
            load.errors += status != 200
            load.times.append(time.perf_counter() - sent)
            turn += connections
        connection.close()

    await asyncio.gather(*(one(number) for number in range(connections)))
    load.seconds = time.perf_counter() - start
    return load


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


def serve(model: Path, rate: float = RATE, seconds: float = SECONDS) -> Iterator[Figure]:
    """Response times at a fixed rate, questions per second, and batches beside the library."""
    loaded = Model.load(model)
    questions = questions_of(loaded, BATCH)
    paths = [path_of(question) for question in questions]
    server = subprocess.Popen(
        [sys.executable, "-c", START, "serve", str(model), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        address = _address(server)
        asyncio.run(open_loop(address, paths, rate, 2.0))
        load = asyncio.run(open_loop(address, paths, rate, seconds))
        note = f"{len(load.times):,} questions at {rate:g}/s, {load.errors} errors"
        yield Figure("ask, median", load.milliseconds(0.5), "ms", note=note)
        yield Figure("ask, 99th percentile", load.milliseconds(0.99), "ms", note=note)
        load = asyncio.run(closed_loop(address, paths, 32, seconds / 2))
        note = f"32 connections, {load.errors} errors, p99 {load.milliseconds(0.99):.0f} ms"
        yield Figure("ask", len(load.times) / load.seconds, "questions/s", note=note)
        yield _batches(address, loaded, questions)
    finally:
        server.terminate()
        server.wait()


def _batches(address: tuple[str, int], model: Model, questions: Sequence[tuple[str, str, str]]) -> Figure:
    """A batch over HTTP in turn with the same call of the library, which is the limit."""
    body = json.dumps({"questions": questions}).encode()
    over_http, library = [], []
    for _ in range(TURNS):
        start = time.perf_counter()
        status, _ = asyncio.run(Connection(*address).request("/api/v1/ask", body))
        over_http.append(time.perf_counter() - start)
        if status != 200:
            raise DoxaError(f"the server answered a batch with status {status}")
        start = time.perf_counter()
        model.ask(questions)
        library.append(time.perf_counter() - start)
    speeds = [len(questions) / float(np.median(times)) for times in (over_http, library)]
    note = f"batches of {len(questions):,}, median of {TURNS}; the limit is the library's"
    return Figure("ask in batches", speeds[0], "questions/s", speeds[1], note)


def _address(server: subprocess.Popen[str]) -> tuple[str, int]:
    """Where the server listens: it prints its address, and then answers."""
    assert server.stdout is not None
    match = re.search(r"http://([\d.]+):(\d+)/", server.stdout.readline())
    if match is None:
        raise DoxaError("the server did not start")
    address = match[1], int(match[2])

    async def ready() -> None:
        while True:
            try:
                if (await Connection(*address).request("/readyz"))[0] == 200:
                    return
            except OSError:
                await asyncio.sleep(0.1)

    asyncio.run(ready())
    return address
