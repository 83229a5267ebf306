"""Average: models of the same beliefs become one model with the mean of their scores.

    D(h, r, t) = 1/K Σ_k D_k(h, r, t)

A score that is a product is a sum over coordinates: vectors end to end have the sum of the scores, and the factor 1/K
goes into the scale. Errors that models of different seeds do not share cancel in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

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
    """One model whose score is the mean score of the models, judged by validation beliefs.

    The models differ in their seeds, and perhaps in dimension or regularization. They have the same training beliefs,
    score and scale; the score is complex or distmult. Words and other settings are the first model's.

    The derivative by a vector is 1/K of what it was. So is the regularization, for updates of the mean.
    """
    models = list(models)
    _check(models)
    first, count = models[0], len(models)
    settings = first.settings.changed(
        dimension=sum(model.pbe.score.dimension for model in models),
        scale=first.pbe.scale / count,
        n3=first.settings.n3 / count,
        l2=first.settings.l2 / count,
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
    state = {name: tensor.clone() for name, tensor in first.pbe.state_dict().items()}
    for name in TABLES:
        tables = [model.pbe.get_parameter(f"score.{name}.weight").detach() for model in models]
        state[f"score.{name}.weight"] = _score(first.pbe).end_to_end(tables)
    pbe.load_state_dict(state, assign=True)
    pbe.count_loops(first.trained_facts)
    origin = {name: value for name, value in first.origin.items() if name not in ("race", "updates")} | {
        "averaged": count,
        "seeds": [model.settings.seed for model in models],
        "seconds": round(sum(model.origin["seconds"] for model in models), 3),
        "interrupted": any(model.origin["interrupted"] for model in models),
    }
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
            "entities": names.entities.names.equals(others.entities.names),
            "relations": names.relations.names.equals(others.relations.names),
            "training beliefs": np.array_equal(first.train, model.train),
        }
        for what in (what for what, equal in same.items() if not equal):
            hint = "" if what in ("score", "scale") else " and the same validation file of 20 beliefs or more"
            raise UsageError(
                f"model {number} has other {what} than the first", f"average models of the same training file{hint}"
            )
