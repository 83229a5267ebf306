"""Updating: learn new beliefs and unlearn retracted ones without training from scratch.

Rows that may move are those of new names and of every entity and relation in the new or retracted beliefs. They are
fitted to the new beliefs and a sample of old beliefs about them, so that old facts are not forgotten. All other rows
keep their values to the bit. A retracted belief leaves the known facts, and its entities move to minimize

    − log (1 − Pr(h|r,t)) − log (1 − Pr(t|h,r))

A model folder does not keep Adagrad's sums of squared gradients; they are estimated from the gradients of old beliefs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from doxa.config import Settings
from doxa.curation.grow import make_room
from doxa.curation.refit import MovableRows, Refit
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.places import plain_words
from doxa.data.results import Result
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.errors import UsageError
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.inference import judge
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.training.words import update_words

EPOCHS, REPLAY = 5, 7
"""Passes over the new beliefs, and old beliefs per new one in each pass."""

SPEED = 8.0
"""Factor on the steps of trained rows: Adagrad's sums of squares are divided by its square."""

WARMUP_BATCHES = 40
"""Batches of old beliefs from which Adagrad's sums of squares are estimated."""

RETRACTED_BATCH = 64
"""Retracted beliefs that a step unlearns, at most."""

SAMPLE = 500
"""Old beliefs on which drift is measured."""

Report = Callable[[float, str], None]


@dataclass(frozen=True)
class Drift:
    """How far old answers moved, on a sample of old beliefs.

    `credence` is the mean absolute change, `same_answer` the share of best tails that stayed the same. The MRR is
    filtered. `retracted_before` and `retracted_after` are the mean credence of the retracted beliefs. `true_before`,
    `true_after`, `false_before` and `false_after` are the mean credence of beliefs labeled true and of those labeled
    false, just before and after calibration to the labels.
    """

    credence: float
    same_answer: float
    mrr_before: float
    mrr_after: float
    retracted_before: float | None
    retracted_after: float | None
    true_before: float | None = None
    true_after: float | None = None
    false_before: float | None = None
    false_after: float | None = None

    def __str__(self) -> str:
        text = (
            f"old beliefs: credence moved by {self.credence:.3f} on average, {self.same_answer:.1%} of best answers "
            f"stayed, filtered MRR {self.mrr_before:.3f} → {self.mrr_after:.3f}"
        )
        if self.retracted_before is not None:
            text += f"\nretracted beliefs: mean credence {self.retracted_before:.3f} → {self.retracted_after:.3f}"
        labeled = {"true": (self.true_before, self.true_after), "false": (self.false_before, self.false_after)}
        for label, (before, after) in labeled.items():
            if before is not None:
                text += f"\nbeliefs labeled {label}: mean credence {before:.3f} → {after:.3f}"
        return text


@dataclass(frozen=True, eq=False)
class UpdateResult(Result):
    """The new model, the drift of old answers, and the counts of what was done."""

    model: Model
    drift: Drift
    counts: dict[str, Any]

    def __repr__(self) -> str:
        counts = self.counts
        return f"UpdateResult({counts['beliefs']:,} beliefs added, {counts['retracted']:,} retracted, {self.model!r})"

    def to_frame(self) -> pl.DataFrame:
        """One row per number: counts and drift."""
        rows = [(name, None if value is None else float(value)) for name, value in self._numbers().items()]
        return pl.DataFrame(rows, schema={"name": pl.String, "value": pl.Float64}, orient="row")

    def as_dict(self) -> dict[str, Any]:
        """Counts and drift as plain data."""
        return {"counts": self.counts, "drift": asdict(self.drift)}

    def _numbers(self) -> dict[str, Any]:
        return self.counts | {f"drift_{name}": value for name, value in asdict(self.drift).items()}


def update(
    model: Model,
    new: Any = None,
    retracted: Any = None,
    labels: Any = None,
    *,
    negatives: Any = None,
    epochs: int = EPOCHS,
    speed: float = SPEED,
    seed: int = 0,
    report: Report | None = None,
) -> UpdateResult:
    """A model that has learned the new beliefs and unlearned the retracted ones; `model` itself does not change.

    `labels`, beliefs labeled 1 and -1, move credence and thresholds as far as their number carries
    (`doxa.calibration.labels`). `negatives` are rejected beliefs that the model never knew: they are pushed away like
    retracted ones. Each of the four is anything `Beliefs.of` takes. `speed` is a factor on the steps of trained rows.
    `report` receives the finished share of the work and a line of text.
    """
    start = time.monotonic()
    if new is None and retracted is None and labels is None and negatives is None:
        raise UsageError("nothing to update with: neither new beliefs, nor retracted ones, nor labels")
    labeled = None if labels is None else Beliefs.of(labels)
    if labeled is not None and labeled.label is None:
        raise UsageError("the labels have no column label; expected 1 (true) or -1 (false)")
    nothing = Beliefs.from_triples(model.vocabularies, np.zeros((0, 3), np.int64))
    stated = nothing if new is None else Beliefs.of(new).positives()
    repeated = _is_repeated(model, stated)
    grown, new_beliefs = make_room(model, stated.where(~repeated), seed=seed)
    removed = _require_known(model, nothing if retracted is None else Beliefs.of(retracted), grown)
    grown = _without(grown, removed)
    sample = _drift_sample(model, removed.triples, seed)
    before = _answers(model, sample, grown)
    pushed = removed if negatives is None else Beliefs.concat([removed, _hard_negatives(grown, negatives)])
    if len(new_beliefs) or len(pushed):
        _learn(model, grown, new_beliefs, pushed, epochs, speed, seed, report)
    moved: dict[str, float] = {}
    if labeled is not None:
        grown, moved = _recalibrate(grown, labeled)
    drift = replace(_drift(model, grown, before, _answers(grown, sample, grown), removed), **moved)
    counts = {
        "beliefs": len(new_beliefs),
        "known": int(repeated.sum()),
        "retracted": len(removed),
        "negatives": len(pushed) - len(removed),
        "labels": 0 if labeled is None else len(labeled),
        "new_entities": len(grown.vocabularies.entities) - len(model.vocabularies.entities),
        "new_relations": len(grown.vocabularies.relations) - len(model.vocabularies.relations),
        "new_words": plain_words(grown.vocabularies.words) - plain_words(model.vocabularies.words),
        "seconds": round(time.monotonic() - start, 3),
    }
    content = str(model.origin.get("sha256", "")) + new_beliefs.checksum() + removed.checksum()
    origin = model.origin | {
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "updates": [*model.origin.get("updates", []), counts],
    }
    return UpdateResult(replace(grown, origin=origin), drift, counts)


def _is_repeated(model: Model, beliefs: Beliefs) -> NDArray[np.bool_]:
    """Whether each belief is a training fact without a sentence or confidence: there is nothing to learn from it."""
    encoded = beliefs.encode(model.vocabularies)
    trained = model.trained_facts.contains(encoded.head, encoded.relation, encoded.tail)
    return np.asarray(trained & (np.diff(beliefs.mention.offsets) == 0) & np.isnan(beliefs.confidence))


def _require_known(model: Model, retracted: Beliefs, grown: Model) -> Beliefs:
    """The retracted beliefs in the ids of the grown model; all of them must be known facts."""
    beliefs = retracted.encode(model.vocabularies)
    known = model.known.contains(beliefs.head, beliefs.relation, beliefs.tail)
    if not known.all():
        row = int(np.argmin(known))
        first = " · ".join(map(str, retracted.take(np.array([row])).to_frame().row(0)[:3]))
        raise UsageError(
            f"{(~known).sum():,} of {len(known):,} beliefs to retract are not known to the model, the first: {first}",
            "leave them out",
        )
    return retracted.encode(grown.vocabularies)


def _hard_negatives(grown: Model, negatives: Any) -> Beliefs:
    """The rejected beliefs with names that the model knows, without mentions; known facts are not among them."""
    beliefs = Beliefs.of(negatives).without_mentions().encode(grown.vocabularies)
    beliefs = replace(beliefs.where(beliefs.seen), label=None)
    return beliefs.where(~grown.known.contains(beliefs.head, beliefs.relation, beliefs.tail))


def _without(grown: Model, removed: Beliefs) -> Model:
    """The model without the retracted beliefs among its facts."""
    if not len(removed):
        return grown
    index = TripleIndex(removed.triples, len(grown.vocabularies.entities), len(grown.vocabularies.relations))
    kept = [~index.contains(*part.T) for part in (grown.train, grown.valid)]
    known = grown.known_confidence
    confidence = known[np.concatenate(kept)] if len(known) else known
    return replace(grown, train=grown.train[kept[0]], valid=grown.valid[kept[1]], known_confidence=confidence)


def _learn(
    model: Model,
    grown: Model,
    new: Beliefs,
    removed: Beliefs,
    epochs: int,
    speed: float,
    seed: int,
    report: Report | None,
) -> None:
    """Fit the movable rows of the grown model, in place."""
    settings = _refit_settings(model, new)
    update_words(grown.pbe, new, settings)
    random = np.random.default_rng([seed, 14])
    size = settings.batch_size or 512
    beliefs = _with_old(grown, new, removed)
    changed = np.concatenate([new.triples, removed.triples])
    first_word = 0 if len(new.mention.values) else len(model.vocabularies.words)
    movable = MovableRows.of(
        grown.pbe, np.unique(changed[:, ENTITY_SLOTS]), np.unique(changed[:, Slot.RELATION]), first_word
    )
    refit = Refit(grown.pbe, settings, movable, grown.trained_facts)
    old = np.arange(len(new), len(beliefs))
    _estimate_adagrad_sums(refit, beliefs, old, settings.epochs, size, speed, random)
    replay = min(len(old), REPLAY * max(len(new), 50 * len(removed)))
    total = epochs * max(1, -(-(len(new) + replay) // size))
    step = 0
    for _ in range(epochs):
        rows = np.concatenate([np.arange(len(new)), random.choice(old, replay, replace=False)])
        for batch in _batches(len(rows), size, random):
            rate = settings.learning_rate * (1 - step / total)
            if len(removed):
                _unlearn(refit, removed, random)
            refit.step(beliefs, rows[batch], rate, random)
            step += 1
            if report:
                report(step / total, f"{len(new):,} new, {replay:,} old beliefs a pass")


def _refit_settings(model: Model, new: Beliefs) -> Settings:
    """The settings of training, without the relation term where words were part of it and the beliefs here have none.

    Without the words, the entities alone would have to tell the relation, and old facts would rank lower.
    """
    settings = model.settings
    words = len(model.vocabularies.words) and not len(new.mention.values)
    if words and settings.head_weight + settings.tail_weight > 0:
        return settings.changed(relation_weight=0.0)
    return settings


def _with_old(grown: Model, new: Beliefs, removed: Beliefs) -> Beliefs:
    """The new beliefs, followed by the old facts that share an entity or a relation with a new or retracted one."""
    changed = np.concatenate([new.triples, removed.triples])
    entities = np.zeros(len(grown.vocabularies.entities), bool)
    relations = np.zeros(len(grown.vocabularies.relations), bool)
    entities[changed[:, ENTITY_SLOTS]] = True
    relations[changed[:, Slot.RELATION]] = True
    facts = grown.trained_facts.without(new.triples).triples
    related = entities[facts[:, ENTITY_SLOTS]].any(axis=1) | relations[facts[:, Slot.RELATION]]
    old = Beliefs.from_triples(grown.vocabularies, facts[related])
    if len(grown.known_confidence):
        confidence = np.empty(len(grown.trained_facts))
        confidence[grown.trained_facts.rows_of(grown.train)] = grown.known_confidence[: len(grown.train)]
        old = replace(old, confidence=confidence[grown.trained_facts.rows_of(old.triples)])
    return Beliefs.concat([new, old])


def _batches(count: int, size: int, random: np.random.Generator) -> list[Ids]:
    order = random.permutation(count)
    return [order[start : start + size] for start in range(0, count, size)]


def _estimate_adagrad_sums(
    refit: Refit, beliefs: Beliefs, old: Ids, epochs: int, size: int, speed: float, random: np.random.Generator
) -> None:
    """Estimate the sums of squares that training on the old beliefs left, by steps of size 0."""
    batches = _batches(len(old), size, random)[:WARMUP_BATCHES]
    for rows in batches:
        refit.step(beliefs, old[rows], 0.0, random)
    seen = sum(map(len, batches))
    for total in refit.optimizer.sums.values():
        total.mul_(epochs * len(old) / max(seen, 1) / speed**2)


def _unlearn(refit: Refit, removed: Beliefs, random: np.random.Generator) -> None:
    """Add the gradients of − log (1 − Pr) of a batch of retracted beliefs to those of the next step."""
    rows = random.permutation(len(removed))[:RETRACTED_BATCH]
    terms = refit.pbe.log_terms(Batch.of(removed, rows))[:, ENTITY_SLOTS].clamp_max(-1e-4)
    loss = -torch.log1p(-terms.exp()).sum()
    loss.backward()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Answers:
    """Credence and best tail of each belief of a sample, and their filtered MRR."""

    credence: NDArray[np.float64]
    best: list[str]
    mrr: float


def _drift_sample(model: Model, removed: NDArray[np.int64], seed: int) -> Beliefs:
    """Old beliefs on which drift is measured: of valid, or of train where there is no valid."""
    pool = model.valid if len(model.valid) else model.train
    index = TripleIndex(pool, len(model.vocabularies.entities), len(model.vocabularies.relations))
    triples = index.without(removed).triples
    rows = np.random.default_rng([seed, 15]).permutation(len(triples))[:SAMPLE]
    return Beliefs.from_triples(model.vocabularies, triples[np.sort(rows)])


def _answers(model: Model, sample: Beliefs, grown: Model) -> _Answers:
    """The answers of a model on the sample; ranks are filtered by all facts known after the update."""
    beliefs = sample.encode(model.vocabularies)
    known = Beliefs.from_triples(grown.vocabularies, grown.known.triples).encode(model.vocabularies).triples
    facts = TripleIndex(known, len(model.vocabularies.entities), len(model.vocabularies.relations))
    filtered = [ranks(model.pbe, slot, beliefs, facts).filtered for slot in ENTITY_SLOTS]
    queries = [(head, relation, "?") for head, relation, _ in beliefs.to_frame().rows()]
    best = [answer[0].name for answer in model.ask(queries, top=1)]
    mrr = Metrics.of(np.concatenate(filtered)).mrr if len(beliefs) else float("nan")
    return _Answers(judge(model, beliefs).credence, best, mrr)


def _drift(model: Model, grown: Model, before: _Answers, after: _Answers, removed: Beliefs) -> Drift:
    credence: list[float | None] = [None, None]
    if len(removed):
        credence = [float(judge(one, removed.encode(one.vocabularies)).credence.mean()) for one in (model, grown)]
    return Drift(
        credence=float(np.abs(after.credence - before.credence).mean()),
        same_answer=float(np.mean([a == b for a, b in zip(before.best, after.best, strict=True)])),
        mrr_before=before.mrr,
        mrr_after=after.mrr,
        retracted_before=credence[0],
        retracted_after=credence[1],
    )


def _recalibrate(model: Model, labels: Beliefs) -> tuple[Model, dict[str, float]]:
    """The model with credence and thresholds moved by labeled beliefs whose names it knows, and the mean credence of
    these beliefs before and after, as fields of `Drift`."""
    labeled = labels.encode(model.vocabularies)
    labeled = labeled.where(labeled.seen)
    assert labeled.label is not None
    if not len(labeled):
        raise UsageError(f"none of the {len(labels):,} labeled beliefs has names that the model knows")
    after = model.calibration.adjust(model.pbe, model.settings, model.trained_facts, labeled, model.known)
    adjusted, moved = replace(model, calibration=after), {}
    for time_, one in (("before", model), ("after", adjusted)):
        credence = judge(one, labeled).credence
        for name, label in (("true", 1), ("false", -1)):
            if (labeled.label == label).any():
                moved[f"{name}_{time_}"] = float(credence[labeled.label == label].mean())
    return adjusted, moved
