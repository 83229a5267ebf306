"""From beliefs to a model: check the data, train, then fit everything that judges on validation beliefs."""

from __future__ import annotations

import logging
import math
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from doxa.calibration.confidence import confidence_of_facts
from doxa.calibration.judge import Judge
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import has_negatives
from doxa.data.places import plain_words
from doxa.data.splits import split
from doxa.data.triples import TripleIndex
from doxa.data.unseen import check_names, report_known
from doxa.data.vocabulary import report_outer_spaces
from doxa.errors import DoxaError, UsageError, resource_text
from doxa.model import Model
from doxa.pbe import PBE
from doxa.storage import folders
from doxa.storage import models as store
from doxa.systems import answers, build, checked, from_saved, recipe
from doxa.training.checkpoint import Checkpoint
from doxa.training.deadline import Deadline
from doxa.training.limits import check_limits
from doxa.training.loop import Progress, TrainingLoop, TrainState
from doxa.training.partitions.place import discard_files, partition_folder
from doxa.training.partitions.run import PartitionedRun
from doxa.training.partitions.tables import mapped_tables
from doxa.training.plan import planned
from doxa.training.query_steps import steps_of
from doxa.training.race import Race, chosen, resumed
from doxa.training.reserve import Reserve
from doxa.training.steps import DIVERGED
from doxa.training.threads import torch_threads
from doxa.training.validation import validation_metric
from doxa.training.words import fit_words, prepare_words

log = logging.getLogger(__name__)

Report = Callable[[Progress], None]

MIN_VALIDATION = 20
"""Validation beliefs below which a share of train joins them: fewer decide by chance when training stops."""


def resolved(settings: Settings | None, values: dict[str, Any]) -> Settings:
    """The settings of a run: those of a recipe with other values, or ready ones with other values."""
    if settings is not None and values.get("system", settings.system) != settings.system:
        raise UsageError(
            f"the settings are those of system {settings.system}, not of {values['system']}",
            "leave settings out, or make them with doxa.systems.recipe",
        )
    return recipe(values) if settings is None else checked(settings.changed(**values))


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A finished training before calibration: the encoded beliefs, the trained weights and the state of the run.

    `unseen` are validation beliefs with names that training never sees; `valid` has none of them. `reserve` tells how
    much of a time budget is left for calibration.
    """

    train: Beliefs
    valid: Beliefs | None
    unseen: Beliefs | None
    settings: Settings
    facts: TripleIndex
    known: TripleIndex
    pbe: PBE
    state: TrainState
    interrupted: bool
    reserve: Reserve | None = None


def train(
    beliefs: Any,
    valid: Any,
    *,
    settings: Settings,
    strict: bool = False,
    report: Report | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    deadline: Deadline | None = None,
    announce: Callable[[Settings], None] | None = None,
) -> TrainingResult:
    """Check the data and train; `calibrated` makes a model of the result.

    Validation beliefs with names that training never sees are counted; with `strict` they are an error. `deadline` is
    that of the whole command, which calibration and saving belong to; without one, a time budget is for training
    alone. `announce` receives the settings with all automatic values before training starts.
    """
    beliefs, valid = Beliefs.of(beliefs), None if valid is None else Beliefs.of(valid)
    beliefs, valid, settings = _prepared(beliefs, valid, settings, strict)
    settings = _check(beliefs, settings)
    every_valid = valid
    unseen = None if valid is None else valid.where(~valid.seen)
    valid = None if valid is None else valid.where(valid.seen)
    sizes = len(beliefs.vocabularies.entities), len(beliefs.vocabularies.relations)
    earlier = Checkpoint.load(checkpoint) if resume and checkpoint is not None else None
    words = len(beliefs.vocabularies.words)
    check_limits(planned(settings, len(beliefs), sizes[0]), len(beliefs), *sizes, words)
    settings, race = _scored(settings, beliefs, valid, report, earlier)
    settings = planned(settings, len(beliefs), sizes[0], 0 if valid is None else len(valid))
    facts = TripleIndex(beliefs.triples, *sizes)
    known = facts if valid is None else facts.union(valid.positives().triples)
    report_known("validation", valid, facts)
    if announce:
        announce(settings)
    with torch_threads(settings.threads), partition_folder(settings, checkpoint) as folder:
        with mapped_tables(folder):
            pbe = build(beliefs, settings, facts)
        if not resume:
            fit_words(pbe, beliefs, every_valid, settings)
        metric = None if valid is None else validation_metric(pbe, valid, known, settings)
        inputs = beliefs.checksum() + ("" if valid is None else valid.checksum())
        reserve = _reserve(pbe, settings, facts, beliefs, valid, deadline)
        work = (
            steps_of(pbe, beliefs, settings)
            if folder is None
            else PartitionedRun(pbe, beliefs, settings, folder, facts)
        )
        loop = TrainingLoop(work, metric, report, checkpoint, inputs, deadline, reserve)
        if earlier is not None:
            loop.resume(earlier)
        elif race is not None:
            loop.state.race = race.as_dict()
        state = loop.run()
    return TrainingResult(beliefs, valid, unseen, settings, facts, known, pbe.eval(), state, loop.interrupted, reserve)


def _reserve(
    pbe: PBE, settings: Settings, facts: TripleIndex, train: Beliefs, valid: Beliefs | None, deadline: Deadline | None
) -> Reserve | None:
    """The time that calibration and saving take, of a command with a deadline."""
    if deadline is None or not deadline.limited:
        return None
    can_classify = "classification" in answers(settings)
    beliefs, held_out = (train, False) if valid is None else (valid, True)
    return Reserve(pbe, facts, beliefs, deadline, held_out=held_out, can_classify=can_classify)


def _scored(
    settings: Settings, beliefs: Beliefs, valid: Beliefs | None, report: Report | None, earlier: Checkpoint | None
) -> tuple[Settings, Race | None]:
    """The settings with a score: the one of an earlier part of the run, or chosen by a race where none was named."""
    if earlier is not None:
        return resumed(settings, from_saved(earlier.state["settings"])), None

    def finish(member: Settings) -> Settings:
        return planned(member, len(beliefs), len(beliefs.vocabularies.entities), 0 if valid is None else len(valid))

    with torch_threads(finish(settings.changed(workers=1)).threads):
        return chosen(settings, finish, beliefs, valid, report)


def fit_to_folder(
    beliefs: Beliefs,
    valid: Beliefs | None,
    folder: Path,
    *,
    settings: Settings,
    strict: bool = False,
    report: Report | None = None,
    resume: bool = False,
    force: bool = False,
    deadline: Deadline | None = None,
    announce: Callable[[Settings], None] | None = None,
    origin: dict[str, Any] | None = None,
) -> Model:
    """Train into a model folder: keep a checkpoint there, resume from one, and save the model at the end.

    A time budget is that of everything here, or of all until the `deadline`. `announce` receives the settings with all
    automatic values before training starts. `origin` joins what the model remembers of its data.

    A run that is interrupted leaves a usable model and its checkpoint. One that fails, on a full disk for example,
    keeps its checkpoint, unless the failure would repeat itself.
    """
    folders.check_vacant(folder, force, resume)
    deadline = deadline or Deadline(settings.time_budget)
    folder = folder.resolve()
    with folders.writing(folder):
        folders.check_content(folder, force, resume)
        checkpoint = folder / folders.CHECKPOINT
        with _kept(checkpoint, resume):
            result = train(
                beliefs,
                valid,
                settings=settings,
                strict=strict,
                report=report,
                checkpoint=checkpoint,
                resume=resume,
                deadline=deadline,
                announce=announce,
            )
            model = calibrated(result, report)
            model = replace(model, origin=model.origin | (origin or {}))
            if report:
                _staged(report, result.state)("saving", 0.0)
            store.write(model, folder, keep_checkpoint=model.origin["interrupted"])
            if not model.origin["interrupted"]:
                discard_files(settings)
    return model


@contextmanager
def _kept(checkpoint: Path, resume: bool) -> Iterator[None]:
    """Say of a failing run that its checkpoint is kept; a run that would fail again in the same way is discarded."""

    def written() -> int | None:
        return checkpoint.stat().st_mtime_ns if checkpoint.exists() else None

    before = written()
    try:
        yield
    except (DoxaError, OSError, MemoryError, RuntimeError) as fault:
        of_this_run = written() is not None and (resume or written() != before)
        if written() is None:
            folders.discard_run(checkpoint.parent)
        senseless = isinstance(fault, UsageError) or getattr(fault, "remedy", "") == DIVERGED
        if of_this_run and senseless and not resume:
            folders.discard_run(checkpoint.parent)
        reason = fault.message if isinstance(fault, DoxaError) else resource_text(fault)
        if senseless or not of_this_run or not reason:
            raise
        hint = "what is trained so far is kept; resume=True goes on from there"
        raise DoxaError(reason, *getattr(fault, "hints", ()), hint, remedy="resume_failed") from fault


def _staged(report: Report, state: TrainState) -> Callable[[str, float], None]:
    """Turn the stages after training into progress."""
    loss = state.curve[-1].loss if state.curve else math.nan

    def staged(stage: str, done: float) -> None:
        report(Progress(done, state.epoch, loss, state.best_metric, 0.0, state.seconds, stage))

    return staged


def calibrated(result: TrainingResult, report: Report | None = None) -> Model:
    """The model of a training result: its judge is fitted on the validation beliefs."""
    beliefs, valid, facts, state = result.train, result.valid, result.facts, result.state
    if valid is None:
        log.warning(
            "no validation beliefs: thresholds and calibration come from the training beliefs and are optimistic"
        )
    with torch_threads(result.settings.threads):
        judge = Judge.fit(
            result.pbe,
            result.settings,
            facts,
            beliefs if valid is None else valid,
            result.unseen,
            held_out=valid is not None,
            can_classify="classification" in answers(result.settings),
            effort=1.0 if result.reserve is None else result.reserve.effort(),
            report=report and _staged(report, state),
        )
    return Model(
        settings=result.settings,
        vocabularies=beliefs.vocabularies,
        pbe=result.pbe,
        train=facts.triples,
        valid=np.zeros((0, 3), np.int64) if valid is None else valid.positives().triples,
        known_confidence=confidence_of_facts(facts, beliefs, valid),
        calibration=judge,
        origin={
            "beliefs": len(beliefs),
            "validation_beliefs": 0 if valid is None else len(valid),
            "entities": len(beliefs.vocabularies.entities),
            "relations": len(beliefs.vocabularies.relations),
            "words": plain_words(beliefs.vocabularies.words),
            "sha256": beliefs.checksum(),
            "epochs": state.epoch,
            "seconds": round(state.seconds, 3),
            "interrupted": result.interrupted,
            "versions": {name: version(name) for name in ("torch", "numpy", "polars")}
            | {"python": platform.python_version()},
        }
        | ({"race": state.race} if state.race else {}),
        curve=tuple(asdict(record) for record in state.curve),
    )


def _prepared(
    beliefs: Beliefs, valid: Beliefs | None, settings: Settings, strict: bool
) -> tuple[Beliefs, Beliefs | None, Settings]:
    """The positives to train on, in vocabularies of the names they use, and the validation beliefs encoded in these.

    The settings have the mention term decided, on which the words depend.
    """
    positives = beliefs.positives()
    if not len(positives):
        raise UsageError("no belief of the training set is labeled true; there is nothing to train on")
    if not positives.uses_all_names():
        positives = positives.compact()
    for names in (positives.vocabularies.entities, positives.vocabularies.relations):
        report_outer_spaces(names)
    positives, settings = prepare_words(positives, settings)
    if valid is not None and len(valid):
        valid = _encoded_validation(positives, valid, settings, strict)
    if valid is None and settings.validation_fraction:
        positives, valid = split(positives, (settings.validation_fraction,), settings.seed)
    elif valid is not None and settings.validation_fraction:
        positives, valid = _enlarged(positives, valid, settings)
    return positives, valid if valid is not None and len(valid) else None, settings


def _enlarged(train: Beliefs, valid: Beliefs, settings: Settings) -> tuple[Beliefs, Beliefs]:
    """Train and validation beliefs; where the latter are very few, a share of train joins them.

    Validation beliefs with negatives of their own are left as they are: further positives would change their mixture.
    """
    usable = len(valid.where(valid.seen).positives())
    if usable >= MIN_VALIDATION or has_negatives(valid):
        return train, valid
    rest, more = split(train, (settings.validation_fraction,), settings.seed)
    if not len(more):
        return train, valid
    log.warning("validation: only %d beliefs can be ranked; %d of the training beliefs are held out as well",
                usable, len(more))  # fmt: skip
    return rest, Beliefs.concat([replace(valid, label=None), more])


def _check(beliefs: Beliefs, settings: Settings) -> Settings:
    """Refuse beliefs that nothing can be trained on; the settings without the terms that they cannot train."""
    entities = int(beliefs.named_entities().sum())
    if entities < 2:
        raise UsageError(f"the beliefs name {entities} entit{'y' if entities == 1 else 'ies'}; at least 2 are needed")
    if settings.objective == "confidence" and np.isnan(beliefs.confidence).all():
        raise UsageError("objective=confidence needs beliefs with confidence; these have none",
                         "use objective=likelihood")  # fmt: skip
    if len(np.unique(beliefs.relation)) > 1 or "relation" not in answers(settings, words=True):
        return settings
    name = beliefs.vocabularies.relations[beliefs.relation[0]]
    if not settings.head_weight and not settings.tail_weight:
        raise UsageError(
            f"the beliefs name only the relation {name!r}",
            "at least 2 are needed: Pr(r|h,t) has nothing to tell apart",
        )
    if settings.relation_weight or (settings.mentions and len(beliefs.mention.values)):
        log.warning("the beliefs name only the relation %r: relations and mentions are not trained", name)
    return settings.changed(relation_weight=0.0, mentions=False)


def _encoded_validation(beliefs: Beliefs, valid: Beliefs, settings: Settings, strict: bool) -> Beliefs | None:
    """The validation beliefs in the training vocabularies; None if none of them can be ranked."""
    encoded = valid.encode(beliefs.vocabularies)
    if encoded.label is not None and not (encoded.label == 1).any():
        raise UsageError("no belief of the validation set is labeled true; validation needs positives")
    usable = len(encoded.where(encoded.seen).positives())
    instead = f"{settings.validation_fraction:.0%} of the training beliefs are held out instead"
    check_names(valid, encoded, strict, "they are not ranked" if usable else instead)
    return encoded if usable else None
