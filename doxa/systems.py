"""Systems: the recipes of the paper. Each is a score, an objective, a sampler and constraints under one name."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
import torch

from doxa.config import FIELDS, Settings, described, migrate, parse
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError, did_you_mean
from doxa.pbe import PBE
from doxa.scores import SCORES, Mention, SeparateMention
from doxa.scores.base import ScoreOptions, Sizes
from doxa.scores.start import smooth_over_graph

log = logging.getLogger(__name__)

Named = TypeVar("Named")

CAPABILITIES = ("entity", "relation", "classification")
"""What a system can answer: a missing entity, a missing relation, whether a belief is true."""

AUTO = "auto"
"""The score that training chooses by a race on validation beliefs, see `doxa.training.race`."""

RACED = ("translation", "rotate", "distmult", "complex")
"""Scores that may take part in a race."""

FIXED: tuple[dict[str, Any], ...] = (
    {"score": "complex", "n3": 0.03, "learning_rate": 0.4},
    {"score": "translation"},
)
"""Settings in place of a race where none can be run: the first that goes with the other settings.

Complex is for the likelihood with a softmax alone. n3 = 0.03 is best or second best on small dense graphs (kinships,
umls, nations), and few validation beliefs mean few beliefs.
"""

LIST_SETTINGS = "doxa.config.describe() lists them all"


@dataclass(frozen=True)
class System:
    """A recipe: the settings that make it, what it can answer, and who proposed it.

    `fixed` are settings that cannot have other values than those of the recipe.
    """

    trained_by: str
    reference: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[str, ...] = CAPABILITIES
    fixed: tuple[str, ...] = ()

    @property
    def score(self) -> str:
        return str(self.settings.get("score", AUTO))


def _ranking(score: str, **more: Any) -> dict[str, Any]:
    """Margin ranking of heads and tails, the base of all systems but PBE and JRME; the score itself decides."""
    terms = {"head_weight": 1.0, "tail_weight": 1.0, "relation_weight": 0.0, "mention_weight": 0.0, "mentions": False}
    rules = {"objective": "margin", "scale": 1.0, "decision_rule": "score", "confidence": "ignore"}
    return {"score": score, **rules, **terms, **more}


TRANSLATIONS: dict[str, Any] = {"dimension": 100, "num_candidates": 256}
"""Sizes that suit the translations: ranking needs fewer comparisons than a softmax, and more steps."""

MATRICES: dict[str, Any] = {"dimension": 50, "num_candidates": 64}
"""Sizes that suit a matrix or more per relation."""

DEFINING = ("objective", "head_weight", "relation_weight", "tail_weight", "mention_weight")
"""Settings that define a system: its objective, and the terms it does not have."""

LITERAL: dict[str, Any] = {
    "score": "translation",
    "scale": 1.0,
    "mention_term": "joint",
    "estimator": "negative",
    "share_candidates": False,
    "optimizer": "sgd",
    "entity_norm": "free",
    "confidence": "ignore",
}
"""The algorithm as the paper has it: Eqs 7, 11 and 13–18, k negatives drawn for each belief, SGD."""

NO_EXTRAS = (
    "head_weight", "relation_weight", "tail_weight", "mention_weight", "n3", "l2", "max_answers", "graph_smoothing",
    "filter_negatives",
)  # fmt: skip
"""Settings beyond the paper, which have their defaults in its algorithm."""

SYSTEMS: dict[str, System] = {
    "pbe": System("likelihood", "Fan et al., 2015"),
    "pbe-paper": System(
        "likelihood, negative sampling, SGD",
        "Fan et al., 2015",
        {**LITERAL, "dimension": 100, "learning_rate": 0.5, "alpha": 10.0, "epsilon": 1e-20, "eta": 1e-20},
        fixed=(*LITERAL, *NO_EXTRAS),
    ),
    "unstructured": System(
        "ranking", "Bordes et al., 2012", _ranking("unstructured"), answers=("entity", "classification")
    ),
    "se": System("ranking", "Bordes et al., 2011", _ranking("structured", **MATRICES, entity_norm="unit")),
    "slm": System("ranking", "Socher et al., 2013", _ranking("single_layer", **MATRICES, l2=1e-4)),
    "bilinear": System(
        "ranking", "Nickel et al., 2011; Jenatton et al., 2012", _ranking("bilinear", **MATRICES, l2=1e-4)
    ),
    "ntn": System("ranking", "Socher et al., 2013", _ranking("neural_tensor", **MATRICES, l2=1e-4)),
    "transe": System(
        "ranking", "Bordes et al., 2013", _ranking("translation", **TRANSLATIONS, margin=0.3, entity_norm="unit")
    ),
    "transm": System(
        "ranking", "Fan et al., 2014", _ranking("weighted_translation", **TRANSLATIONS, margin=0.1, entity_norm="unit")
    ),
    "transh": System(
        "ranking, Bernoulli",
        "Wang et al., 2014",
        _ranking(
            "hyperplane", **TRANSLATIONS, margin=0.3, corruption="bernoulli", entity_norm="ball", orthogonality=0.1
        ),
    ),
    "jrme": System(
        "ranking of relations",
        "Fan et al., 2015",
        {
            "score": "translation",
            "objective": "margin",
            "scale": 1.0,
            "head_weight": 0.0,
            "tail_weight": 0.0,
            "confidence": "ignore",
        },
        answers=("relation",),
    ),
}


def recipe(values: Mapping[str, Any]) -> Settings:
    """The settings of the system named in `values`, with the other values in place of its own."""
    system = _named("system", values.get("system", Settings.system), SYSTEMS)
    if values.get("score") == AUTO:
        values = {**values, "score": system.score}
    return checked(Settings().changed(**{**system.settings, **values}))


def checked(settings: Settings) -> Settings:
    """The same settings, refused where names are unknown or contradict each other."""
    system = _named("system", settings.system, SYSTEMS)
    if settings.score != AUTO:
        _named("score", settings.score, SCORES)
    if settings.system != "pbe" and settings.score != system.score:
        raise UsageError(
            f"system {settings.system} is built on the score {system.score}, not on {settings.score}",
            f"leave the score out, or use it with system pbe (score={settings.score})",
        )
    score_options(settings)
    _check_recipe(settings, system)
    for name, meant, where in (
        ("margin", settings.objective == "margin", "objective=margin"),
        ("corruption", settings.objective == "margin", "objective=margin"),
        ("max_answers", settings.objective != "confidence", "the objectives likelihood and margin"),
    ):
        if not meant and getattr(settings, name) != getattr(Settings, name):
            raise UsageError(f"setting {name} has a meaning only with {where}", f"leave {name} out")
    if settings.stop_on == "accuracy" and "classification" not in system.answers:
        raise UsageError(f"stop_on=accuracy needs classification, which {settings.system} cannot do")
    return settings


def _check_recipe(settings: Settings, system: System) -> None:
    """Refuse values that would make another system of it; system pbe may have any."""
    if settings.system == "pbe":
        return
    for name in dict.fromkeys((*DEFINING, *system.fixed)):
        value, chosen = system.settings.get(name, getattr(Settings, name)), getattr(settings, name)
        fits_confidence = name == "objective" and (value, chosen) == ("likelihood", "confidence")  # Eqs 4 and 5
        defines = value == 0 or name == "objective" or name in system.fixed
        if value != chosen and defines and not fits_confidence:
            raise UsageError(f"system {settings.system} has {name}={value}, not {chosen}", "system pbe may have any")


def score_options(settings: Settings) -> ScoreOptions:
    """The options of the score that the settings name; unknown ones are refused with a suggestion."""
    kinds = [SCORES[score].Options for score in (RACED if settings.score == AUTO else (settings.score,))]
    names = [option.name for kind in kinds for option in fields(kind)]
    for name in settings.score_options:
        if name in names:
            continue
        scores = [score for score, other in SCORES.items() if name in (option.name for option in fields(other.Options))]
        if scores:
            raise UsageError(
                f"setting {name} has a meaning only with the score{'s'[: len(scores) > 1]} {', '.join(scores)}",
                f"leave {name} out",
            )
        suggestion = did_you_mean(name, [*FIELDS, *names])
        raise UsageError(f"no setting {name!r}.{suggestion}", LIST_SETTINGS, remedy="list_settings")
    if settings.score != AUTO:
        return kinds[0](**settings.score_options)
    for kind in kinds:  # the values, too, must be of their kind
        kind(**{name: value for name, value in settings.score_options.items() if name in kind.__dataclass_fields__})
    return ScoreOptions()


def combined(settings: Settings, values: Mapping[str, Any]) -> Settings | None:
    """Settings with these values, except where a setting was named; None if they do not go together.

    A score may lack an option that was named, or need an even dimension.
    """
    free = {name: value for name, value in values.items() if name == "score" or not settings.is_named(name)}
    try:
        together = settings.changed(**free)
        parameters(together, 1, 1)
    except UsageError:
        return None
    return together


def without_race(settings: Settings) -> Settings:
    """The settings, their score fixed where it is still to be chosen, as if no race could be run."""
    if settings.score != AUTO:
        return settings
    softmax = settings.training_estimator in ("sampled", "exact")
    others: list[dict[str, Any]] = [{"score": score} for score in RACED]
    for values in (*FIXED[0 if softmax else 1 :], *others):
        together = combined(settings, values)
        if together is not None:
            return together
    raise UsageError("no score goes with these settings", "name a score", remedy="list_systems")


def from_saved(values: Mapping[str, Any]) -> Settings:
    """Settings read back from a saved model, of this version or an earlier one.

    Options of other scores are dropped; a setting that this version does not know is dropped with a notice.
    """
    migrated = migrate(values)
    score = _named("score", str(migrated.get("score", "translation")), SCORES)
    known = {*FIELDS, *(option.name for option in fields(score.Options))}
    unknown = [name for name in migrated if name not in known and name not in option_fields()]
    if unknown:
        log.warning("ignoring settings that this version does not know: %s", ", ".join(sorted(unknown)))
    saved = {name: value for name, value in migrated.items() if name in known}
    return Settings().changed(**({"score": "translation"} | saved))


def option_fields() -> dict[str, Field[Any]]:
    """The options of all scores by name."""
    return {option.name: option for score in SCORES.values() for option in fields(score.Options)}


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """`["dimension=50", "norm=1"]` → `{"dimension": 50, "norm": 1}`, each value in its setting's type."""
    known = option_fields() | {name: knob for name, knob in FIELDS.items() if knob.metadata}
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise UsageError(f"a setting is name=value, not {assignment!r}")
        if name not in known:
            Settings().changed(**{name: text})  # says what an earlier name is called now
            message = f"no setting {name!r}.{did_you_mean(name, known)}"
            raise UsageError(message, LIST_SETTINGS, remedy="list_settings")
        values[name] = parse(known[name], text)
    return values


def describe_options() -> list[tuple[str, str, str, str, str]]:
    """(scores, name, default, choices, meaning) of every option of a score."""
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for name, score in SCORES.items():
        for option in fields(score.Options):
            rows.setdefault(described(option), []).append(name)
    return [(", ".join(scores), *row) for row, scores in rows.items()]


def answers(settings: Settings, words: bool = False) -> tuple[str, ...]:
    """The tasks that a model of these settings can do; `words` says whether it was trained on mentions."""
    blind = settings.score != AUTO and not SCORES[settings.score].tells_relations and not words
    return tuple(task for task in SYSTEMS[settings.system].answers if not (blind and task == "relation"))


def why_not(settings: Settings, task: str, words: bool = False) -> str:
    """Why a model of these settings cannot do a task; empty when it can."""
    if task in answers(settings, words):
        return ""
    if task == "relation":
        return f"{settings.system} scores all relations alike: {SCORES[settings.score].formula} does not depend on r"
    return f"{settings.system} predicts relations alone; it neither ranks entities nor judges beliefs"


def build(beliefs: Beliefs, settings: Settings, facts: TripleIndex | None = None) -> PBE:
    """An untrained model for these beliefs, its weights drawn from the seed alone; `facts` are theirs, if at hand."""
    entities, relations = len(beliefs.vocabularies.entities), len(beliefs.vocabularies.relations)
    pbe = assemble(
        settings,
        entities=entities,
        relations=relations,
        words=len(beliefs.vocabularies.words),
        seen_heads=torch.from_numpy(np.unique(beliefs.head)),
        seen_tails=torch.from_numpy(np.unique(beliefs.tail)),
    )
    facts = facts or TripleIndex(beliefs.triples, entities, relations)
    pbe.score.prepare(facts)
    pbe.count_loops(facts)
    if settings.graph_smoothing:
        smooth_over_graph(pbe.score, facts, settings.graph_smoothing)
    return pbe


def assemble(
    settings: Settings,
    *,
    entities: int,
    relations: int,
    words: int,
    seen_heads: torch.Tensor,
    seen_tails: torch.Tensor,
    draw: bool = True,
) -> PBE:
    """A model of these sizes: PBE over the chosen score, with the mention term where there are words.

    Its weights are drawn from the seed, or stay undefined (`draw=False`) until they are loaded.
    """
    if settings.score == AUTO:
        raise UsageError("score=auto is chosen by training and cannot be built", "name a score", remedy="list_systems")
    generator = torch.Generator().manual_seed(settings.seed) if draw else None
    options = score_options(settings)
    score = SCORES[settings.score](Sizes(entities, relations, settings.dimension), options, generator)
    if settings.training_estimator != "negative":  # a softmax does not depend on α: training would follow rounding
        score.freeze_bias()
    mention: Mention | SeparateMention | None = None
    if settings.mentions and words and settings.mention_term == "separate":
        mention = SeparateMention(words, relations)
    elif settings.mentions and words:
        vectors = 0 if "relation" in score.relation_tables else relations
        mention = Mention(words, settings.dimension, vectors, generator)
    return PBE(score, mention, seen_heads, seen_tails, settings.scale or score.default_scale)


def parameters(settings: Settings, entities: int, relations: int, words: int = 0) -> int:
    """The number of trained parameters of such a model, counted without allocating them."""
    settings = without_race(settings)
    nothing = torch.zeros(0, dtype=torch.int64)
    with torch.device("meta"):
        sizes = {"entities": entities, "relations": relations, "words": words}
        # drawing on this device would load torch's compiler, which takes seconds
        pbe = assemble(settings, **sizes, seen_heads=nothing, seen_tails=nothing, draw=False)
    words_apart = set(pbe.mention.parameters()) if isinstance(pbe.mention, SeparateMention) else set()
    return sum(p.numel() for p in pbe.parameters() if p.requires_grad or p in words_apart)


def describe(entities: int = 1, relations: int = 1, dimension: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Every system and every score with its formula and its size; 0 stands for the default dimension of each.

    The size is None where a score cannot have that dimension.
    """
    chosen = {"dimension": dimension} if dimension else {}

    def size(settings: Settings) -> int | None:
        try:
            return parameters(settings, entities, relations)
        except UsageError:
            return None

    systems = []
    for name, system in SYSTEMS.items():
        settings = recipe({"system": name, **chosen})
        about = {
            "formula": SCORES[system.score].formula if system.score != AUTO else f"best of {', '.join(RACED)}",
            "trained_by": system.trained_by,
            "reference": system.reference,
        }
        systems.append(
            {"system": name, "score": system.score, **about, "answers": list(answers(settings))}
            | {"dimension": settings.dimension, "parameters": size(settings)}
        )
    scores: list[dict[str, Any]] = []
    for name, score in SCORES.items():
        settings = recipe({"score": name, **chosen})
        sizes = {"dimension": settings.dimension, "parameters": size(settings)}
        scores.append({"score": name, "formula": score.formula, **sizes})
    return {"systems": systems, "scores": scores}


def _named(kind: str, name: str, known: Mapping[str, Named]) -> Named:
    if name not in known:
        hint = "doxa.systems.describe() lists them all"
        raise UsageError(f"no {kind} {name!r}.{did_you_mean(name, known)}", hint, remedy="list_systems")
    return known[name]
