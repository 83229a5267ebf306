"""What jobs do: update the live model, search for missing and for wrong beliefs, evaluate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from doxa.errors import UsageError
from doxa.model import TASKS, Model
from doxa.storage.store.knowledge_base import KnowledgeBase

Report = Callable[[float, str], None]
"""Receives the share that is done, from 0 to 1, and what is being done."""


def run(kb: KnowledgeBase, kind: str, settings: dict[str, Any], report: Report) -> tuple[str, Any]:
    """Do a job: a sentence about its outcome, and its result."""
    return JOBS[kind](kb, settings, report)


def update(kb: KnowledgeBase, settings: dict[str, Any], report: Report) -> tuple[str, Any]:
    """Update the live model with what was decided since, and publish it if it is no worse."""
    from doxa.curation.living import update_live
    from doxa.server.living import version_dict

    result = update_live(kb, report=report, **settings)
    if result is None:
        return "nothing was decided since the live model was trained", None
    about = result.as_dict() | {"version": version_dict(result.version)}
    return f"version {result.version.id} is {result.version.state}: {result.reason}", about


def complete(kb: KnowledgeBase, settings: dict[str, Any], report: Report) -> tuple[str, Any]:
    """Search for missing beliefs and put them into the review queue."""
    overlap = float(settings.pop("overlap", 0.0))
    model, version = _live(kb)
    proposals = model.complete(
        **settings, exclude=kb.settled(), report=lambda now: report(0.95 * now.fraction, now.relation)
    )
    return _queued(kb, proposals.to_frame(), "missing", version, overlap, proposals.expected_right)


def audit(kb: KnowledgeBase, settings: dict[str, Any], report: Report) -> tuple[str, Any]:
    """Search for beliefs that look wrong and put them into the review queue."""
    from doxa.curation.audit import audit as run_audit

    overlap, top = float(settings.pop("overlap", 0.0)), int(settings.pop("top", 1000))
    model, version = _live(kb)
    suspects = run_audit(model, None, top, report=lambda share: report(0.95 * share, "audit"))
    return _queued(kb, suspects.to_frame(), "suspect", version, overlap, suspects.expected_wrong)


def _queued(
    kb: KnowledgeBase, table: pl.DataFrame, kind: str, version: int, overlap: float, expected: float | None
) -> tuple[str, Any]:
    count = kb.queue.propose(table, kind, model=str(version), overlap=overlap) if len(table) else 0
    what = "missing beliefs" if kind == "missing" else "suspects"
    return f"{count:,} {what} to review", {"proposals": count, "expected": expected, "kind": kind}


def evaluate(kb: KnowledgeBase, settings: dict[str, Any], report: Report) -> tuple[str, Any]:
    """Evaluate a version, the live one by default, on the test split."""
    number = settings.get("version")
    wanted = (one for one in kb.models.all() if (one.state == "live" if number is None else one.id == number))
    version = next(wanted, None)
    if version is None:
        raise UsageError(f"no model version {number}" if number else "no model is live")
    beliefs = kb.beliefs("test")
    if not len(beliefs):
        raise UsageError("the test split is empty")
    steps = (*TASKS, "popularity")

    def begun(task: str) -> None:
        done = steps.index(task)
        report(done / len(steps), f"{task}, step {done + 1} of {len(steps)}")

    result = Model.load(kb.models.folder_of(version)).evaluate(beliefs, report=begun)
    return f"version {version.id} on {len(beliefs):,} beliefs of the test split", {
        "version": version.id, "beliefs": len(beliefs), "evaluation": result.as_dict(),
    }  # fmt: skip


def _live(kb: KnowledgeBase) -> tuple[Model, int]:
    live = kb.models.live()
    if live is None:
        raise UsageError("no model is live", "train one, or publish a version")
    return Model.load(kb.models.folder_of(live)), live.id


JOBS: dict[str, Callable[[KnowledgeBase, dict[str, Any], Report], tuple[str, Any]]] = {
    "update": update,
    "complete": complete,
    "audit": audit,
    "evaluate": evaluate,
}
