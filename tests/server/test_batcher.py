"""Requests that wait together are answered together, by a thread that computes alone."""

import asyncio
import threading

import pytest
import torch

from doxa.errors import DoxaError
from doxa.server.batcher import Batcher


@pytest.fixture
def batcher():
    one = Batcher()
    one.start()
    yield one
    one.stop()


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_the_thread_computes_alone_and_others_as_before(two_threads):
    batcher = Batcher()
    batcher.start()
    torch.ones(200, 200) @ torch.ones(200, 200)
    answer = asyncio.run(batcher.submit("threads", lambda items: [torch.get_num_threads()] * len(items), 0))
    others = []
    thread = threading.Thread(target=lambda: others.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    batcher.stop()
    assert (answer, others, torch.get_num_threads()) == (1, [2], 2)


def test_what_waits_is_answered_in_one_call(batcher):
    calls, released = [], threading.Event()

    def answer(items):
        released.wait(10)
        calls.append(len(items))
        return [2 * item for item in items]

    async def ask():
        answers = [asyncio.create_task(batcher.submit("double", answer, item)) for item in range(5)]
        await asyncio.sleep(0.05)
        released.set()
        return await asyncio.gather(*answers)

    assert asyncio.run(ask()) == [0, 2, 4, 6, 8]
    assert sum(calls) == 5
    assert max(calls) > 1


def test_a_faulty_item_does_not_spoil_the_others(batcher):
    def answer(items):
        if 1 in items:
            raise DoxaError("no")
        return items

    async def ask():
        return await asyncio.gather(
            *(batcher.submit("some", answer, item) for item in range(3)), return_exceptions=True
        )

    first, second, third = asyncio.run(ask())
    assert (first, third) == (0, 2)
    assert isinstance(second, DoxaError)
