"""Settings: every option of a run, declared once, in four groups.

    model      what is built            training   how it is trained
    judging    how beliefs are judged   running    where and how training runs

Judging and running settings can be changed without training again. Running settings do not decide what is learned, but
several workers are not exactly repeatable. The options of a score are declared in its own file and travel here as the
mapping `score_options`, which `doxa.systems` checks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypeVar

from doxa.config.declared import check, described, setting
from doxa.errors import BadFile, UsageError

Function = TypeVar("Function", bound=Callable[..., Any])

GROUPS = ("model", "training", "judging", "running")

RENAMED = {
    "candidates": "num_candidates",
    "negatives": "negative_weight",
    "avoid_known": "filter_negatives",
    "holdout": "validation_fraction",
    "validate_by": "stop_on",
    "optimiser": "optimizer",
    "batch": "batch_size",
    "crowd": "max_answers",
    "diffusion": "graph_smoothing",
    "falsehoods": "negatives_from",
    "verdict": "decision_rule",
}
"""Names of settings in version 0.1 and what they are called now."""

PRODUCTS = ("complex", "distmult")
"""Scores that are products of a query's vector with its candidates, which training by queries needs."""

RENAMED_VALUES = {("decision_rule", "weighed"): "learned"}


@dataclass(frozen=True)
class Settings:
    """How a model is built, trained, judged by and run. Frozen: `changed` gives a copy with other values."""

    system: str = setting("pbe", "Recipe of score, objective, sampler and constraints; `doxa systems` lists them.")
    score: str = setting(
        "auto",
        "Score D(h, r, t), the plausibility of a triple; `doxa systems` lists them. "
        "auto = the best of a race on validation beliefs.",
    )
    dimension: int = setting(200, "Dimension of the entity, relation and word vectors.", low=1)
    scale: float = setting(
        0.0, "Factor on the score inside the softmax (1 in the paper). 0 = the score's default, 4 or 1.", low=0
    )
    mentions: bool = setting(True, "Train words on mentions where there are any (Eqs 11, 12).")
    mention_term: str = setting(
        "auto",
        "Words in Eq. 11: a weight for each word and relation, trained by itself with L2 regularization chosen on "
        "validation (separate), or word vectors that share the relation vectors and steps of the score (joint, the "
        "paper). auto = separate, or joint where the objective is no softmax likelihood or the words are very many.",
        choices=("auto", "separate", "joint"),
    )
    mention_places: bool = setting(
        True,
        "Separate mention term: words also count by their place before, between or after the names of the entities.",
    )
    graph_smoothing: int = setting(
        0,
        "Random-walk steps that average entity vectors over graph neighbors before training; 64 suits sparse graphs.",
        low=0,
    )
    score_options: Mapping[str, Any] = field(default_factory=dict)
    named: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    objective: str = setting(
        "likelihood", "Training objective: likelihood (Eq. 4), fit of the confidence (Eq. 5), or margin ranking.",
        "training", ("likelihood", "confidence", "margin"),
    )  # fmt: skip
    confidence: str = setting(
        "weight",
        "Use of confidence in the likelihood: weight of a belief, soft label (negative estimator), or ignored.",
        "training", ("weight", "label", "ignore"),
    )  # fmt: skip
    estimator: str = setting(
        "auto",
        "Softmax in training: sampled candidates, negative sampling (Eqs 13–18) or exact. "
        "auto = negative where confidence is fitted, exact with batch_by=queries, else sampled.",
        "training", ("auto", "sampled", "negative", "exact"),
    )  # fmt: skip
    batch_by: str = setting(
        "beliefs",
        "What a step consists of: beliefs, or queries with all their answers. One exact softmax then serves all "
        "answers of a query. For complex and distmult, in one process.",
        "training", ("beliefs", "queries"),
    )  # fmt: skip
    precision: str = setting(
        "float32",
        "Matrix products of batch_by=queries. bfloat16 is several times faster on processors with instructions for it. "
        "Scores and products are rounded to it; vectors and steps stay in float32.",
        "training", ("float32", "bfloat16"),
    )  # fmt: skip
    num_candidates: int = setting(
        0, "Candidates per term, shared by a batch. 0 = 512, or all where there are fewer.", "training", low=0
    )
    share_candidates: bool = setting(
        True,
        "One set of candidates per batch. false = k negatives (negative_weight) for each belief, as in the paper.",
        "training",
    )
    sampling_correction: bool = setting(
        False, "Let sampled candidates count for all that they stand for (n / N), so that sums estimate exact ones.",
        "training",
    )  # fmt: skip
    negative_weight: int = setting(
        10, "k of Eqs 13–16: weight of the negatives (negative estimator).", "training", low=1
    )
    epsilon: float = setting(1e-6, "Floor ε inside the logarithm of Eq. 17.", "training", low=0)
    eta: float = setting(1e-6, "Floor η inside the logarithm of Eq. 18.", "training", low=0)
    head_weight: float = setting(1.0, "Weight of log Pr(h|r,t) in the objective.", "training", low=0)
    relation_weight: float = setting(1.0, "Weight of log Pr(r|h,t) in the objective.", "training", low=0)
    tail_weight: float = setting(1.0, "Weight of log Pr(t|h,r) in the objective.", "training", low=0)
    mention_weight: float = setting(1.0, "Weight of log Pr(r|m) in the objective.", "training", low=0)
    margin: float = setting(1.0, "Margin γ of margin ranking.", "training", low=0)
    corruption: str = setting(
        "uniform", "Margin ranking: corrupt head and tail equally, or by the Bernoulli rule of TransH.",
        "training", ("uniform", "bernoulli"),
    )  # fmt: skip
    max_answers: int = setting(
        0, "Cap on a query's weight: a query with more than N known answers contributes as if it had N. 0 = no cap.",
        "training", low=0,
    )  # fmt: skip
    filter_negatives: bool = setting(False, "Remove known facts from the negatives of a belief.", "training")
    entity_norm: str = setting(
        "free", "Constraint on entity vectors: none (free), length 1 (unit), or length at most 1 (ball).",
        "training", ("free", "unit", "ball"),
    )  # fmt: skip
    l2: float = setting(0.0, "L2 regularization of every vector that a belief's score uses.", "training", low=0)
    n3: float = setting(0.0, "N3 regularization of a belief's vectors (for distmult and complex).", "training", low=0)
    optimizer: str = setting(
        "adagrad", "Row-wise Adagrad, or plain SGD as in the paper.", "training", ("adagrad", "sgd")
    )
    learning_rate: float = setting(0.1, "Learning rate at the start.", "training", low=1e-12)
    schedule: str = setting(
        "linear", "Learning rate: linear decay to zero, or constant.", "training", ("linear", "constant")
    )
    batch_size: int = setting(
        0, "Beliefs per step. 0 = 512, or 1024 in margin ranking and for large data; few beliefs: at least 20 steps.",
        "training", low=0,
    )  # fmt: skip
    epochs: int = setting(
        0, "Passes over the training beliefs; a time budget replaces them. 0 = planned: 20 to 200, by their number.",
        "training", low=0,
    )  # fmt: skip
    partitions: int = setting(
        0, "Partitions that the entities are cut into, anew in every epoch; two are in memory at a time. 0 = no cut.",
        "training", low=0,
    )  # fmt: skip
    time_budget: float = setting(
        0.0, "Seconds of the whole run, calibration included; the schedule stretches to them. 0 = by epochs.",
        "training", low=0,
    )  # fmt: skip
    validation_fraction: float = setting(
        0.05, "Share of train held out for validation when there is no validation set.", "training", low=0
    )
    stop_on: str = setting(
        "auto",
        "Validation metric to stop on: filtered MRR of what the system answers (ranking) or of entities alone, "
        "classification accuracy, or error of the confidence. auto = confidence where it is fitted, else ranking.",
        "training", ("auto", "ranking", "entity", "accuracy", "confidence"),
    )  # fmt: skip
    validation_sample: int = setting(2000, "Validation beliefs evaluated at a time.", "training", low=1)
    validate_every: int = setting(
        0,
        "Epochs from one validation to the next. 0 = planned, so that validation is a tenth of the work at most.",
        "training",
        low=0,
    )
    patience: int = setting(
        5,
        "Validations in a row below the best one, by more than chance while the rate falls, before the run goes back "
        "to its best weights and cools down. 0 = never; a time budget turns it off.",
        "training",
        low=0,
    )
    seed: int = setting(0, "Seed of all randomness.", "training", low=0)

    decision_rule: str = setting(
        "product",
        "Score that a relation's threshold is applied to: the product of probabilities (Section 5.4), the same without "
        "Pr(r|h,t) (entities), Pr(t|h,r) alone (tail), D (score), or a logistic regression per relation on the "
        "entity probabilities and answer counts (learned).",
        "judging", ("product", "entities", "tail", "score", "learned"),
    )  # fmt: skip
    negatives_from: str = setting(
        "relation", "Negatives for unlabeled validation beliefs: entities seen in that slot of the relation, or all.",
        "judging", ("relation", "all"),
    )  # fmt: skip
    base_rate: float = setting(
        0.0, "Share of true beliefs that credence is stated for. 0 = as in validation.", "judging", low=0
    )

    cluster: str = setting("", "Ray cluster that trains partitions: local, auto, or ray://HOST:10001.", "running")
    storage: str = setting("", "Folder or fsspec URL of the partitions' files. By default the model folder.", "running")
    checkpoint_seconds: float = setting(60.0, "Seconds between checkpoints.", "running", low=0)
    workers: int = setting(
        1, "Training processes on shared tables; more than one is not exactly repeatable.", "running", low=1
    )
    threads: int = setting(
        0,
        "Threads of a single worker; training gives the same weights with any number. 0 = one per core, or "
        "OMP_NUM_THREADS; several workers and the tasks of a cluster have one each.",
        "running",
        low=0,
    )

    def __post_init__(self) -> None:
        check(self)
        if self.seed >= 2**63:
            raise UsageError(f"setting seed is {self.seed}; expected a number below 2^63")
        for name in ("base_rate", "validation_fraction"):
            if getattr(self, name) >= 1:
                raise UsageError(f"setting {name} is {getattr(self, name)}; expected a share below 1")
        softmax = self.estimator in ("sampled", "exact")
        if self.objective == "margin" and self.estimator != "auto":
            raise UsageError(
                f"objective=margin compares scores and has no use for estimator={self.estimator}",
                "leave the estimator out, or choose objective=likelihood",
            )
        if self.objective == "confidence" and softmax:
            raise UsageError(
                f"objective=confidence cannot use estimator={self.estimator}: a softmax cannot reach "
                "confidence 1 for one-to-many relations",
                "leave the estimator out, or set estimator=negative",
            )
        if self.mention_term == "separate" and not self.can_separate_words:
            raise UsageError(
                "mention_term=separate needs objective=likelihood and a softmax estimator: elsewhere Pr(r|m) is not an "
                "addend of its own",
                "leave mention_term out",
            )
        if not self.share_candidates and self.training_estimator != "negative":
            raise UsageError(
                f"share_candidates=false needs the negative estimator, not {self.training_estimator}",
                "set estimator=negative, or leave share_candidates out",
            )
        self._check_queries()
        if self.confidence == "label" and (self.objective != "likelihood" or softmax):
            other = f"estimator={self.estimator}" if self.objective == "likelihood" else f"objective={self.objective}"
            raise UsageError(
                f"confidence=label cannot go with {other}: soft labels belong to the likelihood's negative estimator",
                "leave one of the two out",
            )

    def _check_queries(self) -> None:
        """Refuse settings that do not go with training by queries."""
        if self.precision != "float32" and self.batch_by != "queries":
            raise UsageError(f"precision={self.precision} needs batch_by=queries", "leave precision out")
        if self.batch_by != "queries":
            return
        unfit = {
            "score": self.score not in ("auto", *PRODUCTS),
            "objective": self.objective != "likelihood",
            "estimator": self.estimator not in ("auto", "exact"),
            "confidence": self.confidence == "label",
            "mention_term": self.mentions and self.mention_term == "joint",
            "partitions": self.partitions > 0,
        }
        for name in (name for name, wrong in unfit.items() if wrong):
            raise UsageError(
                f"batch_by=queries cannot go with {name}={getattr(self, name)}", "leave one of the two out"
            )
        if not (self.head_weight or self.relation_weight or self.tail_weight):
            raise UsageError("batch_by=queries needs a term of the head, the relation or the tail", "leave it out")

    @property
    def training_estimator(self) -> str:
        """The estimator in force once `auto` is resolved."""
        if self.estimator != "auto":
            return self.estimator
        if self.objective == "margin":
            return "margin"
        if self.batch_by == "queries":
            return "exact"
        return "negative" if self.fits_confidence else "sampled"

    @property
    def fits_confidence(self) -> bool:
        """Whether training fits σ(D) to the confidence, by Eq. 5 or by soft labels."""
        return self.objective == "confidence" or self.confidence == "label"

    @property
    def can_separate_words(self) -> bool:
        """Whether log Pr(r|m) is an addend of the objective that can be maximized by itself."""
        return self.objective == "likelihood" and self.training_estimator in ("sampled", "exact")

    @property
    def marks_places(self) -> bool:
        """Whether words are marked by their place around the entities."""
        return self.mentions and self.mention_places and self.mention_term == "separate"

    @property
    def metric(self) -> str:
        """The validation metric once `auto` is resolved."""
        if self.stop_on != "auto":
            return self.stop_on
        return "confidence" if self.fits_confidence else "ranking"

    def is_named(self, name: str) -> bool:
        """Whether the setting was passed to `changed`, or has another value than its default: a race keeps it."""
        return name in self.named or getattr(self, name) != FIELDS[name].default

    def changed(self, **values: Any) -> Settings:
        """A copy with other values; names that are no settings become options of the score."""
        renamed = [name for name in values if name in RENAMED]
        if renamed:
            raise UsageError(f"setting {renamed[0]!r} is called {RENAMED[renamed[0]]!r} now")
        known = {name: value for name, value in values.items() if name in FIELDS}
        options = {name: value for name, value in values.items() if name not in FIELDS}
        options = {**self.score_options, **options}
        return replace(self, **{"score_options": options, "named": self.named | values.keys(), **known})

    def group(self, name: str) -> dict[str, Any]:
        """The settings of one group by name; the options of the score belong to the model."""
        values = {knob.name: getattr(self, knob.name) for knob in fields(self) if knob.metadata.get("group") == name}
        return values | (dict(self.score_options) if name == "model" else {})

    def as_dict(self) -> dict[str, Any]:
        """All values by name, the options of the score among them."""
        values = asdict(self)
        options: dict[str, Any] = values.pop("score_options")
        del values["named"]
        return values | options


def takes_settings(function: Function) -> Function:
    """Show every setting in the signature of a function that takes settings as keyword arguments."""
    shown = signature(function)
    named = [parameter for parameter in shown.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
    for name, value in Settings().as_dict().items():
        named.append(Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=type(value).__name__))
    function.__signature__ = shown.replace(parameters=named)  # type: ignore[attr-defined]
    return function


FIELDS: dict[str, Field[Any]] = {knob.name: knob for knob in fields(Settings) if knob.name != "named"}


def migrate(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of any version under today's names: saved models, TOMLs and result files are read through this."""
    migrated = {RENAMED.get(name, name): value for name, value in values.items()}
    if migrated.get("hidden") == 0:  # it stood for the score's default
        del migrated["hidden"]
    return {
        name: RENAMED_VALUES.get((name, value), value) if isinstance(value, str) else value
        for name, value in migrated.items()
    }


def read_toml(path: Path) -> dict[str, Any]:
    """The `[settings]` of a file such as `doxa tune` writes, under today's names."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise BadFile(f"cannot read settings from {path}: {fault}") from fault
    values = content.get("settings")
    if not isinstance(values, dict):
        raise BadFile(f"{path} has no [settings]", "put `name = value` lines below a line [settings]")
    return migrate(values)


def describe() -> list[tuple[str, str, str, str, str]]:
    """(group, name, default, choices, meaning) of every setting but the options of scores."""
    rows = [(knob.metadata["group"], *described(knob)) for knob in FIELDS.values() if knob.metadata]
    return sorted(rows, key=lambda row: GROUPS.index(row[0]))
