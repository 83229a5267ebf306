"""Limits: how large a request may be, how many a client may send, and how many slow ones run at a time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread

from doxa.server.problems import Refused

CLIENTS = 10_000
"""Clients whose rate is remembered."""

RETRY = {"Retry-After": "1"}


@dataclass(frozen=True)
class Limits:
    """What a server accepts. `rate` is requests per second and client, `burst` how many of them may come at once.

    `audited` and `searched` are scores that one audit, or one search for new beliefs, may compute.
    """

    body_bytes: int = 16 * 2**20
    upload_bytes: int = 2**30
    rate: float = 1000.0
    burst: int = 2000
    failures: int = 20
    in_flight: int = 1024
    slow: int = 2
    slow_waiting: int = 64
    batch: int = 10_000
    answers: int = 1_000_000
    audited: int = 3_000_000_000
    searched: int = 3_000_000_000
    query_length: int = 20_000

    def check_batch(self, count: int, top: int = 1) -> None:
        """Refuse a batch that is too large."""
        if count > self.batch or count * top > self.answers:
            raise Refused(
                413,
                f"{count:,} items with {top:,} answers each in one request; at most {self.batch:,} items "
                f"and {self.answers:,} answers",
                "send several requests",
            )


class Rate:
    """A token bucket for each client: `rate` per second, up to `burst` at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, cost: float = 1.0) -> bool:
        """Whether the client may send another request; counts it if so."""
        now = self._clock()
        left, before = self._buckets.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - before) * self.rate)
        allowed = left >= cost
        self._buckets[client] = (left - cost if allowed else left, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return allowed


class SlowLane:
    """Slow requests: a few run in threads, some wait, the others are refused with 503."""

    def __init__(self, limits: Limits) -> None:
        self._limiter = anyio.CapacityLimiter(limits.slow)
        self._most, self.waiting = limits.slow + limits.slow_waiting, 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place in the queue of slow requests."""
        if self.waiting >= self._most:
            raise Refused(503, f"{self.waiting} slow requests are waiting", "try again later", headers=RETRY)
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run a slow function in a thread when it is its turn."""
        async with self.place():
            return await anyio.to_thread.run_sync(work, *arguments, limiter=self._limiter)
