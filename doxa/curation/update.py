"""Updating: new beliefs learnt and old ones retracted without training anew.

The vectors of new names, which start among like ones, and those of every entity and relation the new beliefs touch are
fitted to the new beliefs and a sample of the old ones that share one of them, so that what was known is not forgotten.
All other rows stay as they are to the bit. A retracted belief leaves the known facts, and its entities are moved until
Pr(h|r,t) and Pr(t|h,r) of it are no longer likely:

    − log (1 − Pr(h|r,t)) − log (1 − Pr(t|h,r))

Adagrad's memory of past gradients, which a model does not keep, is made again from the gradients of old beliefs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.calibration.judge import decision_rule
from doxa.curation.bare import bare
from doxa.curation.fold_in import Refit, rows_from, with_room
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.errors import DoxaError, UsageError
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.inference import ask, judge
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS

EPOCHS, REPLAY = 5, 7
"""Passes over the new beliefs, and old beliefs beside each new one in every pass."""

PACE = 8.0
"""How fast what is known already moves on, as if so much less had been learnt of it: its sums of squares are divided
by the square of this."""

WARMING = 40
"""Batches of old beliefs from which the memory of past gradients is made."""

UNLEARNT = 64
"""Retracted beliefs a step unlearns at most."""

SAMPLE = 500
"""Old beliefs by which drift is measured."""


@dataclass(frozen=True)
class Drift:
    """How far old answers moved: mean change of credence, share of best tails that stayed, filtered MRR before and
    after, all over a sample of old beliefs; and the mean credence of what was retracted, before and after."""

    credence: float
    same_answer: float
    mrr_before: float
    mrr_after: float
    retracted_before: float | None
    retracted_after: float | None

    def __str__(self) -> str:
        said = (
            f"old beliefs: credence moved by {self.credence:.3f} on average, {self.same_answer:.1%} of best answers "
            f"stayed, filtered MRR {self.mrr_before:.3f} → {self.mrr_after:.3f}"
        )
        if self.retracted_before is not None:
            said += f"\nretracted beliefs: mean credence {self.retracted_before:.3f} → {self.retracted_after:.3f}"
        return said


@dataclass(frozen=True, eq=False)
class Updated:
    """The new model, how far old answers drifted, and what was done, as plain data."""

    model: Model
    drift: Drift
    done: dict[str, Any]


def update(
    model: Model,
    new: Beliefs | None = None,
    retracted: Beliefs | None = None,
    labels: Beliefs | None = None,
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    report: Callable[[float, str], None] | None = None,
) -> Updated:
    """A model that has learnt the new beliefs and unlearnt the retracted ones; the given one stays as it is.

    `labels`, beliefs labeled true and false, serve to calibrate credence and set thresholds anew.
    """
    began = time.monotonic()
    if new is None and retracted is None and labels is None:
        raise UsageError("nothing to update with: neither new beliefs, nor retracted ones, nor labels")
    if labels is not None and labels.label is None:
        raise UsageError("the labels have no column label; expected 1 (true) or -1 (false)")
    nothing = bare(model.vocabularies, np.zeros((0, 3), np.int64))
    grown, told = with_room(model, nothing if new is None else new.positives(), seed=seed)
    gone = _known(model, nothing if retracted is None else retracted, grown)
    grown = _without(grown, gone)
    sample = _sample(model, gone.triples, seed)
    before = _answers(model, sample, grown)
    was_credible = judge(model, gone.encode(model.vocabularies)).credence if len(gone) else None
    if len(told) or len(gone):
        _learn(model, grown, told, gone, epochs, seed, report or (lambda fraction, state: None))
    if labels is not None:
        grown = _recalibrated(grown, labels)
    after = _answers(grown, sample, grown)
    drift = Drift(
        credence=float(np.abs(after.credence - before.credence).mean()),
        same_answer=float(np.mean([a == b for a, b in zip(before.best, after.best, strict=True)])),
        mrr_before=before.mrr,
        mrr_after=after.mrr,
        retracted_before=None if was_credible is None else float(was_credible.mean()),
        retracted_after=None if was_credible is None else float(judge(grown, gone).credence.mean()),
    )
    done = {
        "beliefs": len(told),
        "retracted": len(gone),
        "labels": 0 if labels is None else len(labels),
        "new_entities": len(grown.vocabularies.entities) - len(model.vocabularies.entities),
        "new_relations": len(grown.vocabularies.relations) - len(model.vocabularies.relations),
        "new_words": len(grown.vocabularies.words) - len(model.vocabularies.words),
        "seconds": round(time.monotonic() - began, 3),
    }
    content = str(model.origin.get("sha256", "")) + told.checksum() + gone.checksum()
    origin = model.origin | {
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "updates": [*model.origin.get("updates", []), done],
    }
    return Updated(replace(grown, origin=origin), drift, done)


def _known(model: Model, retracted: Beliefs, grown: Model) -> Beliefs:
    """The retracted beliefs, which must all be known."""
    gone = retracted.encode(model.vocabularies)
    known = model.known.contains(gone.head, gone.relation, gone.tail)
    if not known.all():
        place = int(np.argmin(known))
        entities, relations = retracted.vocabularies.entities, retracted.vocabularies.relations
        said = f"{entities[retracted.head[place]]} · {relations[retracted.relation[place]]} · "
        said += entities[retracted.tail[place]]
        raise DoxaError(
            f"{(~known).sum():,} of {len(known):,} beliefs to retract are not known to the model, the first: {said}",
            "take them out of the file",
        )
    return retracted.encode(grown.vocabularies)


def _without(grown: Model, gone: Beliefs) -> Model:
    """The model with the retracted beliefs no longer among its facts."""
    if not len(gone):
        return grown
    retracted = TripleIndex(gone.triples, len(grown.vocabularies.entities), len(grown.vocabularies.relations))
    kept = [~retracted.contains(*part.T) for part in (grown.train, grown.valid)]
    known = grown.known_confidence
    confidence = known[np.concatenate(kept)] if len(known) else known
    return replace(grown, train=grown.train[kept[0]], valid=grown.valid[kept[1]], known_confidence=confidence)


def _learn(
    model: Model,
    grown: Model,
    told: Beliefs,
    gone: Beliefs,
    epochs: int,
    seed: int,
    report: Callable[[float, str], None],
) -> None:
    settings = model.settings
    random = np.random.default_rng([seed, 14])
    old_names = (len(model.vocabularies.entities), len(model.vocabularies.relations), len(model.vocabularies.words))
    size = settings.batch or 512
    everything = _with_old(grown, told, gone)
    touched = np.unique(np.concatenate([told.head, told.tail, gone.head, gone.tail]))
    movable = rows_from(grown.pbe, touched, np.unique(np.concatenate([told.relation, gone.relation])),
                        0 if len(told.mention.values) else old_names[2])  # fmt: skip
    refit = Refit(grown.pbe, settings, movable, grown.trained_facts)
    old = np.arange(len(told), len(everything))
    _warm(refit, everything, old, settings.epochs, size, random)
    replay = min(len(old), REPLAY * max(len(told), 50 * len(gone)))
    total = epochs * max(1, -(-(len(told) + replay) // size))
    step = 0
    for _ in range(epochs):
        some = np.concatenate([np.arange(len(told)), random.choice(old, replay, replace=False)])
        for rows in _batches(len(some), size, random):
            rate = settings.learning_rate * (1 - step / total)
            if len(gone):
                _unlearn(refit, gone, random)
            refit.step(everything, some[rows], rate, random)
            step += 1
            report(step / total, f"{len(told):,} new, {replay:,} old beliefs a pass")


def _with_old(grown: Model, told: Beliefs, gone: Beliefs) -> Beliefs:
    """The new beliefs, followed by the old ones that share an entity or a relation with these or the retracted ones."""
    touched, related = (
        np.zeros(len(grown.vocabularies.entities), bool),
        np.zeros(len(grown.vocabularies.relations), bool),
    )
    for column in (told.head, told.tail, gone.head, gone.tail):
        touched[column] = True
    for column in (told.relation, gone.relation):
        related[column] = True
    facts = grown.trained_facts.without(told.triples).triples
    old = bare(grown.vocabularies, facts[touched[facts[:, 0]] | touched[facts[:, 2]] | related[facts[:, 1]]])
    offsets = np.append(told.mention.offsets, np.full(len(old), told.mention.offsets[-1]))
    return replace(
        old,
        head=np.concatenate([told.head, old.head]),
        relation=np.concatenate([told.relation, old.relation]),
        tail=np.concatenate([told.tail, old.tail]),
        mention=replace(told.mention, offsets=offsets),
        confidence=np.concatenate([told.confidence, old.confidence]),
    )


def _batches(count: int, size: int, random: np.random.Generator) -> list[Ids]:
    order = random.permutation(count)
    return [order[start : start + size] for start in range(0, count, size)]


def _warm(refit: Refit, beliefs: Beliefs, old: Ids, epochs: int, size: int, random: np.random.Generator) -> None:
    """Fill Adagrad's sums of squares as training on the old beliefs would have, by steps that move nothing."""
    batches = _batches(len(old), size, random)[:WARMING]
    for rows in batches:
        refit.step(beliefs, old[rows], 0.0, random)
    seen = sum(map(len, batches))
    for total in refit.optimizer.sums.values():
        total.mul_(epochs * len(old) / max(seen, 1) / PACE**2)


def _unlearn(refit: Refit, gone: Beliefs, random: np.random.Generator) -> None:
    """Gradients of − log (1 − Pr) of some retracted beliefs, added to those of the step to come."""
    rows = random.permutation(len(gone))[:UNLEARNT]
    terms = refit.pbe.log_terms(Batch.of(gone, rows))[:, [0, 2]].clamp_max(-1e-4)
    loss = -torch.log1p(-terms.exp()).sum()
    loss.backward()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Answers:
    credence: NDArray[np.float64]
    best: list[str]
    mrr: float


def _sample(model: Model, gone: NDArray[np.int64], seed: int) -> Beliefs:
    """Old beliefs to measure drift by: those of validation, or of training where there are none."""
    pool = model.valid if len(model.valid) else model.train
    pool = TripleIndex(pool, len(model.vocabularies.entities), len(model.vocabularies.relations)).without(gone).triples
    chosen = np.random.default_rng([seed, 15]).permutation(len(pool))[:SAMPLE]
    return bare(model.vocabularies, pool[np.sort(chosen)])


def _answers(model: Model, sample: Beliefs, grown: Model) -> _Answers:
    """What a model says of the sample; ranks leave out all that is known after the update."""
    asked = sample.encode(model.vocabularies)
    known = bare(grown.vocabularies, grown.known.triples).encode(model.vocabularies).triples
    facts = TripleIndex(known, len(model.vocabularies.entities), len(model.vocabularies.relations))
    both = [ranks(model.pbe, slot, asked, facts).filtered for slot in ENTITY_SLOTS]
    entities, relations = model.vocabularies.entities, model.vocabularies.relations
    questions = [(entities[h], relations[r], "?") for h, r in zip(asked.head, asked.relation, strict=True)]
    best = [answer[0].name for answer in ask(model, questions, top=1)] if len(asked) else []
    mrr = Metrics.of(np.concatenate(both)).mrr if len(asked) else float("nan")
    return _Answers(judge(model, asked).credence, best, mrr)


def _recalibrated(model: Model, labels: Beliefs) -> Model:
    """Thresholds and calibrator fitted anew to labeled beliefs that name only what the model knows."""
    asked = labels.encode(model.vocabularies)
    asked = asked.where(asked.seen)
    assert asked.label is not None
    if len(np.unique(asked.label)) < 2:
        raise DoxaError("the labels are all alike; calibration needs beliefs labeled true and others labeled false")
    before = replace(model.calibration, rule=decision_rule(model.settings))
    return replace(model, calibration=before.refit(model.pbe, model.settings, model.trained_facts, asked))
