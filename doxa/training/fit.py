"""From beliefs to a model: check the data, train, then fit everything that judges on validation beliefs."""

from __future__ import annotations

import logging
import math
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from doxa.calibration.confidence import confidence_of_facts
from doxa.calibration.judge import Judge
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import UNKNOWN
from doxa.errors import DoxaError, UsageError, one_of
from doxa.model import Model
from doxa.pbe import PBE
from doxa.slots import Slot
from doxa.storage import models as store
from doxa.systems import answers, build, checked, from_saved, recipe
from doxa.training.checkpoint import Checkpoint
from doxa.training.deadline import Deadline
from doxa.training.loop import Progress, TrainingLoop, TrainState
from doxa.training.plan import planned
from doxa.training.race import Race, chosen, resumed
from doxa.training.reserve import Reserve
from doxa.training.steps import Steps
from doxa.training.threads import torch_threads
from doxa.training.validation import validation_metric

log = logging.getLogger(__name__)

Report = Callable[[Progress], None]


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
    on_error: str = "raise",
    report: Report | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    deadline: Deadline | None = None,
    announce: Callable[[Settings], None] | None = None,
) -> TrainingResult:
    """Check the data and train; `calibrated` makes a model of the result.

    `deadline` is that of the whole command, which calibration and saving belong to; without one, a time budget is for
    training alone. `announce` receives the settings with all automatic values before training starts.
    """
    one_of("on_error", on_error, ("raise", "skip"))
    beliefs, valid = _prepared(Beliefs.of(beliefs), None if valid is None else Beliefs.of(valid), settings, on_error)
    _check(beliefs, settings)
    unseen = None if valid is None else valid.where(~valid.seen)
    valid = None if valid is None else valid.where(valid.seen)
    sizes = len(beliefs.vocabularies.entities), len(beliefs.vocabularies.relations)
    earlier = Checkpoint.load(checkpoint) if resume and checkpoint is not None else None
    settings, race = _scored(settings, beliefs, valid, report, earlier)
    settings = planned(settings, len(beliefs), sizes[0], 0 if valid is None else len(valid))
    facts = TripleIndex(beliefs.triples, *sizes)
    known = facts if valid is None else facts.union(valid.positives().triples)
    if announce:
        announce(settings)
    with torch_threads(settings.threads):
        pbe = build(beliefs, settings, facts)
        metric = None if valid is None else validation_metric(pbe, valid, known, settings)
        inputs = beliefs.checksum() + ("" if valid is None else valid.checksum())
        reserve = _reserve(pbe, settings, facts, beliefs, valid, deadline)
        loop = TrainingLoop(Steps(pbe, beliefs, settings), metric, report, checkpoint, inputs, deadline, reserve)
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
    on_error: str = "raise",
    report: Report | None = None,
    resume: bool = False,
    force: bool = False,
    deadline: Deadline | None = None,
    announce: Callable[[Settings], None] | None = None,
) -> Model:
    """Train into a model folder: keep a checkpoint there, resume from one, and save the model at the end.

    A time budget is that of everything here, or of all until the `deadline`. `announce` receives the settings with all
    automatic values before training starts.

    A run that fails leaves nothing behind; one that is interrupted leaves a usable model and its checkpoint.
    """
    store.check_vacant(folder, force, resume)
    checkpoint = folder / store.CHECKPOINT
    before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
    deadline = deadline or Deadline(settings.time_budget)
    try:
        result = train(
            beliefs,
            valid,
            settings=settings,
            on_error=on_error,
            report=report,
            checkpoint=checkpoint,
            resume=resume,
            deadline=deadline,
            announce=announce,
        )
        model = calibrated(result, report)
    except DoxaError:
        if not resume and checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
            store.discard_run(folder)
        raise
    if report:
        _staged(report, result.state)("saving", 0.0)
    store.save(model, folder, force=True, keep_checkpoint=model.origin["interrupted"])
    return model


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
            "words": len(beliefs.vocabularies.words),
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
    beliefs: Beliefs, valid: Beliefs | None, settings: Settings, on_error: str
) -> tuple[Beliefs, Beliefs | None]:
    """The positives to train on, in vocabularies of the names they use, and the validation beliefs encoded in these."""
    positives = beliefs.positives()
    if not len(positives):
        raise UsageError("no belief of the training set is labeled true; there is nothing to train on")
    if not positives.uses_all_names():
        positives = positives.compact()
    if valid is None and settings.validation_fraction:
        positives, valid = split(positives, (settings.validation_fraction,), settings.seed)
    elif valid is not None:
        valid = _encoded_validation(positives, valid, on_error)
    return positives, valid if valid is not None and len(valid) else None


def _check(beliefs: Beliefs, settings: Settings) -> None:
    """Refuse beliefs that nothing can be trained on."""
    entities = len(np.union1d(beliefs.head, beliefs.tail))
    if entities < 2:
        raise UsageError(f"the beliefs name {entities} entit{'y' if entities == 1 else 'ies'}; at least 2 are needed")
    relations = len(np.unique(beliefs.relation))
    if relations < 2 and settings.relation_weight and "relation" in answers(settings, words=True):
        raise UsageError(
            f"the beliefs name only the relation {beliefs.vocabularies.relations[beliefs.relation[0]]!r}",
            "at least 2 are needed: Pr(r|h,t) has nothing to tell apart",
        )
    if settings.objective == "confidence" and np.isnan(beliefs.confidence).all():
        raise UsageError("objective=confidence needs beliefs with confidence; these have none",
                         "use objective=likelihood")  # fmt: skip


def _encoded_validation(beliefs: Beliefs, valid: Beliefs, on_error: str) -> Beliefs:
    """The validation beliefs in the training vocabularies; unseen names are an error or, when skipped, counted."""
    encoded = valid.encode(beliefs.vocabularies)
    columns = (encoded.head, encoded.relation, encoded.tail)
    names = (valid.vocabularies.entities, valid.vocabularies.relations, valid.vocabularies.entities)
    for slot, column in zip(Slot, columns, strict=True):
        unseen = np.flatnonzero(column == UNKNOWN)
        if len(unseen) and on_error == "raise":
            kind = "relation" if slot is Slot.RELATION else "entity"
            name = names[slot][int(valid.triples[unseen[0], slot])]
            raise UsageError(
                f"belief {unseen[0] + 1} of the validation set has the {kind} {name!r}, which training never sees",
                'on_error="skip" leaves such beliefs out and counts them',
                remedy="skip_errors",
            )
    if not encoded.seen.all():
        log.warning("validation: %d of %d beliefs have names training never sees; they are not ranked",
                    int((~encoded.seen).sum()), len(encoded))  # fmt: skip
    usable = encoded.where(encoded.seen)
    if not len(usable):
        raise UsageError("training sees the names of no belief of the validation set")
    if usable.label is not None and not (usable.label == 1).any():
        raise UsageError("no belief of the validation set is labeled true; validation needs positives")
    return encoded
