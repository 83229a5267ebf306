"""Evaluation of a model on test beliefs: the three tasks of the paper, confidence and calibration, as one report."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.beliefs import Beliefs
from doxa.data.negatives import has_negatives, labeled_beliefs
from doxa.data.results import Result
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError, one_of
from doxa.evaluation.blocks import RankOptions, ranked_rows
from doxa.evaluation.calibration import CalibrationReport, Reliability, calibration_report, reliability_of_share
from doxa.evaluation.confidence import ConfidenceErrors, ConfidenceReport, confidence_of_mean, confidence_report
from doxa.evaluation.parts import ClassificationReport, EntityReport, RelationReport
from doxa.evaluation.popularity import Popularity, popularity_verdicts
from doxa.evaluation.protocol import CANDIDATE_RULES, Answered, CandidateRule, Ranker, ranks
from doxa.evaluation.ranks import Metrics, Ranks
from doxa.evaluation.relations import relation_ranks
from doxa.inference.judgment import judge
from doxa.inference.rows import Here, RowRunner
from doxa.model import TASKS, Model
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.systems import CAPABILITIES, why_not

FilterRule = Literal["all", "train"]

NO_NAMES = "the model knows none of their names"

FREQUENCIES = ("below 10", "10 to 99", "100 to 999", "1000 and more")
FREQUENCY_ENDS = (10, 100, 1000)
"""Classes of relations by their number of training facts."""


@dataclass(frozen=True)
class PopularityReport:
    """The figures of the popularity baseline on the same beliefs, by the same protocol.

    Entities are ranked by their frequency in that slot of the relation, relations by their frequency. Beliefs are
    classified by the frequency of both entities. `confidence` is of always answering the mean confidence of the known
    facts, `calibration` of always answering the share of true beliefs.
    """

    entity: EntityReport | None = None
    relation: RelationReport | None = None
    classification: ClassificationReport | None = None
    confidence: ConfidenceErrors | None = None
    calibration: Reliability | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).as_dict() for name in TASKS if getattr(self, name) is not None}


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """The reports of the tasks, the protocol, and the reason for each task that is missing.

    `popularity` has the same figures for a baseline that answers with what is frequent.
    """

    entity: EntityReport | None = None
    relation: RelationReport | None = None
    classification: ClassificationReport | None = None
    confidence: ConfidenceReport | None = None
    calibration: CalibrationReport | None = None
    protocol: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    peak_rss_mb: float = 0.0
    popularity: PopularityReport | None = None

    def as_dict(self) -> dict[str, Any]:
        done = {name: getattr(self, name).as_dict() for name in TASKS if getattr(self, name) is not None}
        if self.popularity:
            done["popularity"] = self.popularity.as_dict()
        about = {"protocol": self.protocol, "seconds": self.seconds, "peak_rss_mb": self.peak_rss_mb}
        return done | about | ({"skipped": self.skipped} if self.skipped else {})

    def to_frame(self) -> pl.DataFrame:
        """One row per task and metric: task, metric (such as filtered.mrr), value, and that of the popularity baseline
        (null where it has none)."""
        baseline = dict(_numbers(self.popularity.as_dict())) if self.popularity else {}
        rows = [
            (task, metric, value, baseline.get(f"{task}.{metric}"))
            for task in TASKS
            if getattr(self, task) is not None
            for metric, value in _numbers(getattr(self, task).as_dict())
        ]
        schema = {"task": pl.String, "metric": pl.String, "value": pl.Float64, "popularity": pl.Float64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def __repr__(self) -> str:
        parts = [f"{self.protocol.get('queries', 0):,} beliefs"]
        if self.entity:
            parts.append(f"entity MRR {self.entity.filtered.mrr:.3f}")
        if self.relation:
            parts.append(f"relation MRR {self.relation.filtered.mrr:.3f}")
        if self.classification:
            parts.append(f"accuracy {self.classification.accuracy:.3f}")
        if self.confidence:
            parts.append(f"confidence MSE {self.confidence.mse:.3f}")
        if self.calibration:
            parts.append(f"ECE {self.calibration.after.ece:.3f}")
        return f"Evaluation({', '.join(parts)})"


def _numbers(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number of nested dictionaries, with its keys joined by dots; lists are left out."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float):
            yield prefix + name, float(value)


def evaluate(
    model: Model,
    beliefs: Any,
    tasks: Sequence[str] | str = TASKS,
    filter: FilterRule = "all",
    candidates: CandidateRule = "all",
    rank_all: bool = False,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
    memory: int = 0,
    popularity: bool = True,
    runner: RowRunner | None = None,
) -> Evaluation:
    """Run the tasks that the beliefs allow.

    `filter` takes other known facts out of the ranking: of train, valid and the test beliefs (all), or of train alone.
    `candidates` are all entities (the standard protocol), those seen in that slot of the relation, or those that `ask`
    answers with (`doxa.evaluation.protocol.Answered`). Beliefs labeled false are ranked only with `rank_all`. `seed`
    decides the negatives made for beliefs without labels. `report` is called with each task's name. `memory` bounds the
    tables of scores in bytes; 0 = automatic. With `popularity`, every task is also run for the popularity baseline.
    `runner` is where blocks of beliefs are ranked and judged, by default here.
    """
    tasks = task_names(tasks, TASKS)
    one_of("filter", filter, ("all", "train"))
    one_of("candidates", candidates, CANDIDATE_RULES)
    beliefs = Beliefs.of(beliefs).encode(model.vocabularies)
    ranked = beliefs if rank_all else beliefs.positives()
    known = model.trained_facts if filter == "train" else model.known.union(ranked.triples)
    labeled = cache(lambda: labeled_beliefs(beliefs, model.known.union(beliefs.positives().triples), seed))
    inputs = _Inputs(model, beliefs, ranked, known, labeled, candidates, memory, filter, runner or Here(model))
    run = _tasks(inputs)
    reasons = _impossible(model, beliefs, ranked)
    judged = {"classification", "calibration"}
    if judged & set(tasks) - reasons.keys() and not labeled().seen.any():
        reason = "no negatives could be made of these beliefs" if beliefs.seen.any() else NO_NAMES
        reasons |= dict.fromkeys(judged, reason)
    done: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for task in (task for task in TASKS if task in tasks and task not in reasons):
        if report:
            report(task)
        began = time.monotonic()
        done[task] = run[task]()
        seconds[task] = round(time.monotonic() - began, 3)
    if popularity and done:
        began = time.monotonic()
        if report:
            report("popularity")
        baseline = _popularity_tasks(inputs)
        done["popularity"] = PopularityReport(**{task: baseline[task]() for task in done})
        seconds["popularity"] = round(time.monotonic() - began, 3)
    protocol = _protocol(inputs, seed) | {"judged": len(labeled()) if judged & done.keys() else 0}
    skipped = {task: reasons[task] for task in tasks if task in reasons}
    return Evaluation(**done, protocol=protocol, seconds=seconds, skipped=skipped, peak_rss_mb=_peak_rss_mb())


def _protocol(inputs: _Inputs, seed: int) -> dict[str, Any]:
    """How the tasks were run."""
    return {
        "filter": inputs.filter,
        "ties": "expected",
        "candidates": inputs.candidates,
        "queries": len(inputs.ranked),
        "unseen": int((~inputs.ranked.seen).sum()),
        "judged": 0,
        "negatives": "labels" if has_negatives(inputs.beliefs) else f"made, seed {seed}",
    }


def task_names(tasks: Sequence[str] | str, choices: Sequence[str]) -> Sequence[str]:
    """The names of tasks, as a list or in a text; a name that is not among the choices is an error."""
    names = tasks.replace(",", " ").split() if isinstance(tasks, str) else tasks
    unknown = [name for name in names if name not in choices]
    if unknown or not names:
        raise UsageError(f"no task {unknown[0] if unknown else ''!r}; expected some of {', '.join(choices)}")
    return names


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What every task is run on; confidence and calibration leave out beliefs with unknown names."""

    model: Model
    beliefs: Beliefs
    ranked: Beliefs
    known: TripleIndex
    labeled: Callable[[], Beliefs]
    candidates: CandidateRule
    memory: int
    filter: FilterRule
    runner: RowRunner

    @property
    def confident(self) -> Beliefs:
        return self.beliefs.where(self.beliefs.seen & ~np.isnan(self.beliefs.confidence))

    @property
    def judged(self) -> Beliefs:
        return self.labeled().where(self.labeled().seen)

    def entities(self, ranker: Ranker) -> EntityReport:
        of_relation = self.candidates == "relation"
        return entity_report(ranker, self.ranked, self.known, self.model.trained_facts, of_relation, self.memory)

    def entities_by_blocks(self) -> EntityReport:
        """The ranks of entities by the model, wherever the runner ranks blocks of beliefs."""
        joining = self.ranked.triples if self.filter == "all" else None
        options = RankOptions(self.candidates, joining, self.memory, self.known)
        by_relation = np.argsort(self.ranked.relation, kind="stable")
        table = self.runner.run(
            ranked_rows, len(self.ranked), lambda rows: self.ranked.take(by_relation[rows]), options
        )
        columns = {name: np.empty(len(table)) for name in table.columns}
        for name, column in columns.items():
            column[by_relation] = table[name].to_numpy()
        parts = [Ranks(columns[f"raw_{slot}"], columns[f"filtered_{slot}"]) for slot in ENTITY_SLOTS]
        return report_of_ranks(self.ranked, self.model.trained_facts, *parts)


def _tasks(inputs: _Inputs) -> dict[str, Callable[[], Any]]:
    """What each task runs."""
    model, ranked = inputs.model, inputs.ranked
    ranker: Ranker = Answered(model.pbe) if inputs.candidates == "answered" else model.pbe
    return {
        "entity": inputs.entities_by_blocks,
        "relation": lambda: _relation(inputs, ranker),
        "classification": lambda: _classification(inputs),
        "confidence": lambda: confidence_report(model, inputs.confident, inputs.memory),
        "calibration": lambda: calibration_report(
            model, inputs.judged, ranked.where(ranked.seen), inputs.memory, inputs.runner
        ),
    }


def _relation(inputs: _Inputs, ranker: Ranker) -> RelationReport:
    """Relation prediction from entities and words, and where there are words from each alone."""
    parts = relation_ranks(inputs.model, ranker, inputs.ranked, inputs.known, inputs.memory)
    reports = {name: _of_relations(part, inputs.ranked) for name, part in parts.items()}
    return replace(reports["both"], entities=reports.get("entities"), words=reports.get("words"))


def _classification(inputs: _Inputs) -> ClassificationReport:
    """Triplet classification, which judges each belief by itself (Section 5.4)."""
    labeled = inputs.labeled()
    judgment = judge(inputs.model, labeled, inputs.memory, contradictions=False, runner=inputs.runner)
    return classification_report(judgment.accepted, labeled)


def _popularity_tasks(inputs: _Inputs) -> dict[str, Callable[[], Any]]:
    """What each task runs for the popularity baseline, on the beliefs that the model is measured on."""
    model, popularity = inputs.model, Popularity(inputs.model.trained_facts)
    return {
        "entity": lambda: inputs.entities(popularity),
        "relation": lambda: relation_report(popularity, inputs.ranked, inputs.known, memory=inputs.memory),
        "classification": lambda: classification_report(popularity_verdicts(model, inputs.labeled()), inputs.labeled()),
        "confidence": lambda: confidence_of_mean(model, inputs.confident),
        "calibration": lambda: reliability_of_share(inputs.judged),
    }


def entity_report(
    ranker: Ranker,
    beliefs: Beliefs,
    known: TripleIndex,
    trained: TripleIndex,
    of_relation: bool = False,
    memory: int = 0,
) -> EntityReport:
    """Ranks of both entities of every belief, filtered by `known`; `trained` decides the mapping kinds.

    Candidates are all entities, or with `of_relation` those that `trained` has in that slot of the relation.
    """
    heads, tails = (
        ranks(ranker, slot, beliefs, known, trained.seen(slot) if of_relation else None, memory=memory)
        for slot in ENTITY_SLOTS
    )
    return report_of_ranks(beliefs, trained, heads, tails)


def report_of_ranks(beliefs: Beliefs, trained: TripleIndex, heads: Ranks, tails: Ranks) -> EntityReport:
    """The figures of the ranks of both entities of every belief."""
    both = Ranks.joined([heads, tails])

    def by(kinds: NDArray[np.str_], order: Sequence[str]) -> dict[str, Metrics]:
        return {
            kind: Metrics.of(Ranks.joined([heads.where(kinds == kind), tails.where(kinds == kind)]).filtered)
            for kind in order
            if (kinds == kind).any()
        }

    kinds = np.array([*trained.mapping_kinds(), "unseen"])[beliefs.relation]
    counts = np.append(trained.counts, 0)[beliefs.relation]
    frequency = np.array(FREQUENCIES)[np.searchsorted(FREQUENCY_ENDS, counts, side="right")]
    return EntityReport(
        raw=Metrics.of(both.raw),
        filtered=Metrics.of(both.filtered),
        filtered_heads=Metrics.of(heads.filtered),
        filtered_tails=Metrics.of(tails.filtered),
        by_category=by(kinds, np.unique(kinds).tolist()),
        by_frequency=by(frequency, FREQUENCIES),
        filtered_seen=_of_seen(beliefs, heads, tails),
    )


def _of_seen(beliefs: Beliefs, *parts: Ranks) -> Metrics | None:
    """Filtered metrics of the beliefs with known names; None if these are all beliefs, or none."""
    seen = beliefs.seen
    if seen.all() or not seen.any():
        return None
    return Metrics.of(Ranks.joined([part.where(seen) for part in parts]).filtered)


def relation_report(
    ranker: Ranker,
    beliefs: Beliefs,
    known: TripleIndex,
    use: str = "both",
    mention_exponent: float = 1.0,
    memory: int = 0,
) -> RelationReport:
    """Ranks of the relation of every belief; `use` is both, pair or mention."""
    result = ranks(ranker, Slot.RELATION, beliefs, known, None, use, mention_exponent, memory)
    return _of_relations(result, beliefs)


def _of_relations(result: Ranks, beliefs: Beliefs) -> RelationReport:
    return RelationReport(Metrics.of(result.raw), Metrics.of(result.filtered), _of_seen(beliefs, result))


def classification_report(accepted: NDArray[np.bool_], beliefs: Beliefs) -> ClassificationReport:
    """Accuracy of verdicts on labeled beliefs."""
    assert beliefs.label is not None
    right = accepted == (beliefs.label == 1)
    by_relation = {
        beliefs.vocabularies.relations[relation]: float(right[beliefs.relation == relation].mean())
        for relation in np.unique(beliefs.relation[beliefs.relation >= 0])
    }
    return ClassificationReport(float(right.mean()), float(right[beliefs.seen].mean()), by_relation)


def _impossible(model: Model, beliefs: Beliefs, ranked: Beliefs) -> dict[str, str]:
    """The tasks that cannot be run on these beliefs, and why."""
    reasons: dict[str, str] = {}
    for task, question in (*((name, name) for name in CAPABILITIES), ("calibration", "classification")):
        reason = why_not(model.settings, question, words=model.pbe.mention is not None)
        if reason:
            reasons[task] = reason
    if len(model.vocabularies.relations) == 1:
        reasons["relation"] = "the model knows a single relation"
    if not len(ranked):
        reasons |= dict.fromkeys(("entity", "relation"), "no belief is labeled true")
    if not (beliefs.seen & ~np.isnan(beliefs.confidence)).any():
        reasons["confidence"] = "the beliefs carry no confidence"
    elif model.calibration.expected_confidence is None:
        reasons["confidence"] = "no validation belief of the model carried confidence"
    return reasons


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)
