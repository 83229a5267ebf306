"""From beliefs to a model: check, learn, find thresholds, calibrate."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from doxa.calibration.confidence import fitted_confidence, known_confidence, with_confidence
from doxa.calibration.judge import Judge, decision_rule
from doxa.calibration.rules import decision_score
from doxa.calibration.thresholds import Thresholds
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.data.splits import split
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import UNKNOWN
from doxa.errors import DoxaError, UsageError, one_of
from doxa.evaluation.protocol import head_ranks, relation_ranks, tail_ranks
from doxa.evaluation.ranks import Metrics, Ranks
from doxa.model import Model
from doxa.pbe import PBE
from doxa.storage import models as store
from doxa.systems import answers, build, checked, recipe
from doxa.training.automatic import chosen
from doxa.training.checkpoint import Checkpoint
from doxa.training.executors.workers import run_with_workers
from doxa.training.loop import Progress, Trainer, TrainState

log = logging.getLogger(__name__)


def fit(
    beliefs: Beliefs,
    valid: Beliefs | None = None,
    *,
    settings: Settings | None = None,
    on_error: str = "raise",
    report: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    **values: Any,
) -> Model:
    """Learn a model. Keyword arguments are the fields of the settings: `fit(beliefs, dimension=100, epochs=20)`.

    `valid` serves early stopping, thresholds and calibration; without it a share of the beliefs is held out.
    Its beliefs must be written in names of `beliefs`; with `on_error="skip"` those that are not serve only to learn
    how to judge beliefs with names never seen.
    """
    if settings is not None and values.get("system", settings.system) != settings.system:
        raise UsageError(
            f"the settings are those of system {settings.system}, not of {values['system']}",
            "leave settings out, or make them with doxa.systems.recipe",
        )
    settings = recipe(values) if settings is None else checked(settings.changed(**values))
    lesson = learn(beliefs, valid, settings=settings, on_error=on_error, report=report, checkpoint=checkpoint,
                   resume=resume)  # fmt: skip
    with _threads(lesson.settings.threads):
        return _model(lesson)


@dataclass(frozen=True, eq=False)
class Lesson:
    """A training that has ended, before anything is calibrated: what it was given, encoded, and what came of it.

    `strange` are validation beliefs with names training never sees; `valid` has none of them.
    """

    train: Beliefs
    valid: Beliefs | None
    strange: Beliefs | None
    settings: Settings
    facts: TripleIndex
    known: TripleIndex
    pbe: PBE
    memory: TrainState
    interrupted: bool


def learn(
    beliefs: Beliefs,
    valid: Beliefs | None,
    *,
    settings: Settings,
    on_error: str = "raise",
    report: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> Lesson:
    """The first half of `fit`: check and learn."""
    if not isinstance(beliefs, Beliefs):
        raise UsageError(f"fit learns from Beliefs, not from a {type(beliefs).__name__}", "read a file with doxa.read")
    one_of("on_error", on_error, ("raise", "skip"))
    train = beliefs.positives()
    if not len(train):
        raise DoxaError("no belief of the training set is labeled true; there is nothing to learn from")
    if not train.uses_all_names():
        train = train.compact()
    if valid is None and settings.holdout:
        train, valid = split(train, (settings.holdout,), settings.seed)
    elif valid is not None:
        valid = _checked_validation(train, valid, on_error)
    _check(train, settings)
    settings = chosen(settings, train)
    valid = valid if valid is not None and len(valid) else None
    strange = None if valid is None else valid.where(~valid.seen)
    valid = None if valid is None else valid.where(valid.seen)
    facts = TripleIndex(train.triples, len(train.vocabularies.entities), len(train.vocabularies.relations))
    known = facts if valid is None else facts.union(valid.positives().triples)
    with _threads(settings.threads):
        pbe = build(train, settings, facts)
        quality = None if valid is None else _quality(pbe, valid, known, settings)
        inputs = train.checksum() + ("" if valid is None else valid.checksum())
        trainer = Trainer(pbe, train, settings, quality, report, checkpoint, inputs)
        if resume and checkpoint is not None:
            trainer.resume(Checkpoint.load(checkpoint))
        memory = trainer.run() if settings.workers == 1 else run_with_workers(trainer, settings.workers)
    return Lesson(train, valid, strange, settings, facts, known, pbe.eval(), memory, trainer.interrupted)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many threads of torch meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fit_to_folder(
    beliefs: Beliefs,
    valid: Beliefs | None,
    folder: Path,
    *,
    settings: Settings,
    on_error: str = "raise",
    report: Callable[[Progress], None] | None = None,
    resume: bool = False,
    force: bool = False,
) -> Model:
    """`fit` that keeps a checkpoint in the model folder, resumes from one, and saves the model at the end.

    A run that fails leaves nothing behind; one that is interrupted leaves a usable model and its checkpoint.
    """
    store.check_vacant(folder, force, resume)
    checkpoint = folder / store.CHECKPOINT
    before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
    try:
        model = fit(
            beliefs, valid, settings=settings, on_error=on_error, report=report, checkpoint=checkpoint, resume=resume
        )
    except DoxaError:
        if not resume and checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
            store.discard_run(folder)
        raise
    store.save(model, folder, force=True, keep_checkpoint=model.origin["interrupted"])
    return model


def _model(lesson: Lesson) -> Model:
    """The second half of `fit`: thresholds, calibration, and everything in its place."""
    train, valid, settings, facts = lesson.train, lesson.valid, lesson.settings, lesson.facts
    if valid is None:
        log.warning("no validation beliefs: thresholds and calibration come from the training beliefs and flatter them")
    return Model(
        settings=settings,
        vocabularies=train.vocabularies,
        pbe=lesson.pbe,
        train=facts.triples,
        valid=np.zeros((0, 3), np.int64) if valid is None else valid.positives().triples,
        known_confidence=known_confidence(facts, train, valid),
        calibration=Judge.fit(
            lesson.pbe,
            settings,
            facts,
            train if valid is None else valid,
            lesson.strange,
            held_out=valid is not None,
            can_classify="classification" in answers(settings),
        ),
        origin={
            "beliefs": len(train),
            "validation_beliefs": 0 if valid is None else len(valid),
            "entities": len(train.vocabularies.entities),
            "relations": len(train.vocabularies.relations),
            "words": len(train.vocabularies.words),
            "sha256": train.checksum(),
            "epochs": lesson.memory.epoch,
            "seconds": round(lesson.memory.seconds, 3),
            "interrupted": lesson.interrupted,
            "versions": {name: version(name) for name in ("torch", "numpy", "polars")}
            | {"python": platform.python_version()},
        },
        curve=tuple(asdict(point) for point in lesson.memory.curve),
    )


def _check(train: Beliefs, settings: Settings) -> None:
    """Refuse beliefs nothing can be learnt from."""
    entities = len(np.union1d(train.head, train.tail))
    if entities < 2:
        raise DoxaError(f"the beliefs name {entities} entit{'y' if entities == 1 else 'ies'}; at least 2 are needed")
    relations = len(np.unique(train.relation))
    if relations < 2 and settings.relation_weight and "relation" in answers(settings, words=True):
        raise DoxaError(
            f"the beliefs name only the relation {train.vocabularies.relations[train.relation[0]]!r}",
            "at least 2 are needed: Pr(r|h,t) has nothing to tell apart",
        )
    if settings.objective == "confidence" and np.isnan(train.confidence).all():
        raise DoxaError("objective=confidence needs beliefs with confidence; these have none",
                        "use objective=likelihood")  # fmt: skip


def _checked_validation(train: Beliefs, valid: Beliefs, on_error: str) -> Beliefs:
    encoded = valid.encode(train.vocabularies)
    for kind, own, found in (
        ("entity", valid.vocabularies.entities.names.gather(valid.head), encoded.head),
        ("relation", valid.vocabularies.relations.names.gather(valid.relation), encoded.relation),
        ("entity", valid.vocabularies.entities.names.gather(valid.tail), encoded.tail),
    ):
        unseen = np.flatnonzero(found == UNKNOWN)
        if len(unseen) and on_error == "raise":
            raise DoxaError(
                f"belief {unseen[0] + 1} of the validation set has the {kind} {own[int(unseen[0])]!r}, "
                "which training never sees",
                'to leave such beliefs out and count them, pass --on-error skip (in Python: on_error="skip")',
            )
    if not encoded.seen.all():
        log.warning("validation: %d of %d beliefs have names training never sees; they are not ranked",
                    int((~encoded.seen).sum()), len(encoded))  # fmt: skip
    known = encoded.where(encoded.seen)
    if not len(known):
        raise DoxaError("training sees the names of no belief of the validation set")
    if known.label is not None and not (known.label == 1).any():
        raise DoxaError("no belief of the validation set is labeled true; validation needs some that are")
    return encoded


def _quality(pbe: PBE, valid: Beliefs, known: TripleIndex, settings: Settings) -> Callable[[], float]:
    """What tells one epoch's weights from another's, on a fixed sample of the validation beliefs.

    Mean filtered reciprocal rank of head, relation and tail, the questions of Eq. 1, as far as the system answers them;
    or the accuracy of verdicts at the thresholds that suit the sample best (`weighed` ones without weights); or minus
    the mean squared error of σ(D) as the confidence given, falsehoods being given none.
    """
    size = min(settings.validation_sample, max(100, int(3e10 / (pbe.entities * settings.dimension))))
    random = np.random.default_rng([settings.seed, 4])
    if settings.quality == "confidence":
        sample, worth = with_confidence(_sample(valid, size, random), known, settings)
        if not len(sample):
            raise DoxaError("validate_by=confidence: no validation belief carries confidence",
                            "set validate_by=ranking, or give validation beliefs that do")  # fmt: skip
        return lambda: -float(((fitted_confidence(pbe, settings, sample) - worth) ** 2).mean())
    if settings.quality == "accuracy":
        labeled = _sample(labeled_beliefs(valid, known, settings.seed, settings.falsehoods), size, random)
        if not len(labeled):
            raise DoxaError("validate_by=accuracy: no falsehood could be made of the validation beliefs",
                            "give validation beliefs with labels, or leave validate_by out")  # fmt: skip
        return lambda: _accuracy(pbe, labeled, settings)
    sample = _sample(valid.positives(), size, random)
    able: dict[str, tuple[Callable[..., Ranks], ...]] = {
        "entity": (head_ranks, tail_ranks),
        "relation": (relation_ranks,),
    }
    measures = [
        measure for question in answers(settings, words=pbe.mention is not None) for measure in able.get(question, ())
    ]

    def quality() -> float:
        return float(np.mean([Metrics.of(measure(pbe, sample, known).filtered).mrr for measure in measures]))

    return quality


def _sample(beliefs: Beliefs, size: int, random: np.random.Generator) -> Beliefs:
    return beliefs.take(random.permutation(len(beliefs))[:size])


def _accuracy(pbe: PBE, labeled: Beliefs, settings: Settings) -> float:
    assert labeled.label is not None
    scores = decision_score(pbe, labeled, decision_rule(settings))
    thresholds = Thresholds.fit(scores, labeled.relation, labeled.label, pbe.relations)
    return float(((scores >= thresholds.of(labeled.relation)) == (labeled.label == 1)).mean())
