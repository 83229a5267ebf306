"""Evaluation of a learnt model on a set of beliefs: the three tasks, confidence and calibration, as one report."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.rules import judge
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import has_negatives, labeled_beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError, one_of
from doxa.evaluation.calibration import CalibrationReport, calibration_report
from doxa.evaluation.confidence import ConfidenceReport, confidence_report
from doxa.evaluation.protocol import CandidateRule, Ranker, head_ranks, relation_ranks, tail_ranks
from doxa.evaluation.ranks import Metrics, Ranks
from doxa.model import Model
from doxa.systems import QUESTIONS, why_not

TASKS = ("entity", "relation", "classification", "confidence", "calibration")
FilterRule = Literal["all", "train"]

FREQUENCIES = ("below 10", "10 to 99", "100 to 999", "1000 and more")
FREQUENCY_ENDS = (10, 100, 1000)
"""How many facts train has of a relation, in classes."""


@dataclass(frozen=True)
class EntityReport:
    """Ranks of missing heads and tails together, and apart where filtered.

    `by_category` is by mapping kind of the relation, `by_frequency` by how many facts train has of it.
    """

    raw: Metrics
    filtered: Metrics
    filtered_heads: Metrics
    filtered_tails: Metrics
    by_category: dict[str, Metrics]
    by_frequency: dict[str, Metrics]

    def as_dict(self) -> dict[str, Any]:
        parts = {
            name: getattr(self, name).as_dict() for name in ("raw", "filtered", "filtered_heads", "filtered_tails")
        }
        return parts | {
            name: {kind: metrics.as_dict() for kind, metrics in getattr(self, name).items()}
            for name in ("by_category", "by_frequency")
        }


@dataclass(frozen=True)
class RelationReport:
    """Ranks of missing relations."""

    raw: Metrics
    filtered: Metrics

    def as_dict(self) -> dict[str, Any]:
        return {"raw": self.raw.as_dict(), "filtered": self.filtered.as_dict()}


@dataclass(frozen=True)
class ClassificationReport:
    """Share of labeled beliefs judged rightly: of all, of those whose names the model knows, and per relation."""

    accuracy: float
    accuracy_of_seen: float
    by_relation: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {"accuracy": self.accuracy, "accuracy_of_seen": self.accuracy_of_seen, "by_relation": self.by_relation}


@dataclass(frozen=True)
class Evaluation:
    """What was measured, by which protocol, and why a task is missing."""

    entity: EntityReport | None = None
    relation: RelationReport | None = None
    classification: ClassificationReport | None = None
    confidence: ConfidenceReport | None = None
    calibration: CalibrationReport | None = None
    protocol: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    peak_rss_mb: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        done = {name: getattr(self, name).as_dict() for name in TASKS if getattr(self, name) is not None}
        about = {"protocol": self.protocol, "seconds": self.seconds, "peak_rss_mb": self.peak_rss_mb}
        return done | about | ({"skipped": self.skipped} if self.skipped else {})


def evaluate(
    model: Model,
    beliefs: Beliefs,
    tasks: Sequence[str] | str = TASKS,
    filter: FilterRule = "all",
    candidates: CandidateRule = "all",
    rank_all: bool = False,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
) -> Evaluation:
    """Run the tasks the beliefs allow; `seed` decides the falsehoods made for beliefs without labels."""
    tasks = tasks.replace(",", " ").split() if isinstance(tasks, str) else tasks
    unknown = [task for task in tasks if task not in TASKS]
    if unknown or not tasks:
        raise UsageError(f"no task {unknown[0] if unknown else ''!r}; expected some of {', '.join(TASKS)}")
    one_of("filter", filter, ("all", "train"))
    one_of("candidates", candidates, ("all", "relation"))
    beliefs = beliefs.encode(model.vocabularies)
    ranked = beliefs if rank_all else beliefs.positives()
    known = model.trained_facts if filter == "train" else model.known.union(ranked.triples)

    @cache
    def labeled() -> Beliefs:
        return labeled_beliefs(beliefs, model.known.union(beliefs.positives().triples), seed)

    run: dict[str, Callable[[], Any]] = {
        "entity": lambda: entity_report(
            model.pbe, ranked, known, model.trained_facts, of_relation=candidates == "relation"
        ),
        "relation": lambda: relation_report(model.pbe, ranked, known),
        "classification": lambda: _classification(model, labeled()),
        "confidence": lambda: _confidence(model, beliefs),
        "calibration": lambda: _calibration(model, labeled(), ranked),
    }
    reasons = _impossible(model, beliefs, ranked)
    judged = {"classification", "calibration"} & set(tasks) - reasons.keys()
    if judged and not labeled().seen.any():
        reason = (
            "no falsehood could be made of these beliefs"
            if beliefs.seen.any()
            else "the model knows none of their names"
        )
        reasons |= dict.fromkeys(("classification", "calibration"), reason)
    done: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for task in (task for task in TASKS if task in tasks and task not in reasons):
        if report:
            report(task)
        began = time.monotonic()
        done[task] = run[task]()
        seconds[task] = round(time.monotonic() - began, 3)
    protocol = {
        "filter": filter,
        "ties": "expected",
        "candidates": candidates,
        "queries": len(ranked),
        "unseen": int((~ranked.seen).sum()),
        "judged": len(labeled()) if {"classification", "calibration"} & done.keys() else 0,
        "negatives": "labels" if has_negatives(beliefs) else f"made, seed {seed}",
    }
    skipped = {task: reason for task, reason in reasons.items() if task in tasks}
    return Evaluation(**done, protocol=protocol, seconds=seconds, skipped=skipped, peak_rss_mb=_peak_rss_mb())


def entity_report(
    ranker: Ranker, beliefs: Beliefs, known: TripleIndex, trained: TripleIndex, of_relation: bool = False
) -> EntityReport:
    """Both sides of every belief, filtered by `known`; `trained` decides the mapping kinds.

    Candidates are all entities, or those `trained` has in that position of the relation.
    """
    heads = head_ranks(ranker, beliefs, known, trained.positions(0) if of_relation else None)
    tails = tail_ranks(ranker, beliefs, known, trained.positions(2) if of_relation else None)
    both = Ranks.joined([heads, tails])

    def by(kinds: NDArray[np.str_], order: Sequence[str]) -> dict[str, Metrics]:
        return {
            kind: Metrics.of(Ranks.joined([heads.where(kinds == kind), tails.where(kinds == kind)]).filtered)
            for kind in order
            if (kinds == kind).any()
        }

    kinds = np.array([*trained.mapping_kinds(), "unseen"])[beliefs.relation]
    seen = np.append(trained.counts, 0)[beliefs.relation]
    often = np.array(FREQUENCIES)[np.searchsorted(FREQUENCY_ENDS, seen, side="right")]
    return EntityReport(
        raw=Metrics.of(both.raw),
        filtered=Metrics.of(both.filtered),
        filtered_heads=Metrics.of(heads.filtered),
        filtered_tails=Metrics.of(tails.filtered),
        by_category=by(kinds, np.unique(kinds).tolist()),
        by_frequency=by(often, FREQUENCIES),
    )


def relation_report(ranker: Ranker, beliefs: Beliefs, known: TripleIndex, use: str = "both") -> RelationReport:
    """The relation of every belief among all; `use` is both, pair or mention."""
    ranks = relation_ranks(ranker, beliefs, known, use)
    return RelationReport(Metrics.of(ranks.raw), Metrics.of(ranks.filtered))


def classification_report(verdict: NDArray[np.bool_], beliefs: Beliefs) -> ClassificationReport:
    """Accuracy of verdicts on labeled beliefs."""
    assert beliefs.label is not None
    right = verdict == (beliefs.label == 1)
    by_relation = {
        beliefs.vocabularies.relations[relation]: float(right[beliefs.relation == relation].mean())
        for relation in np.unique(beliefs.relation[beliefs.relation >= 0])
    }
    return ClassificationReport(float(right.mean()), float(right[beliefs.seen].mean()), by_relation)


def _classification(model: Model, beliefs: Beliefs) -> ClassificationReport:
    return classification_report(judge(model, beliefs).verdict, beliefs)


def _calibration(model: Model, labeled: Beliefs, ranked: Beliefs) -> CalibrationReport:
    """On beliefs whose names the model knows."""
    return calibration_report(model, labeled.where(labeled.seen), ranked.where(ranked.seen))


def _confidence(model: Model, beliefs: Beliefs) -> ConfidenceReport:
    given = beliefs.where(beliefs.seen & ~np.isnan(beliefs.confidence))
    return confidence_report(model, given)


def _impossible(model: Model, beliefs: Beliefs, ranked: Beliefs) -> dict[str, str]:
    """Tasks that cannot be run on these beliefs, and why."""
    reasons: dict[str, str] = {}
    for task, question in (*((name, name) for name in QUESTIONS), ("calibration", "classification")):
        reason = why_not(model.settings, question, words=model.pbe.mention is not None)
        if reason:
            reasons[task] = reason
    if not len(ranked):
        reasons |= dict.fromkeys(("entity", "relation"), "no belief is labeled true")
    if not (beliefs.seen & ~np.isnan(beliefs.confidence)).any():
        reasons["confidence"] = "the beliefs carry no confidence"
    elif model.expected is None:
        reasons["confidence"] = "no validation belief of the model carried confidence"
    return reasons


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)
