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

from doxa.calibration import curves as calibration
from doxa.calibration.confidence import confidence_grounds, fitted
from doxa.calibration.curves import FEWEST, Calibrator
from doxa.calibration.queries import KINDS, posed
from doxa.calibration.rules import evidence, familiarity, judge_by
from doxa.calibration.thresholds import (
    Numbers,
    Temperatures,
    Thresholds,
    Weighing,
    best_mention_exponent,
    best_temperature,
)
from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import corrupt_triples, labeled_beliefs, stack
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

MOST_LOGITS = 2e7
"""Table of scores used to fit temperatures, in numbers, at most."""

MOST_JUDGED = 20_000
"""Validation beliefs used for thresholds and calibration at most, where entities are many."""

MOST_COMPARED = 1e9
"""Comparisons of validation beliefs with entities within which more of them are used."""


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
    train, valid, strange, settings = lesson.train, lesson.valid, lesson.strange, lesson.settings
    facts, known, pbe, memory = lesson.facts, lesson.known, lesson.pbe, lesson.memory
    if valid is None:
        log.warning("no validation beliefs: thresholds and calibration come from the training beliefs and flatter them")
    elif pbe.mention is not None:
        pbe.mention_exponent.fill_(_mention_exponent(pbe, valid.positives()))
    thresholds, weighing, calibrator = _judgment(pbe, valid, train, facts, known, settings)
    return Model(
        settings=settings,
        vocabularies=train.vocabularies,
        pbe=pbe,
        train=facts.triples,
        valid=np.zeros((0, 3), np.int64) if valid is None else valid.positives().triples,
        thresholds=thresholds,
        strangers=None if strange is None else _stranger_thresholds(facts, strange),
        temperatures=Temperatures() if valid is None else _temperatures(pbe, valid.positives(), facts),
        calibrator=calibrator,
        weighing=weighing,
        expected=_expected_confidence(pbe, valid if valid is not None else train, known, settings),
        given=_confidences(facts, train, valid),
        origin={
            "beliefs": len(train),
            "validation_beliefs": 0 if valid is None else len(valid),
            "entities": len(train.vocabularies.entities),
            "relations": len(train.vocabularies.relations),
            "words": len(train.vocabularies.words),
            "sha256": train.checksum(),
            "epochs": memory.epoch,
            "seconds": round(memory.seconds, 3),
            "interrupted": lesson.interrupted,
            "versions": {name: version(name) for name in ("torch", "numpy", "polars")}
            | {"python": platform.python_version()},
        },
        curve=tuple(asdict(point) for point in memory.curve),
    )


def _confidences(facts: TripleIndex, train: Beliefs, valid: Beliefs | None) -> Numbers:
    """The confidence of every fact of train, the highest where it came with several, and then of valid."""
    of_train = np.full(len(facts), np.nan)
    np.fmax.at(of_train, facts.rows_of(train.triples), train.confidence)
    given = of_train if valid is None else np.concatenate([of_train, valid.positives().confidence])
    return np.zeros(0) if np.isnan(given).all() else given


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
        sample, worth = _with_confidence(_sample(valid, size, random), known, settings)
        if not len(sample):
            raise DoxaError("validate_by=confidence: no validation belief carries confidence",
                            "set validate_by=ranking, or give validation beliefs that do")  # fmt: skip
        return lambda: -float(((fitted(pbe, settings, sample) - worth) ** 2).mean())
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
    scores = evidence(pbe, labeled, settings.verdict)
    thresholds = Thresholds.fit(scores, labeled.relation, labeled.label, pbe.relations)
    return float(((scores >= thresholds.of(labeled.relation)) == (labeled.label == 1)).mean())


@torch.no_grad()
def _mention_exponent(pbe: PBE, valid: Beliefs) -> float:
    """How much words count beside entities in Eq. 6, from the likelihood of validation beliefs that came with words."""
    most = max(20, int(MOST_LOGITS / pbe.relations))
    said = valid.where((valid.mention.lengths > 0) & (valid.relation >= 0))
    if len(said) > most:
        said = said.take(np.random.default_rng(0).permutation(len(said))[:most])
    if len(said) < FEWEST or not pbe.score.tells_relations:
        return 1.0
    b = Batch.of(said)
    return best_mention_exponent(
        pbe.log_relations(b.head, b.tail), pbe.log_relations_said(b.words, b.offsets), b.relation
    )


@torch.no_grad()
def _temperatures(pbe: PBE, valid: Beliefs, facts: TripleIndex) -> Temperatures:
    """One temperature per kind of question, from the likelihood of validation beliefs (true ones) beside what is not
    yet known."""
    most = max(20, int(MOST_LOGITS / max(pbe.entities, pbe.relations)))
    if len(valid) > most:
        valid = valid.take(np.random.default_rng(0).permutation(len(valid))[:most])
    if len(valid) < FEWEST:
        return Temperatures()

    def best(kind: str) -> float:
        questions = posed(pbe, valid, facts, kind)
        if not len(questions.truth):
            return 1.0
        return best_temperature(questions.table(torch.arange(len(questions.truth))), questions.truth)

    return Temperatures(**{kind: best(kind) for kind in KINDS})


def _stranger_thresholds(facts: TripleIndex, strange: Beliefs) -> Thresholds | None:
    """Thresholds on the familiarity of beliefs with a name never seen, if validation has some of either label."""
    strange = strange.where(strange.relation >= 0)
    if strange.label is None or len(np.unique(strange.label)) < 2:
        return None
    familiar, kind = familiarity(facts, strange)
    return Thresholds.fit(familiar, kind, strange.label, 2 * facts.relations)


def _judged(pbe: PBE, beliefs: Beliefs, random: np.random.Generator) -> Beliefs:
    """As many as are worth the time."""
    most = max(MOST_JUDGED, int(MOST_COMPARED // max(pbe.entities, 10_000)))
    return _sample(beliefs, most, random) if len(beliefs) > most else beliefs


def _judgment(
    pbe: PBE, valid: Beliefs | None, train: Beliefs, facts: TripleIndex, known: TripleIndex, settings: Settings
) -> tuple[Thresholds, Weighing | None, Calibrator]:
    """What verdicts and credence need, from validation labels or from falsehoods made by the rule of Section 5.4.

    Without validation from training beliefs, but no weights: there, how many answers are known would tell truths.
    """
    beliefs = _judged(pbe, valid if valid is not None else train, np.random.default_rng([settings.seed, 5]))
    able = "classification" in answers(settings)
    labeled = (
        labeled_beliefs(beliefs, known, settings.seed, settings.falsehoods)
        if able
        else beliefs.take(np.zeros(0, np.int64))
    )
    if not len(labeled):
        return Thresholds(np.full(pbe.relations, np.nan), 0.0), None, Calibrator.unfitted(pbe.relations)
    assert labeled.label is not None
    rule = "entities" if valid is None and settings.verdict == "weighed" else settings.verdict
    thresholds, weighing, heard = judge_by(pbe, labeled, facts, rule)
    return (
        thresholds,
        weighing,
        calibration.fit(heard, labeled.relation, labeled.label, pbe.relations, settings.base_rate, settings.seed),
    )


def _with_confidence(beliefs: Beliefs, known: TripleIndex, settings: Settings) -> tuple[Beliefs, Numbers]:
    """Those that carry confidence, and as many falsehoods of confidence 0 unless there are some among them."""
    given = beliefs.where(~np.isnan(beliefs.confidence))
    if not (given.confidence > 0).all():
        return given, given.confidence
    false, _ = corrupt_triples(given, known, settings.seed, settings.falsehoods)
    return stack(given, false), np.concatenate([given.confidence, np.zeros(len(false))])


def _expected_confidence(pbe: PBE, beliefs: Beliefs, known: TripleIndex, settings: Settings) -> Calibrator | None:
    """From what the model makes of beliefs to the confidence they were given; made-up falsehoods are given none."""
    beliefs = _judged(pbe, beliefs, np.random.default_rng([settings.seed, 9]))
    given, worth = _with_confidence(beliefs, known, settings)
    if len(given) < 2 * FEWEST or "classification" not in answers(settings):
        return None
    heard = confidence_grounds(pbe, settings, given)
    return calibration.fit_shares(heard, given.relation, worth, pbe.relations, settings.seed)
