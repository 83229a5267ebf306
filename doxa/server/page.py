"""The page for people: plain files, sent as they are."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

from doxa.server.security import Requires

WEB = Path(__file__).parent / "web"

FRESH = {"Cache-Control": "no-cache"}
"""Files are kept by the browser, but checked each time: a new version of doxa is a new page."""


class _Files(StaticFiles):
    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(FRESH)
        return response


def add_page(app: FastAPI) -> None:
    """The page at `/`, whose views are after the `#` of its address, and its files under `/static`."""

    @app.get("/", include_in_schema=False, dependencies=[Depends(Requires(None))])
    async def page() -> Response:
        return FileResponse(WEB / "index.html", headers=FRESH)

    app.mount("/static", _Files(directory=WEB), name="static")


def is_page(path: str) -> bool:
    """Whether a path is one of the page's, which everybody may read."""
    return path in ("", "/") or path.startswith("/static/")
