"""A board with hostile names, served for real, and a real browser in front of it."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.model import Model
from tests.browser import chromium
from tests.worlds import board, board_model

SIZE = 6
TOKEN = "t" * 43

SCRIPT = "<script>window.hacked = 1</script>"
IMAGE = "\"><img src=x onerror='window.hacked = 2'>"
QUOTES = 'O\'Neill "Q" & <b>sons</b>'
RIGHT_TO_LEFT = "القاهرة \u202e(مصر)"
LONG = "long " + "x" * 9_995
PATH = "a/b?c=d#e&f=%2F"
LINK = "javascript:window.hacked=3"
HOSTILE = (SCRIPT, IMAGE, QUOTES, RIGHT_TO_LEFT, LONG, PATH, LINK)
"""Names that try to become code, to turn the text around, or to burst the layout."""

NAMES = dict(zip(("2,2", "3,2", "2,3", "3,3", "4,3", "3,4", "1,2"), HOSTILE, strict=True))
RELATIONS = {"right": "right", "up": "up <i>of</i>"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)


def beliefs() -> pl.DataFrame:
    """The steps of the board with the hostile names."""
    renamed = (pl.col("head", "tail").replace(NAMES), pl.col("relation").replace(RELATIONS))
    return board(SIZE, words=False).with_columns(*renamed)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the board in which every other step is known."""
    model, _ = board_model(SIZE, share=0.6, valid=0.3)
    plain = model.vocabularies
    names = (("entity", plain.entities, NAMES), ("relation", plain.relations, RELATIONS), ("word", plain.words, {}))
    renamed = [Vocabulary(part.names.replace(new) if new else part.names, kind) for kind, part, new in names]
    curve = tuple(
        {"epoch": epoch, "seconds": epoch, "loss": 2 / epoch, "metric": 1 - 1 / epoch} for epoch in range(1, 9)
    )
    model = dataclasses.replace(model, vocabularies=Vocabularies(*renamed), curve=curve)
    place = tmp_path_factory.mktemp("page") / "board"
    model.calibrate(Beliefs.from_triples(model.vocabularies, model.valid)).save(place)
    return place


@pytest.fixture(scope="session")
def model(folder: Path) -> Model:
    return Model.load(folder)


def proposals(count: int = 36) -> pl.DataFrame:
    """Steps that are wrong: from every square to the one that is two to the right, the most credible first."""
    squares = [f"{x},{y}" for x in range(SIZE - 2) for y in range(SIZE)]
    rows = [(NAMES.get(one, one), "right", NAMES.get(two, two)) for one, two in
            ((one, f"{int(one[0]) + 2}{one[1:]}") for one in squares)]  # fmt: skip
    rows += [(tail, RELATIONS["up"], head) for head, _, tail in rows]
    table = pl.DataFrame(rows[:count], schema=["head", "relation", "tail"], orient="row")
    return table.with_columns(credence=pl.Series([0.99 - 0.01 * place for place in range(len(table))]),
                              tail_rank=pl.lit(1), head_rank=pl.lit(3))  # fmt: skip


@pytest.fixture
def kb(folder: Path, tmp_path: Path):
    """A knowledge base of the board with 36 proposals and two model versions."""
    from doxa.storage.store.knowledge_base import KnowledgeBase

    store = KnowledgeBase.create(tmp_path / "kb.db", valid=0.2, test=0.2, curator="ada")
    store.import_beliefs(beliefs(), source="board")
    store.models.register(folder, store.snapshot(), figures={"mrr": 0.5})
    store.add("0,0", "right", "5,5")
    Model.load(folder).save(tmp_path / "second")
    store.models.register(tmp_path / "second", store.snapshot(), state="candidate", figures={"mrr": 0.75})
    assert store.queue.propose(proposals(), "missing") == 36
    yield store
    store.close()


@contextlib.contextmanager
def serving(app) -> Iterator[str]:
    """The address of a server that runs in a thread."""
    import uvicorn

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


@pytest.fixture
def site(kb) -> Iterator[str]:
    """The address of a server of the knowledge base."""
    from doxa.server.app import Options, create_app
    from doxa.server.living import StoreSource

    with serving(create_app(StoreSource(kb), Options(token=TOKEN, owner="ada"))) as address:
        yield address


@pytest.fixture(scope="session")
def model_site(folder: Path) -> Iterator[str]:
    """The address of a server of the model folder."""
    from doxa.server.app import Options, create_app
    from doxa.server.served import Source

    with serving(create_app(Source(folder), Options(token=TOKEN))) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)

    program = chromium.path()
    if program is None:
        pytest.fail(f"the tests of the page need Chromium: {chromium.HOW}")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def visit(browser) -> Iterator[Callable]:
    """Open an address in a browser window of its own; at the end, no page may have complained or been tricked.

    `token` logs in first. `complaints` are errors on the console that are expected.
    """
    windows: list = []

    def opened(site: str, hash_: str = "", *, token: str = TOKEN, narrow=False, dark=False, complaints=()):
        window = browser.new_context(
            viewport={"width": 360, "height": 740} if narrow else {"width": 1280, "height": 860},
            color_scheme="dark" if dark else "light",
        )
        page = window.new_page()
        page.set_default_timeout(60_000)
        faults: list[str] = []
        page.on("console", lambda entry: faults.append(entry.text) if entry.type in ("error", "warning") else None)
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda one: None if one.url.startswith(site) else faults.append(f"request to {one.url}"))
        windows.append((page, faults, complaints))
        if token:
            page.goto(f"{site}/?token={token}")
        page.goto(f"{site}/{hash_}")
        return page

    yield opened
    for page, faults, complaints in windows:
        unexpected = [fault for fault in faults if not any(part in fault for part in complaints)]
        assert not unexpected
        assert page.evaluate("window.hacked") is None
        page.context.close()


def faults_of_access(page) -> list[str]:
    """The serious faults that axe finds on a page."""
    from axe_playwright_python.sync_playwright import Axe

    report = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in report if one["impact"] in ("serious", "critical")
    ]


def settled(page) -> None:
    """Wait until the view has drawn everything."""
    from playwright.sync_api import expect

    expect(page.locator("main .view > *").first).to_be_visible()
    expect(page.locator(".waiting, .progress-line")).to_have_count(0)
