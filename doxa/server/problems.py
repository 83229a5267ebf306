"""Errors as RFC 9457 problem details: the library's message and hints, with a status and a type."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from doxa.errors import BadFile, BadModel, BadStore, CannotAnswer, DoxaError, UnknownName, UsageError, resource_text

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

STATUS: dict[type[DoxaError], tuple[int, str, str]] = {
    UnknownName: (404, "unknown-name", "Unknown name"),
    UsageError: (422, "usage", "Invalid request"),
    BadFile: (422, "bad-file", "Unreadable file"),
    CannotAnswer: (409, "cannot-answer", "Cannot be answered"),
}
"""Status, type and title of each error of the library; the first that fits counts."""

TITLES = {
    400: "Bad request", 401: "Token needed", 403: "Not allowed", 404: "Not here", 405: "Method not allowed",
    409: "Cannot be answered", 413: "Request too large", 414: "Address too long",
    415: "Unsupported media type", 421: "Unknown host", 422: "Invalid request", 429: "Too many requests", 503: "Busy",
}  # fmt: skip


class Problem(BaseModel):
    """What went wrong: `detail` is the message, `hints` say what to do next."""

    type: str = Field(examples=["urn:doxa:problem:unknown-name"])
    title: str = Field(examples=["Unknown name"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["no entity 'Lyom' in this model. Did you mean 'Lyon'?"])
    hints: list[str] = Field(default=[], examples=[["for example: ('Lyon', 'located in', '?')"]])


def problem(status: int, kind: str, title: str, detail: str, hints: tuple[str, ...] = ()) -> dict[str, Any]:
    """The body of a problem."""
    return {
        "type": f"urn:doxa:problem:{kind}" if kind else "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "hints": list(hints),
    }


def of_error(fault: DoxaError) -> dict[str, Any]:
    """The problem of an error of the library. The server's log describes faults of files of this machine."""
    if isinstance(fault, BadModel | BadStore):
        log.warning("%s", fault)
        what = "model" if isinstance(fault, BadModel) else "knowledge base"
        return problem(503, "unavailable", "Not available", f"the {what} is not available; the server's log says why")
    for kind, (status, name, title) in STATUS.items():
        if isinstance(fault, kind):
            return problem(status, name, title, fault.message, fault.hints)
    return problem(503, "unavailable", "Not available", fault.message, fault.hints)


def response(body: dict[str, Any], headers: dict[str, str] | None = None) -> JSONResponse:
    """The response with a problem."""
    return JSONResponse(body, body["status"], headers, MEDIA_TYPE)


def refusal(status: int, detail: str, *hints: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """The response that refuses a request before any route sees it."""
    return response(problem(status, "", TITLES[status], detail, hints), headers)


class Refused(Exception):
    """A request that a route refuses with a status."""

    def __init__(self, status: int, detail: str, *hints: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.response = refusal(status, detail, *hints, headers=headers)


def install(app: FastAPI) -> None:
    """Answer every error of the app with a problem."""

    @app.exception_handler(DoxaError)
    async def library(request: Request, fault: DoxaError) -> JSONResponse:
        return response(of_error(fault))

    @app.exception_handler(Refused)
    async def refused(request: Request, fault: Refused) -> JSONResponse:
        return fault.response

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, fault: RequestValidationError) -> JSONResponse:
        hints = []
        for error in fault.errors()[:5]:
            where = ".".join(str(part) for part in error["loc"][1:]) or str(error["loc"][0])
            hints.append(f"{where}: {error['msg']}")
        return response(problem(422, "invalid", "Invalid request", "the request does not fit the schema", tuple(hints)))

    @app.exception_handler(HTTPException)
    async def http(request: Request, fault: HTTPException) -> JSONResponse:
        title = TITLES.get(fault.status_code, str(fault.detail))
        body = problem(fault.status_code, "", title, str(fault.detail))
        return response(body, dict(fault.headers or {}))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, fault: Exception) -> JSONResponse:
        log.exception("%s %s failed", request.method, request.url.path, exc_info=fault)
        lacking = resource_text(fault) if isinstance(fault, MemoryError | RuntimeError) else ""
        detail = lacking or "the server failed to answer; its log says why"
        return response(problem(500, "fault", "Server fault", detail))


STATUSES = (400, 401, 403, 404, 409, 413, 414, 415, 421, 422, 429, 503)

REFERENCE = {"$ref": "#/components/schemas/Problem"}

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": TITLES[status], "content": {MEDIA_TYPE: {"schema": REFERENCE}}} for status in STATUSES
}
"""The problems that any route may answer with, for OpenAPI. They refer to one schema: FastAPI would make a validator of
each problem of each route, half a second of a server's start."""


def with_problems(schema: dict[str, Any]) -> dict[str, Any]:
    """The description of an API, with the schema that its problems refer to."""
    schema["components"]["schemas"]["Problem"] = Problem.model_json_schema()
    return schema
