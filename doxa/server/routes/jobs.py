"""Jobs: update, complete, audit and evaluate in the background, with progress as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response, StreamingResponse
from pydantic import ConfigDict, Field

from doxa.server import schemas
from doxa.server.context import API, Context, Parts, as_json, encoded
from doxa.server.problems import PROBLEMS
from doxa.server.security import Principal, Requires

router = APIRouter(prefix=f"{API}/jobs", tags=["jobs"], responses=PROBLEMS)

Reader = Annotated[Principal, Depends(Requires("reader"))]
Admin = Annotated[Principal, Depends(Requires("admin"))]
Number = Annotated[int, Path(ge=1, le=2**62)]

LOOK = 0.3
"""Seconds between two looks at a job's progress."""

EVENTS = {
    "schema": {
        "type": "object",
        "properties": {"event": {"enum": ["progress", "end"]}, "data": {"type": "string"}},
        "description": "The fields of one event; `data` is a job as JSON.",
    },
    "example": 'event: progress\ndata: {"id": 1, "kind": "update", "state": "running", "progress": 0.5}\n\n',
}

ENDED = ("done", "failed", "canceled")


class UpdateJob(schemas.Body):
    """Update the live model with what was decided since; published if it is no worse."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["update"]
    epochs: int = Field(5, ge=1, le=1000)
    seed: int = Field(0, ge=0, lt=2**31)


class CompleteJob(schemas.Body):
    """Search for missing beliefs and put them into the review queue; `overlap` is the share with two reviewers."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["complete"]
    relations: list[schemas.Name] = Field([], max_length=1000)
    entities: list[schemas.Name] = Field([], max_length=1000)
    min_credence: schemas.Probability = 0.2
    top: int = Field(1000, ge=1, le=1_000_000)
    contradicting: bool = True
    overlap: schemas.Probability = 0.0


class AuditJob(schemas.Body):
    """Search for beliefs that look wrong and put them into the review queue."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["audit"]
    top: int = Field(1000, ge=1, le=1_000_000)
    overlap: schemas.Probability = 0.0


class EvaluateJob(schemas.Body):
    """Evaluate a model version, the live one by default, on the test split."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["evaluate"]
    version: int | None = Field(None, ge=1, le=2**62)


NewJob = Annotated[UpdateJob | CompleteJob | AuditJob | EvaluateJob, Field(discriminator="kind")]


class JobOut(schemas.Lenient):
    """A job: its state, how far it is, and its result."""

    id: int
    kind: str
    state: Literal["waiting", "running", "done", "failed", "canceled"]
    progress: float | None
    message: str | None
    settings: dict[str, Any]
    result: Any


class JobsOut(schemas.Lenient):
    """All jobs, in order."""

    jobs: list[JobOut]


@router.post("", response_model=JobOut, status_code=202, summary="Start a job")
async def start(parts: Parts, who: Admin, job: NewJob) -> Response:
    """Put a job into the list; jobs run one after the other, at low priority, and go on after a restart."""
    kb = parts.signed(who)

    def work() -> Any:
        number = kb.jobs.add(job.kind, job.model_dump(exclude={"kind"}, exclude_none=True))
        kb.accounts.record(f"start {job.kind}", f"job {number}")
        return kb.jobs.get(number)

    added = await parts.quick(work)
    if parts.runner is not None:
        parts.runner.notice()
    response = as_json(added)
    response.status_code = 202
    return response


@router.get("", response_model=JobsOut, summary="All jobs")
async def list_(parts: Parts, who: Reader) -> Response:
    """All jobs, in order; results are left out."""
    kb = parts.source.store()
    return as_json({"jobs": [job | {"result": None} for job in await parts.quick(kb.jobs.all)]})


@router.get("/{number:int}", response_model=JobOut, summary="A job")
async def get(parts: Parts, who: Reader, number: Number) -> Response:
    """A job with its result."""
    kb = parts.source.store()
    return as_json(await parts.quick(lambda: kb.jobs.get(number)))


@router.post("/{number:int}/cancel", response_model=JobOut, summary="Cancel a job")
async def cancel(parts: Parts, who: Admin, number: Number) -> Response:
    """End a job that waits or runs."""
    kb = parts.signed(who)

    def work() -> Any:
        if kb.jobs.cancel(number):
            kb.accounts.record("cancel job", f"job {number}")
        return kb.jobs.get(number)

    job = await parts.quick(work)
    if parts.runner is not None:
        parts.runner.cancel(number)
    return as_json(job)


@router.get(
    "/{number:int}/events",
    summary="Progress of a job",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": EVENTS}}},
)
async def events(parts: Parts, who: Reader, number: Number) -> Response:
    """Server-sent events: `progress` whenever the job gets on, and `end` with the whole job at its end."""
    kb = parts.source.store()
    await parts.quick(lambda: kb.jobs.get(number))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(parts, number), media_type="text/event-stream", headers=headers)


async def _events(parts: Context, number: int) -> AsyncIterator[bytes]:
    kb, last = parts.source.store(), ""
    for look in range(1_000_000):
        job = await parts.quick(lambda: kb.jobs.get(number))
        shown = {name: job[name] for name in ("id", "kind", "state", "progress", "message")}
        text = json.dumps(shown, ensure_ascii=False)
        if text != last:
            last = text
            yield b"event: progress\ndata: " + text.encode() + b"\n\n"
        elif look % 50 == 0:
            yield b": still here\n\n"
        if job["state"] in ENDED:
            yield b"event: end\ndata: " + encoded(job) + b"\n\n"
            return
        await anyio.sleep(LOOK)
