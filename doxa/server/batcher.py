"""Requests that wait for the model at the same time are answered together, in one call.

A thread takes everything that waits, groups it by kind and options, and answers each group in one call. Nothing waits
for a group to fill: a single question on an idle server is answered at once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch

from doxa.errors import DoxaError

MOST = 128
"""Requests that are answered in one call."""

Answerer = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers several items of the same group, in order."""


class _Request(NamedTuple):
    group: Hashable
    answer: Answerer
    item: Any
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class Batcher:
    """A thread that answers what waits, group by group."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to answer. The thread computes alone: a few questions lose more to further threads than they gain."""
        threads, ready = torch.get_num_threads(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="doxa-batcher", daemon=True)
        self._thread.start()
        ready.wait()
        torch.set_num_threads(threads)  # threads that are new to torch take what was set last

    def stop(self) -> None:
        """End the thread after what waits now."""
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    async def submit(self, group: Hashable, answer: Answerer, item: Any) -> Any:
        """The answer to one item; items of the same group that wait together share a call of `answer`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.put(_Request(group, answer, item, loop, future))
        return await future

    def _run(self, ready: threading.Event) -> None:
        torch.get_num_threads()  # else the first operation would take the number of others
        torch.set_num_threads(1)
        ready.set()
        while True:
            batch = [self._waiting.get()]
            while len(batch) < MOST and not self._waiting.empty():
                batch.append(self._waiting.get())
            groups: dict[Hashable, list[_Request]] = {}
            for request in batch:
                if request is not None:
                    groups.setdefault(request.group, []).append(request)
            for requests in groups.values():
                _answer(requests)
            if None in batch:
                return


def _answer(requests: list[_Request]) -> None:
    """Answer a group together; if one of its items is at fault, one by one."""
    try:
        results = requests[0].answer([request.item for request in requests])
    except DoxaError as fault:
        if len(requests) == 1:
            _deliver(requests, [fault])
        else:
            for request in requests:
                _answer([request])
    except Exception as fault:
        _deliver(requests, [fault] * len(requests))
    else:
        _deliver(requests, list(results))


def _deliver(requests: list[_Request], results: list[Any]) -> None:
    def settle() -> None:
        for request, result in zip(requests, results, strict=True):
            if request.future.cancelled():
                continue
            if isinstance(result, Exception):
                request.future.set_exception(result)
            else:
                request.future.set_result(result)

    requests[0].loop.call_soon_threadsafe(settle)
