"""Pictures of every view of the page, for docs/serving.md.

    python -m tools.screenshots served/atlas.db docs/screenshots

Each view is drawn light and dark, wide (1280 pixels) and narrow (390 pixels).
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

from PIL import Image

VIEWS = {
    "ask": "#/ask?head=Lyon&relation=located+in&why=France",
    "entity": "#/entity?name=Lyon",
    "review": "#/review",
    "suspects": "#/suspects?relation=located+in",
    "map": "#/map?layout=pca",
    "model": "#/model",
}
SIZES = {"wide": (1280, 860), "narrow": (390, 844)}
TOKEN = "screenshots"


def serve(store: str) -> tuple[Any, str]:
    """A server of the knowledge base in a thread, and its address."""
    import uvicorn

    from doxa.cli.serving import source_of
    from doxa.server.app import Options, create_app

    config = uvicorn.Config(
        create_app(source_of(store), Options(token=TOKEN, owner="ada")), port=0, log_level="warning"
    )
    server, socket = uvicorn.Server(config), config.bind_socket()
    threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return server, f"http://127.0.0.1:{socket.getsockname()[1]}"


def draw(address: str, out: Path) -> None:
    """Visit every view and keep what it looks like."""
    from playwright.sync_api import expect, sync_playwright

    from tests.browser import chromium

    expect.set_options(timeout=600_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.path(), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            for size, (width, height) in SIZES.items():
                window = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                page = window.new_page()
                page.goto(f"{address}/?token={TOKEN}")
                for view, place in VIEWS.items():
                    page.goto(f"{address}/{place}")
                    expect(page.locator("main .view > *").first).to_be_visible()
                    expect(page.locator(".waiting, .progress-line")).to_have_count(0)
                    page.wait_for_timeout(500)
                    path = out / f"{view}-{size}-{scheme}.png"
                    page.screenshot(path=path)
                    shrink(path)
                window.close()
        browser.close()


def shrink(path: Path) -> None:
    """Write a picture again with a palette of 256 colors that covers rare ones, such as those of a button, too."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main(store: str, out: Path) -> None:
    """Draw all pictures of the page of a knowledge base."""
    out.mkdir(parents=True, exist_ok=True)
    server, address = serve(store)
    try:
        draw(address, out)
    finally:
        server.should_exit = True


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
