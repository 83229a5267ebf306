"""Settings: every knob of a training run, declared once.

The command line (`--set name=value`), the saved model and docs/settings.md all read this one class.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from doxa.errors import DoxaError, UsageError, did_you_mean


def _setting(default: Any, about: str, choices: tuple[Any, ...] = (), low: float | None = None) -> Any:
    return field(default=default, metadata={"about": about, "choices": choices, "low": low})


@dataclass(frozen=True)
class Settings:
    """How a model is built and learnt. Frozen: use `replace` to vary it."""

    system: str = _setting(
        "pbe", "recipe: score, objective, corruption and constraints together; `doxa systems` lists them"
    )
    score: str = _setting("translation", "D(h, r, t), the plausibility of a triple; `doxa systems` lists them")
    dimension: int = _setting(200, "length of the vectors of entities, relations and words", low=1)
    hidden: int = _setting(
        0, "units of the single_layer score, slices of neural_tensor; 0 = the score's own: 50 and 4", low=0
    )
    diffusion: int = _setting(
        0,
        "steps by which entity vectors are averaged along the graph before learning; about 64 on sparse graphs",
        low=0,
    )
    norm: int = _setting(2, "distance of the translation scores: L1 or L2", (1, 2))
    alpha: float = _setting(4.0, "bias α of Eq. 7; cancels in softmaxes, decides in logistic estimates")
    learn_alpha: bool = _setting(True, "learn α where it matters, with the negative estimator (else it stays as given)")
    scale: float = _setting(
        0.0,
        "factor on the score inside probabilities (1 in the paper); 0 = the score's own, 4 or 1",
        low=0,
    )
    mentions: bool = _setting(True, "learn from the words of mentions where there are any (Eqs 11, 12)")

    objective: str = _setting(
        "likelihood",
        "likelihood (Eq. 4), fit of the given confidence (Eq. 5), or margin ranking as in the earlier systems",
        ("likelihood", "confidence", "margin"),
    )
    confidence: str = _setting(
        "weight",
        "what confidence is in the likelihood: a belief's weight (in margin ranking too), the share of it that is true "
        "(label, with the negative estimator), or nothing",
        ("weight", "label", "ignore"),
    )
    estimator: str = _setting(
        "auto",
        "training softmaxes: sampled candidates, negative sampling (Eqs 13–18) or exact; "
        "auto is negative where confidence is fitted (Eq. 5, or as label), else sampled",
        ("auto", "sampled", "negative", "exact"),
    )
    candidates: int = _setting(0, "candidates drawn per term and shared by a batch; 0 = 512, or all there are", low=0)
    negatives: int = _setting(10, "k of Eqs 13–16: weight of the negatives (estimator negative)", low=1)
    epsilon: float = _setting(1e-6, "floor ε inside the logarithm of Eq. 17", low=0)
    eta: float = _setting(1e-6, "floor η inside the logarithm of Eq. 18", low=0)
    head_weight: float = _setting(1.0, "weight of log Pr(h|r,t) in the objective", low=0)
    relation_weight: float = _setting(1.0, "weight of log Pr(r|h,t) in the objective", low=0)
    tail_weight: float = _setting(1.0, "weight of log Pr(t|h,r) in the objective", low=0)
    mention_weight: float = _setting(1.0, "weight of log Pr(r|m) in the objective", low=0)
    margin: float = _setting(1.0, "γ of margin ranking: how far above a falsehood a truth should score", low=0)
    corruption: str = _setting(
        "uniform",
        "margin ranking: head and tail are corrupted equally, or the side with fewer answers more often (Bernoulli)",
        ("uniform", "bernoulli"),
    )
    crowd: int = _setting(
        0,
        "a head or tail asked for with more answers in train than this counts as if it had just so many; 0 = all alike",
        low=0,
    )
    avoid_known: bool = _setting(False, "never hold a known fact against a belief when its candidates include one")
    entity_norm: str = _setting(
        "free",
        "entity vectors: free, of length 1 (unit), or of length at most 1 (ball)",
        ("free", "unit", "ball"),
    )
    orthogonality: float = _setting(0.0, "penalty on hyperplanes not at right angles to their steps (TransH)", low=0)
    l2: float = _setting(0.0, "penalty on squared sizes of all that a belief's score is made of", low=0)
    n3: float = _setting(
        0.0, "penalty on cubed sizes of the vectors of a belief (for products: distmult, complex)", low=0
    )

    optimizer: str = _setting("adagrad", "row-wise Adagrad, or plain SGD as in the paper", ("adagrad", "sgd"))
    learning_rate: float = _setting(0.1, "step size at the start", low=1e-12)
    schedule: str = _setting("linear", "learning rate: linear fall to zero, or constant", ("linear", "constant"))
    batch: int = _setting(
        0,
        "beliefs per step; 0 = 512 (1024 in margin ranking), fewer where an epoch would have less than 20 steps",
        low=0,
    )
    epochs: int = _setting(30, "passes over the beliefs (a time budget replaces it)", low=1)
    time_budget: float = _setting(0.0, "seconds of training; the schedule stretches to it; 0 = by epochs", low=0)

    holdout: float = _setting(0.05, "share of train kept for validation when no validation set is given", low=0)
    validate_by: str = _setting(
        "auto",
        "quality to stop on: filtered MRR of what the system answers, accuracy of verdicts, or error of confidence; "
        "auto is the last where confidence is fitted (Eq. 5, or as label), else the first",
        ("auto", "ranking", "accuracy", "confidence"),
    )
    validation_sample: int = _setting(2000, "validation beliefs ranked after every epoch", low=1)
    patience: int = _setting(
        5, "epochs without progress before stopping; 0 = never, and none under a time budget", low=0
    )
    verdict: str = _setting(
        "product",
        "what is held against a relation's threshold: the product of probabilities (Section 5.4), the same without "
        "Pr(r|h,t) (entities), Pr(t|h,r) alone, D, or both probabilities of entities and how many answers are known "
        "already, weighed for each relation as validation shows",
        ("product", "entities", "tail", "score", "weighed"),
    )
    falsehoods: str = _setting(
        "relation",
        "falsehoods made of unlabeled validation beliefs: an entity replaced by one seen there with the relation, "
        "or by any at all",
        ("relation", "all"),
    )
    base_rate: float = _setting(
        0.0, "share of truths among beliefs to be judged, which credence is stated for; 0 = as in validation", low=0
    )
    checkpoint_seconds: float = _setting(60.0, "seconds between checkpoints", low=0)
    seed: int = _setting(0, "the one seed all randomness is spawned from", low=0)
    workers: int = _setting(1, "processes that learn side by side; more than one is not exactly repeatable", low=1)
    threads: int = _setting(0, "threads of a single worker, 0 = one per core; several workers have one each", low=0)

    def __post_init__(self) -> None:
        for knob in fields(self):
            _check(knob, getattr(self, knob.name))
        if self.seed >= 2**63:
            raise UsageError(f"setting seed is {self.seed}; expected a number below 2^63")
        if self.base_rate >= 1:
            raise UsageError(f"setting base_rate is {self.base_rate}; expected a share below 1")
        if self.holdout >= 1:
            raise UsageError(f"setting holdout is {self.holdout}; expected a share below 1")
        if self.objective == "margin" and self.estimator != "auto":
            raise UsageError(
                f"objective=margin compares scores and has no use for estimator={self.estimator}",
                "leave the estimator out, or choose objective=likelihood",
            )
        if self.objective == "confidence" and self.estimator in ("sampled", "exact"):
            raise UsageError(
                f"objective=confidence cannot use estimator={self.estimator}: a softmax cannot reach "
                "confidence 1 for one-to-many relations",
                "leave the estimator out, or set estimator=negative",
            )

        if self.confidence == "label" and (self.objective != "likelihood" or self.estimator in ("sampled", "exact")):
            other = f"estimator={self.estimator}" if self.objective == "likelihood" else f"objective={self.objective}"
            raise UsageError(
                f"confidence=label cannot go with {other}: it is a way of the negative estimator of the likelihood",
                "leave one of the two out",
            )

    @property
    def training_estimator(self) -> str:
        """The estimator in force once `auto` is resolved."""
        if self.estimator != "auto":
            return self.estimator
        if self.objective == "margin":
            return "margin"
        return "negative" if self.fits_confidence else "sampled"

    @property
    def fits_confidence(self) -> bool:
        """Whether σ(D) is made to come near the confidence given, by Eq. 5 or by labels."""
        return self.objective == "confidence" or self.confidence == "label"

    @property
    def quality(self) -> str:
        """What validation looks at once `auto` is resolved."""
        if self.validate_by != "auto":
            return self.validate_by
        return "confidence" if self.fits_confidence else "ranking"

    @property
    def learns_alpha(self) -> bool:
        """Softmaxes do not depend on α: learning it there would only follow rounding errors."""
        return self.learn_alpha and self.training_estimator == "negative"

    def changed(self, **values: Any) -> Settings:
        """These settings with some replaced; unknown names are refused with a suggestion."""
        for name in values:
            _knob(name)
        return replace(self, **values)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """`["dimension=50", "norm=1"]` → `{"dimension": 50, "norm": 1}`, each value in its setting's type."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise UsageError(f"--set takes name=value, not {assignment!r}")
        knob = _knob(name.strip())
        values[knob.name] = _parse(knob, text.strip())
    return values


def read_toml(path: Path) -> dict[str, Any]:
    """The `[settings]` of a file such as `doxa tune` writes."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise DoxaError(f"cannot read settings from {path}: {fault}") from fault
    values = found.get("settings")
    if not isinstance(values, dict):
        raise DoxaError(f"{path} has no [settings]", "put `name = value` lines below a line [settings]")
    return {_knob(name).name: value for name, value in values.items()}


def from_dict(values: Mapping[str, Any]) -> Settings:
    """Settings read back from a saved model; names this version does not know are refused."""
    return Settings().changed(**values)


def describe() -> list[tuple[str, str, str, str]]:
    """(name, default, choices, meaning) of every setting, for help texts and docs."""
    return [
        (
            knob.name,
            str(knob.default),
            " · ".join(str(choice) for choice in knob.metadata["choices"]),
            knob.metadata["about"],
        )
        for knob in fields(Settings)
    ]


def as_markdown() -> str:
    """The page docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Every knob of a training run: `doxa train … --set name=value`, or a keyword of `doxa.fit`.",
        "This page is made by `make docs` from the one class that declares them.",
        "",
        "| setting | default | choices | meaning |",
        "|---|---|---|---|",
    ]
    cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in describe()]
    return "\n".join([*lines, *(f"| {row} |" for row in cells)]) + "\n"


def _knob(name: str) -> Field[Any]:
    for knob in fields(Settings):
        if knob.name == name:
            return knob
    names = [knob.name for knob in fields(Settings)]
    raise UsageError(f"no setting {name!r}.{did_you_mean(name, names)}", "`doxa settings` lists them all")


def _parse(knob: Field[Any], text: str) -> Any:
    kind: Any = type(knob.default)
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() in words:
            return words[text.lower()]
        raise UsageError(f"setting {knob.name}={text!r}; expected true or false")
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"setting {knob.name}={text!r}; expected {_kind_name(kind)}") from None


def _check(knob: Field[Any], value: Any) -> None:
    kind = type(knob.default)
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"setting {knob.name} is {value!r}; expected {_kind_name(kind)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"setting {knob.name} is {value}; expected a finite number")
    choices, low = knob.metadata["choices"], knob.metadata["low"]
    if choices and value not in choices:
        raise UsageError(
            f"setting {knob.name} is {value!r}; expected one of {', '.join(str(choice) for choice in choices)}"
        )
    if low is not None and not value >= low:
        raise UsageError(f"setting {knob.name} is {value}; expected at least {low:g}")


def _kind_name(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}[kind]
