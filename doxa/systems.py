"""Systems: the recipes of the paper. Each is a score, an objective, a corruption and constraints under one name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError, did_you_mean
from doxa.pbe import PBE
from doxa.scores import SCORES, Mention
from doxa.scores.start import diffuse

Named = TypeVar("Named")

QUESTIONS = ("entity", "relation", "classification")
"""What can be asked: a missing entity, a missing relation, a verdict."""


@dataclass(frozen=True)
class System:
    """A recipe: the settings that make it, what it can answer, and who proposed it."""

    learnt_by: str
    reference: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[str, ...] = QUESTIONS

    @property
    def score(self) -> str:
        return str(self.settings.get("score", Settings.score))


def _ranking(score: str, **more: Any) -> dict[str, Any]:
    """Margin ranking of heads and tails, on which all but PBE and JRME are built; verdicts by the score itself."""
    terms = {"head_weight": 1.0, "tail_weight": 1.0, "relation_weight": 0.0, "mention_weight": 0.0, "mentions": False}
    return {
        "score": score,
        "objective": "margin",
        "scale": 1.0,
        "verdict": "score",
        "confidence": "ignore",
        **terms,
        **more,
    }


STEPS: dict[str, Any] = {"dimension": 100, "candidates": 256}
"""Sizes that suit the translations: ranking needs fewer comparisons than a softmax, and more steps."""

MATRICES: dict[str, Any] = {"dimension": 50, "candidates": 64}
"""Sizes that suit a matrix or more per relation."""

DEFINING = ("objective", "head_weight", "relation_weight", "tail_weight", "mention_weight")
"""Settings that make a system what it is: its objective, and the terms it does not have."""

SYSTEMS: dict[str, System] = {
    "pbe": System("likelihood", "Fan et al., 2015"),
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
        "ranking", "Bordes et al., 2013", _ranking("translation", **STEPS, margin=0.3, entity_norm="unit")
    ),
    "transm": System(
        "ranking", "Fan et al., 2014", _ranking("weighted_translation", **STEPS, margin=0.1, entity_norm="unit")
    ),
    "transh": System(
        "ranking, Bernoulli",
        "Wang et al., 2014",
        _ranking("hyperplane", **STEPS, margin=0.3, corruption="bernoulli", entity_norm="ball", orthogonality=0.1),
    ),
    "jrme": System(
        "ranking of relations",
        "Fan et al., 2015",
        {"objective": "margin", "scale": 1.0, "head_weight": 0.0, "tail_weight": 0.0, "confidence": "ignore"},
        answers=("relation",),
    ),
}


def recipe(values: Mapping[str, Any]) -> Settings:
    """The settings of the system named in `values`, with the other values in place of its own."""
    system = _named("system", values.get("system", Settings.system), SYSTEMS)
    return checked(Settings().changed(**{**system.settings, **values}))


def checked(settings: Settings) -> Settings:
    """The same settings, refused where names are unknown or contradict each other."""
    system = _named("system", settings.system, SYSTEMS)
    _named("score", settings.score, SCORES)
    if settings.system != "pbe" and settings.score != system.score:
        raise UsageError(
            f"system {settings.system} is built on the score {system.score}, not on {settings.score}",
            f"leave --score out, or stand PBE on it: --system pbe --score {settings.score}",
        )
    for name in DEFINING if settings.system != "pbe" else ():
        own, given = system.settings.get(name, getattr(Settings, name)), getattr(settings, name)
        if own != given and (own == 0 or name == "objective"):
            raise UsageError(
                f"system {settings.system} has {name}={own}, not {given}", "PBE may have any: --system pbe"
            )
    for name, meant, where in (
        ("margin", settings.objective == "margin", "objective=margin"),
        ("corruption", settings.objective == "margin", "objective=margin"),
        ("crowd", settings.objective != "confidence", "the objectives likelihood and margin"),
        ("orthogonality", settings.score == "hyperplane", "the score hyperplane"),
        ("hidden", settings.score in ("single_layer", "neural_tensor"), "the scores single_layer and neural_tensor"),
    ):
        if not meant and getattr(settings, name) != getattr(Settings, name):
            raise UsageError(f"setting {name} has a meaning only with {where}", f"leave {name} out")
    if settings.validate_by == "accuracy" and "classification" not in system.answers:
        raise UsageError(f"validate_by=accuracy needs verdicts, which {settings.system} cannot give")
    return settings


def answers(settings: Settings, words: bool = False) -> tuple[str, ...]:
    """The questions a model of these settings can answer; `words` says whether it has learnt from mentions."""
    known = SYSTEMS[settings.system].answers
    silent = not SCORES[settings.score].tells_relations and not words
    return tuple(question for question in known if not (silent and question == "relation"))


def why_not(settings: Settings, question: str, words: bool = False) -> str:
    """Why a model of these settings cannot answer a question; empty when it can."""
    if question in answers(settings, words):
        return ""
    if question == "relation":
        return f"{settings.system} scores all relations alike: {SCORES[settings.score].formula} does not depend on r"
    return f"{settings.system} learns to tell relations apart and nothing else; it ranks no entities and judges nothing"


def build(beliefs: Beliefs, settings: Settings, facts: TripleIndex | None = None) -> PBE:
    """An unlearnt model for these beliefs, its weights drawn from the seed alone; `facts` are theirs, if at hand."""
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
    if settings.diffusion:
        diffuse(pbe.score, facts, settings.diffusion)
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
    """The model of these sizes: PBE over the chosen score, with the mention term where there are words.

    Its numbers are drawn from the seed, or left undefined for those about to be loaded.
    """
    generator = torch.Generator().manual_seed(settings.seed) if draw else None
    score = _named("score", settings.score, SCORES)(entities, relations, settings, generator)
    mention = None
    if settings.mentions and words:
        without_vectors = 0 if "relation" in score.relation_tables else relations
        mention = Mention(words, settings.dimension, without_vectors, generator)
    return PBE(score, mention, seen_heads, seen_tails, settings.scale or score.default_scale)


def parameters(settings: Settings, entities: int, relations: int, words: int = 0) -> int:
    """How many numbers such a model learns, counted without making them."""
    nothing = torch.zeros(0, dtype=torch.int64)
    with torch.device("meta"):
        pbe = assemble(
            settings, entities=entities, relations=relations, words=words, seen_heads=nothing, seen_tails=nothing
        )
    return sum(parameter.numel() for parameter in pbe.parameters() if parameter.requires_grad)


def describe(entities: int, relations: int, dimension: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Every system and every score with its formula and its size, the dimension being each one's own when 0.

    The size is None where a score cannot have that dimension.
    """
    wished = {"dimension": dimension} if dimension else {}

    def size(settings: Settings) -> int | None:
        try:
            return parameters(settings, entities, relations)
        except UsageError:
            return None

    systems = []
    for name, system in SYSTEMS.items():
        settings = recipe({"system": name, **wished})
        about = {
            "formula": SCORES[system.score].formula,
            "learnt_by": system.learnt_by,
            "reference": system.reference,
        }
        systems.append(
            {"system": name, "score": system.score, **about, "answers": list(answers(settings))}
            | {"dimension": settings.dimension, "parameters": size(settings)}
        )
    scores: list[dict[str, Any]] = []
    for name, score in SCORES.items():
        settings = recipe({"score": name, **wished})
        own = {"dimension": settings.dimension, "parameters": size(settings)}
        scores.append({"score": name, "formula": score.formula, **own})
    return {"systems": systems, "scores": scores}


def _named(kind: str, name: str, among: Mapping[str, Named]) -> Named:
    if name not in among:
        raise UsageError(f"no {kind} {name!r}.{did_you_mean(name, among)}", "`doxa systems` lists them all")
    return among[name]
