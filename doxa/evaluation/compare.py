"""Comparison of two models on the same beliefs: paired differences with bootstrap intervals.

    d_i = metric of B on belief i − metric of A on belief i

The interval of the mean difference comes from samples of the beliefs, drawn with replacement. A belief is drawn with
all that it is asked for, since the ranks of its head and of its tail are not independent of each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.calibration.sentences import answerable
from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import has_negatives, labeled_beliefs
from doxa.data.results import Result
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Vocabularies, Vocabulary, id_map
from doxa.errors import CannotAnswer
from doxa.evaluation.protocol import ranks
from doxa.evaluation.relations import sentence_scores
from doxa.evaluation.report import task_names
from doxa.inference.judgment import judge
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.systems import why_not

COMPARED = ("entity", "relation", "classification", "calibration")
"""The tasks that models are compared in."""

LOWER_IS_BETTER = ("brier", "nll")

ROUNDS = 2000
"""Bootstrap samples behind an interval."""

WIDTH = 0.95
"""Coverage of the intervals."""

FEWEST = 10
"""Beliefs on which the models must differ before a difference is shown: a bootstrap interval excludes 0 as soon as 4
beliefs differ in the same direction, which happens by chance in one of 8 comparisons of equal models."""

BLOCK = 4_000_000
"""Draws that are made at a time."""

GUESS = 0.5
"""Credence of a belief with a name that the model does not know."""

Values = dict[str, Numbers]
"""A value per metric and belief, (n,) each."""


@dataclass(frozen=True)
class Difference:
    """A metric of A and B on the same beliefs, and their difference B − A with its 95 % interval from `low` to `high`.

    `verdict` says whether B is better, worse, or whether these beliefs show no difference. The Brier score (`brier`)
    and the log loss (`nll`) are better when lower.
    """

    task: str
    metric: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Whether model B is better than model A: a difference with its interval per metric.

    `protocol` counts the beliefs compared (`beliefs`, and `judged` with their negatives), beliefs with unknown names
    (`unseen`) and known facts (`known`) of each model, and the known ones that were left out. `skipped` has the reason
    for each task that is missing.
    """

    differences: tuple[Difference, ...]
    protocol: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        tasks: dict[str, Any] = {}
        for one in self.differences:
            values = {"a": one.a, "b": one.b, "difference": one.difference, "interval": [one.low, one.high]}
            tasks.setdefault(one.task, {})[one.metric] = values | {"verdict": one.verdict}
        about = {"protocol": self.protocol, "seconds": self.seconds}
        return tasks | about | ({"skipped": self.skipped} if self.skipped else {})

    def to_frame(self) -> pl.DataFrame:
        """One row per metric: task, metric, a, b, difference, low, high, verdict."""
        return pl.DataFrame([one.as_dict() for one in self.differences])

    def count(self, verdict: str) -> int:
        """How many metrics have this verdict: better, worse, no difference or too few beliefs."""
        return sum(one.verdict == verdict for one in self.differences)

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{self.count(verdict)} {verdict}" for verdict in ("better", "worse", "no difference"))
        return f"Comparison({self.protocol.get('beliefs', 0):,} beliefs, metrics of B: {verdicts})"


def compare(
    a: Model,
    b: Model,
    beliefs: Any,
    tasks: Sequence[str] | str = COMPARED,
    *,
    seed: int = 0,
    keep_known: bool = False,
    report: Callable[[str], None] | None = None,
    memory: int = 0,
) -> Comparison:
    """Say whether model B is better than model A on test beliefs, by paired differences with 95 % intervals.

    Entities and relations are ranked without the known facts of both models and the other test beliefs. Both models
    classify the same negatives. A belief with a name that a model does not know counts as its guess. Beliefs that are
    known facts of a model are left out, unless `keep_known`. `seed` decides the negatives and the bootstrap samples,
    `report` is called with each step, `memory` bounds the tables of scores in bytes; 0 = automatic.
    """
    names, models = task_names(tasks, COMPARED), {"a": a, "b": b}
    sample = _sample(models, Beliefs.of(beliefs), seed, keep_known)
    skipped = _impossible(models, sample)
    todo = [task for task in names if task not in skipped]
    values: dict[str, dict[str, Values]] = {}
    seconds = dict.fromkeys(todo, 0.0)
    for name, model in models.items():
        run = _tasks(model, sample, memory)
        values[name] = {}
        for task in todo:
            if report:
                report(f"model {name.upper()}, {task}")
            began = time.monotonic()
            values[name][task] = run[task]()
            seconds[task] = round(seconds[task] + time.monotonic() - began, 3)
    differences = [one for task in todo for one in paired(task, values["a"][task], values["b"][task], seed)]
    protocol = sample.protocol | {
        "judged": len(sample.judged) if {"classification", "calibration"} & set(todo) else 0,
        "entities": {name: model.pbe.entities for name, model in models.items()},
        "interval": {"coverage": WIDTH, "rounds": ROUNDS, "seed": seed},
    }
    return Comparison(tuple(differences), protocol, seconds, {task: skipped[task] for task in names if task in skipped})


def paired(task: str, a: Values, b: Values, seed: int = 0) -> list[Difference]:
    """The difference of each metric, from a value per belief of A and of B, in the same order."""
    each = np.stack([b[metric] - a[metric] for metric in a], axis=1)
    low, high = bootstrap_interval(each, seed)
    return [
        Difference(
            task=task,
            metric=metric,
            a=float(a[metric].mean()),
            b=float(b[metric].mean()),
            difference=float(each[:, column].mean()),
            low=float(low[column]),
            high=float(high[column]),
            verdict=_verdict(each[:, column], low[column], high[column], metric in LOWER_IS_BETTER),
        )
        for column, metric in enumerate(a)
    ]


def bootstrap_interval(each: Numbers, seed: int = 0, rounds: int = ROUNDS) -> tuple[Numbers, Numbers]:
    """The percentile bootstrap interval, of coverage WIDTH, of the mean of each column of `each`, (n, k)."""
    random, count = np.random.default_rng([seed, 11]), len(each)
    means = np.empty((rounds, each.shape[1]))
    size = max(1, BLOCK // count)
    for start in range(0, rounds, size):
        block = min(size, rounds - start)
        rows = random.integers(0, count, (block, count)) + count * np.arange(block)[:, None]
        times = np.bincount(rows.reshape(-1), minlength=block * count).reshape(block, count)
        means[start : start + block] = times.astype(np.float64) @ each / count
    low, high = np.percentile(means, [50 * (1 - WIDTH), 50 * (1 + WIDTH)], axis=0)
    return low, high


def _verdict(each: Numbers, low: float, high: float, lower_is_better: bool) -> str:
    """What B is: better or worse if the interval excludes 0 and enough beliefs differ."""
    if low <= 0 <= high:
        return "no difference"
    if np.count_nonzero(each) < FEWEST:
        return "too few beliefs"
    return "better" if (low > 0) != lower_is_better else "worse"


@dataclass(frozen=True, eq=False)
class _Sample:
    """What both models are measured on, in vocabularies that hold the names of all.

    `ranked` are the true beliefs; `judged` the labeled ones, of which `group` rows after each other belong together: a
    belief and the negative made of it. `facts` are those known to a model, and the true beliefs.
    """

    ranked: Beliefs
    judged: Beliefs
    group: int
    facts: TripleIndex
    protocol: dict[str, Any]


def _sample(models: dict[str, Model], beliefs: Beliefs, seed: int, keep_known: bool) -> _Sample:
    """The beliefs to compare on, without the facts that a model knows, and their negatives."""
    if any(model.vocabularies.places for model in models.values()):
        beliefs = beliefs.with_places(fewest=1)
    vocabularies = _union(*(model.vocabularies for model in models.values()), beliefs.vocabularies)
    beliefs = beliefs.encode(vocabularies)
    known = {name: _moved(model.known, model.vocabularies, vocabularies) for name, model in models.items()}
    leaked = {name: _is_true(beliefs) & facts.contains(*beliefs.triples.T) for name, facts in known.items()}
    left_out = np.zeros(len(beliefs), bool) if keep_known else leaked["a"] | leaked["b"]
    if len(beliefs) and left_out[_is_true(beliefs)].all() and left_out.any():
        raise CannotAnswer(
            f"all {int(left_out.sum()):,} true beliefs are known facts of a model: it was trained or validated on them",
            "compare on beliefs that neither model has seen",
            "keep_known=True compares on them all the same",
            remedy="keep_known",
        )
    beliefs = beliefs.where(~left_out)
    unseen = {name: ~beliefs.encode(model.vocabularies).seen for name, model in models.items()}
    if (unseen["a"] & unseen["b"]).all():
        raise CannotAnswer("no belief has names that a model knows: nothing to compare", "check that the names agree")
    ranked, made = beliefs.positives(), not has_negatives(beliefs)
    facts = known["a"].union(known["b"].triples).union(ranked.triples)
    judged = labeled_beliefs(ranked if made else beliefs, facts, seed)
    protocol = {
        "beliefs": len(ranked),
        "negatives": f"made, seed {seed}" if made else "labels",
        "known": {name: int(rows.sum()) for name, rows in leaked.items()},
        "left_out": int(left_out.sum()),
        "unseen": {name: int((rows & _is_true(beliefs)).sum()) for name, rows in unseen.items()},
    }
    return _Sample(ranked, judged, 2 if made else 1, facts, protocol)


def _is_true(beliefs: Beliefs) -> NDArray[np.bool_]:
    """Which beliefs `Beliefs.positives` takes."""
    true: NDArray[np.bool_] = beliefs.confidence != 0
    return true if beliefs.label is None else np.asarray(true & (beliefs.label == 1))


def _union(*parts: Vocabularies) -> Vocabularies:
    """Vocabularies with the entities and relations of all, those of the first first; the words are those of the last.

    The ids are those of model A, so that the negatives are the ones that `evaluate` makes for it.
    """

    def joined(kind: str, vocabularies: list[Vocabulary]) -> Vocabulary:
        return Vocabulary(pl.concat([one.names for one in vocabularies]).unique(maintain_order=True), kind)

    entities, relations = [one.entities for one in parts], [one.relations for one in parts]
    return replace(parts[-1], entities=joined("entity", entities), relations=joined("relation", relations))


def _moved(facts: TripleIndex, source: Vocabularies, target: Vocabularies) -> TripleIndex:
    """The facts in the ids of other vocabularies; facts with names that these lack are dropped."""
    entities, relations = id_map(source.entities, target.entities), id_map(source.relations, target.relations)
    head, relation, tail = facts.triples.T
    triples = np.stack([entities[head], relations[relation], entities[tail]], axis=1)
    return TripleIndex(triples, len(target.entities), len(target.relations))


def _impossible(models: dict[str, Model], sample: _Sample) -> dict[str, str]:
    """The tasks that one of the models cannot do, or the beliefs do not allow, and why."""
    reasons: dict[str, str] = {}
    if not len(sample.ranked):
        reasons |= dict.fromkeys(("entity", "relation"), "no belief is labeled true")
    if not len(sample.judged):
        reasons |= dict.fromkeys(("classification", "calibration"), "no negatives could be made of these beliefs")
    for name, model in models.items():
        for task in COMPARED:
            question = "classification" if task == "calibration" else task
            reason = why_not(model.settings, question, words=model.pbe.mention is not None)
            if reason:
                reasons[task] = f"model {name.upper()} cannot: {reason}"
    return reasons


def _tasks(model: Model, sample: _Sample, memory: int) -> dict[str, Callable[[], Values]]:
    """What each task measures for one model: a value per metric and belief."""
    every = sample.ranked.vocabularies
    known = _moved(sample.facts, every, model.vocabularies)
    beliefs, exponent = sample.ranked.encode(model.vocabularies), model.calibration.mention_exponent
    judgment = cache(lambda: judge(model, sample.judged, memory, contradictions=False))
    assert sample.judged.label is not None
    true = sample.judged.label == 1

    def guessed(each: Numbers, candidates: int, answered: NDArray[np.bool_] = beliefs.seen) -> Numbers:
        """With the rank of a guess among the names of both models where this one does not know a name."""
        return np.where(answered[:, None], each, (candidates + 1) / 2)

    def entity() -> Values:
        both = [ranks(model.pbe, slot, beliefs, known, memory=memory).filtered for slot in ENTITY_SLOTS]
        return _rank_metrics(guessed(np.stack(both, axis=1), len(every.entities)), (1, 10))

    def relation() -> Values:
        scores = sentence_scores(model)
        alone = ranks(model.pbe, Slot.RELATION, beliefs, known, None, "both", exponent, memory, scores).filtered
        answered = beliefs.seen | (answerable(model.pbe, beliefs) & (beliefs.relation >= 0))
        return _rank_metrics(guessed(alone[:, None], len(every.relations), answered), (1,))

    def classification() -> Values:
        return {"accuracy": _by_belief(judgment().accepted == true, sample.group)}

    def calibration() -> Values:
        credence = np.where(judgment().unknown, GUESS, judgment().credence)
        right = np.clip(np.where(true, credence, 1 - credence), 1e-12, 1 - 1e-12)
        return {"brier": _by_belief((1 - right) ** 2, sample.group), "nll": _by_belief(-np.log(right), sample.group)}

    return {"entity": entity, "relation": relation, "classification": classification, "calibration": calibration}


def _rank_metrics(each: Numbers, hits: tuple[int, ...]) -> Values:
    """MRR and Hits@k of each belief, from its ranks, (n, slots)."""
    return {"mrr": (1 / each).mean(axis=1)} | {f"hits@{k}": (each <= k).mean(axis=1) for k in hits}


def _by_belief(rows: NDArray[Any], group: int) -> Numbers:
    """The mean of every `group` rows after each other."""
    return np.asarray(rows.reshape(-1, group).mean(axis=1))
