"""Review: the next proposals, decisions about them, undo, and figures."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response
from pydantic import Field

from doxa.curation.field import statistics
from doxa.errors import CannotAnswer, UsageError
from doxa.server import schemas
from doxa.server.context import API, Parts, as_json
from doxa.server.problems import PROBLEMS
from doxa.server.security import Principal, Requires
from doxa.storage.store.queue import LEASE, ReviewQueue

router = APIRouter(prefix=f"{API}/review", tags=["review"], responses=PROBLEMS)

Curator = Annotated[Principal, Depends(Requires("curator"))]
Reader = Annotated[Principal, Depends(Requires("reader"))]
Number = Annotated[int, Path(ge=1, le=2**62)]


class DecisionIn(schemas.Body):
    """accept: the belief is true. reject: it is false. replace: another tail is right. unsure decides nothing."""

    verdict: Literal["accept", "reject", "unsure", "replace"]
    reason: schemas.Name | None = Field(None, examples=["wrong tail"])
    note: schemas.Name | None = None
    replacement: schemas.Name | None = Field(None, description="The right tail, if it is not the suggested one.")


class UndoIn(schemas.Body):
    """Which decision to undo: the last review of the curator by default."""

    decision: int | None = Field(None, ge=1, le=2**62)
    note: schemas.Name | None = None


class DecisionOut(schemas.Lenient):
    """The number of the decision in the log."""

    decision: int


class UndoneOut(DecisionOut):
    """The number of the undo in the log, and the proposal that is open again, if the decision was about one."""

    proposal: int | None


class ProposalOut(schemas.Lenient):
    """A belief to review."""

    id: int
    kind: Literal["missing", "suspect"]
    head: str
    relation: str
    tail: str
    credence: float
    suggestion: str | None
    evidence: dict[str, Any]
    mentions: list[dict[str, Any]]
    leased_until: int
    state: Literal["open", "decided", "withdrawn"]


class Released(schemas.Lenient):
    """The number of a proposal that was given back."""

    proposal: int


class StatsOut(schemas.Lenient):
    """Review in figures; `queue` counts proposals by state."""

    verdicts: dict[str, int]
    precision: float | None
    calibration: dict[str, Any] | None
    agreement: dict[str, Any] | None
    queue: dict[str, int]


class ProposalsOut(schemas.Lenient):
    """The proposals in hand, the next one first, and how many there are in the queue."""

    proposals: list[ProposalOut]
    queue: dict[str, int]


@router.post("/next", response_model=ProposalsOut, summary="The next proposals")
async def next_(
    parts: Parts,
    who: Curator,
    count: int = Query(5, ge=1, le=50, description="How many to have in hand."),
    order: Literal["credence", "uncertainty"] = "credence",
    lease: float = Query(LEASE, ge=1, le=86_400, description="Seconds until they go to somebody else."),
) -> Response:
    """Lease the next proposals to the curator; those in hand come first. Nobody else gets them until the lease ends."""
    queue = parts.signed(who).queue

    def work() -> Any:
        proposals = queue.claim_many(count, order=order, lease=lease)
        return {"proposals": [one.as_dict() for one in proposals], "queue": queue.counts()}

    return as_json(await parts.quick(work))


@router.post("/{number:int}/decide", response_model=DecisionOut, summary="Decide a proposal")
async def decide(parts: Parts, who: Curator, number: Number, decision: DecisionIn) -> Response:
    """The decision is in the log when the response arrives. A proposal that somebody else has in hand, or that is
    decided, is refused with 409."""
    queue = parts.signed(who).queue

    def work() -> Any:
        return {"decision": _decided(queue, number, decision), "proposal": number, "verdict": decision.verdict}

    return as_json(await parts.quick(work))


def _decided(queue: ReviewQueue, number: int, decision: DecisionIn) -> int:
    try:
        return queue.decide(
            number, decision.verdict, reason=decision.reason, note=decision.note, replacement=decision.replacement
        )
    except UsageError as fault:
        if "is leased to" in fault.message or "is already" in fault.message:
            raise CannotAnswer(fault.message, *fault.hints) from fault
        raise


@router.post("/{number:int}/release", response_model=Released, summary="Give a proposal back")
async def release(parts: Parts, who: Curator, number: Number) -> Response:
    """Let somebody else have a proposal that the curator has in hand."""
    queue = parts.signed(who).queue
    await parts.quick(lambda: queue.release(number))
    return as_json({"proposal": number})


@router.post("/undo", response_model=UndoneOut, summary="Undo a decision")
async def undo(parts: Parts, who: Curator, what: UndoIn) -> Response:
    """Undo the curator's last review, or a decision by its number; its proposal is open again."""
    kb = parts.signed(who)

    def work() -> Any:
        number, note = what.decision, what.note
        undo = kb.queue.undo_last(note=note) if number is None else kb.undo(number, note=note)
        return {"decision": undo, "proposal": kb.queue.proposal_of(undo)}

    return as_json(await parts.quick(work))


@router.get("/stats", response_model=StatsOut, summary="Review in figures")
async def stats(parts: Parts, who: Reader) -> Response:
    """Verdicts, reasons, precision, calibration of the credence shown, agreement of reviewers, and the queue."""
    kb = parts.source.store()

    def work() -> Any:
        decisions = kb.queue.decisions()
        return statistics(decisions).as_dict() | {"queue": kb.queue.counts()}

    return as_json(await parts.quick(work))


@router.get("/{number:int}", response_model=ProposalOut, summary="A proposal")
async def proposal(parts: Parts, who: Reader, number: Number) -> Response:
    """A proposal by its number, with its evidence."""
    queue = parts.source.store().queue
    return as_json(await parts.quick(lambda: queue.get(number).as_dict()))
