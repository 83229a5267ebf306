"""A client that puts load on a server: requests at the times of a Poisson process, or one after the other.

Requests of a Poisson process arrive whether or not earlier ones are answered, and each response time counts from the
arrival: a server that falls behind shows it. The client is a few lines of asyncio, because a client that is slower than
the server measures itself.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

CONNECTIONS = 64


@dataclass
class Load:
    """Response times of answered requests in seconds, and how many requests were refused or failed."""

    times: list[float] = field(default_factory=list)
    errors: int = 0
    seconds: float = 0.0

    def add(self, status: int, seconds: float) -> None:
        """Count a response; only an answer has a response time."""
        if status == 200:
            self.times.append(seconds)
        else:
            self.errors += 1

    def milliseconds(self, share: float) -> float:
        """The response time that this share of requests does not exceed."""
        return float(np.quantile(self.times, share) * 1000) if self.times else float("nan")


class Connection:
    """One connection that is kept open, with one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, path: str, body: bytes = b"", token: str = "") -> tuple[int, bytes]:
        """Status and body of the response; a request with a body is a POST."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port, limit=2**26)
        reader, writer = self._streams
        method = f"POST {path} HTTP/1.1\r\nContent-Type: application/json" if body else f"GET {path} HTTP/1.1"
        method += f"\r\nAuthorization: Bearer {token}" if token else ""
        writer.write(f"{method}\r\nHost: {self.host}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        return int(head.split(" ", 2)[1]), await reader.readexactly(int(length[1]) if length else 0)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@contextmanager
def _no_pauses() -> Iterator[None]:
    """Spare the garbage collector what exists: a look at all objects of a large process takes a quarter of a second."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def open_loop(
    address: tuple[str, int], paths: Sequence[str], rate: float, seconds: float, connections: int = CONNECTIONS
) -> Load:
    """Send requests at the times of a Poisson process with `rate` arrivals per second."""
    load, free = Load(seconds=seconds), asyncio.Queue[Connection]()
    pool = [Connection(*address) for _ in range(connections)]
    for connection in pool:
        free.put_nowait(connection)
    arrivals = np.cumsum(np.random.default_rng(0).exponential(1 / rate, int(rate * seconds)))
    start = 0.0

    async def send(arrival: float, path: str) -> None:
        await asyncio.sleep(max(0.0, start + arrival - time.perf_counter()))
        connection = await free.get()
        try:
            status, _ = await connection.request(path)
            load.add(status, time.perf_counter() - start - arrival)
        except (OSError, asyncio.IncompleteReadError):
            load.errors += 1
            connection.close()
        free.put_nowait(connection)

    with _no_pauses():
        start = time.perf_counter() + 1.0  # the tasks of all requests are made first
        await asyncio.gather(*(send(at, paths[number % len(paths)]) for number, at in enumerate(arrivals.tolist())))
    for connection in pool:
        connection.close()
    return load


async def closed_loop(
    address: tuple[str, int], paths: Sequence[str], connections: int, seconds: float, pause: float = 0.0
) -> Load:
    """Send the next request on each connection as soon as the last one is answered, or after a pause."""
    load, start = Load(), 0.0

    async def one(number: int) -> None:
        connection, turn = Connection(*address), number
        while time.perf_counter() - start < seconds:
            sent = time.perf_counter()
            try:
                status, _ = await connection.request(paths[turn % len(paths)])
                load.add(status, time.perf_counter() - sent)
            except (OSError, asyncio.IncompleteReadError):
                load.errors += 1
                connection.close()
            turn += connections
            await asyncio.sleep(pause)
        connection.close()

    with _no_pauses():
        start = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(connections)))
    load.seconds = time.perf_counter() - start
    return load
