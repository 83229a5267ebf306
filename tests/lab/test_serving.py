"""The load generator measures what a server does."""

import asyncio

import pytest

pytest.importorskip("fastapi")

from doxa.data.beliefs import Beliefs
from doxa.lab import serving
from doxa.lab.load import Load, closed_loop, open_loop
from doxa.lab.serving import path_of
from tests.worlds import board_model


async def answering(delay, run):
    """Run against a server that answers each request after a delay."""

    async def answer(reader, writer):
        while await reader.readline():
            while await reader.readline() not in (b"\r\n", b""):
                pass
            await asyncio.sleep(delay)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        return await run(server.sockets[0].getsockname()[:2])
    finally:
        server.close()


def test_open_loop_counts_waiting_from_the_arrival():
    """One connection that answers after 50 ms cannot keep up with 100 requests per second: response times grow."""
    load = asyncio.run(answering(0.05, lambda address: open_loop(address, ["/"], 100, 0.2, connections=1)))
    assert (len(load.times), load.errors) == (20, 0)
    assert max(load.times) > 0.5
    assert load.milliseconds(0.5) <= load.milliseconds(0.99)


def test_closed_loop_sends_one_request_at_a_time_per_connection():
    load = asyncio.run(answering(0.02, lambda address: closed_loop(address, ["/"], 2, 0.2)))
    assert 2 <= len(load.times) <= 22
    assert load.errors == 0


def test_a_question_as_an_address_and_no_times():
    assert path_of(("a b", "c", "?")) == "/api/v1/ask?head=a+b&relation=c"
    assert Load().milliseconds(0.5) != Load().milliseconds(0.5)


def test_a_refused_request_has_no_response_time():
    load = Load()
    load.add(200, 0.01)
    load.add(429, 0.0001)
    assert (load.times, load.errors) == ([0.01], 1)


@pytest.mark.slow
def test_a_server_is_measured_alone_beside_an_update_and_for_a_while(tmp_path, monkeypatch):
    model, _ = board_model(6, share=0.6, valid=0.3)
    model.calibrate(Beliefs.from_triples(model.vocabularies, model.valid)).save(tmp_path / "board")
    for name, value in {"BATCH": 100, "RATE_BESIDE_UPDATE": 20, "DECIDED": 5, "SOAK_CONNECTIONS": 10}.items():
        monkeypatch.setattr(serving, name, value)
    figures = {one.name: one for one in serving.serve(tmp_path / "board", rate=20, seconds=1, soak=1)}
    for name in ("ask, 99th percentile", "ask beside an update, 99th percentile"):
        assert figures[name].value > 0
        assert "20 questions at 20/s, 0 errors" in figures[name].note
    assert figures["errors"].value == 0
    assert figures["ask in batches"].limit > 0
    assert figures["memory at the end"].value > 10
