"""Average: models of the same beliefs become one model, whose score is the mean of theirs.

    D(h, r, t) = 1/K Σ_k D_k(h, r, t)

A score that is a product is a sum over coordinates: vectors end to end have the sum of the scores, and the factor 1/K
goes into the scale. Errors that models of different seeds do not share cancel in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from doxa.curation.calibrate import calibrate
from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError
from doxa.model import Model
from doxa.pbe import PBE
from doxa.scores import Mention
from doxa.scores.base import VectorScore
from doxa.systems import assemble

TABLES = ("entity", "relation")


def average(models: Sequence[Model], valid: Any, strict: bool = False) -> Model:
    """One model whose score is the mean of the scores of these, judged by validation beliefs.

    The models differ in their seeds, and perhaps in dimension or regularization. They have the same training beliefs,
    score and scale; the score is complex or distmult. Words are those of the first model.
    """
    _check(models)
    first = models[0]
    settings = first.settings.changed(
        dimension=sum(model.pbe.score.dimension for model in models), scale=first.pbe.scale / len(models)
    )
    pbe = assemble(
        settings,
        entities=first.pbe.entities,
        relations=first.pbe.relations,
        words=len(first.vocabularies.words),
        seen_heads=first.pbe.seen_heads,
        seen_tails=first.pbe.seen_tails,
        draw=False,
    )
    state = dict(first.pbe.state_dict())
    for name in TABLES:
        tables = [model.pbe.get_parameter(f"score.{name}.weight").detach() for model in models]
        state[f"score.{name}.weight"] = _score(first.pbe).end_to_end(tables)
    pbe.load_state_dict(state, assign=True)
    pbe.count_loops(first.trained_facts)
    seeds = [model.settings.seed for model in models]
    origin = first.origin | {"averaged": len(models), "seeds": seeds}
    joined = replace(first, settings=settings, pbe=pbe.eval(), origin=origin, curve=(), index=None)
    return calibrate(joined, Beliefs.of(valid), strict)


def _score(pbe: PBE) -> VectorScore:
    assert isinstance(pbe.score, VectorScore)
    return pbe.score


def _check(models: Sequence[Model]) -> None:
    """Refuse models whose mean is no model of the same score."""
    if len(models) < 2:
        raise UsageError("an average needs at least two models")
    first = models[0]
    if first.pbe.score.entity_metric != "product":
        raise UsageError(
            f"models on the score {first.settings.score} cannot be averaged: vectors end to end do not add its scores",
            "average models on complex or distmult",
        )
    if isinstance(first.pbe.mention, Mention):
        raise UsageError("models with mention_term=joint cannot be averaged: words share the relation vectors")
    for number, model in enumerate(models[1:], start=2):
        names, others = first.vocabularies, model.vocabularies
        same = {
            "score": first.settings.score == model.settings.score,
            "scale": first.pbe.scale == model.pbe.scale,
            "training beliefs": first.origin.get("sha256") == model.origin.get("sha256"),
            "entities": names.entities.names.equals(others.entities.names),
            "relations": names.relations.names.equals(others.relations.names),
        }
        for what in (what for what, equal in same.items() if not equal):
            raise UsageError(
                f"model {number} has other {what} than the first",
                "average models of the same training file and the same validation file of 20 beliefs or more",
            )
