"""From beliefs to a model: check the data, train, then fit everything that judges on validation beliefs."""

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

from doxa.calibration.confidence import confidence_of_facts
from doxa.calibration.judge import Judge
from doxa.config import Settings, automatic
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import UNKNOWN
from doxa.errors import DoxaError, UsageError, one_of
from doxa.model import Model
from doxa.pbe import PBE
from doxa.slots import Slot
from doxa.storage import models as store
from doxa.systems import answers, build, checked, recipe
from doxa.training.checkpoint import Checkpoint
from doxa.training.loop import Progress, TrainingLoop, TrainState
from doxa.training.steps import Steps
from doxa.training.validation import validation_metric
from doxa.training.words import fit_words, prepare_words

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

    `unseen` are validation beliefs with names that training never sees; `valid` has none of them.
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


def train(
    beliefs: Any,
    valid: Any,
    *,
    settings: Settings,
    on_error: str = "raise",
    report: Report | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> TrainingResult:
    """Check the data and train; `calibrated` makes a model of the result."""
    one_of("on_error", on_error, ("raise", "skip"))
    beliefs, valid = Beliefs.of(beliefs), None if valid is None else Beliefs.of(valid)
    beliefs, valid, settings = _prepared(beliefs, valid, settings, on_error)
    _check(beliefs, settings)
    settings = automatic(settings, len(beliefs), len(beliefs.vocabularies.entities))
    every_valid = valid
    unseen = None if valid is None else valid.where(~valid.seen)
    valid = None if valid is None else valid.where(valid.seen)
    sizes = len(beliefs.vocabularies.entities), len(beliefs.vocabularies.relations)
    facts = TripleIndex(beliefs.triples, *sizes)
    known = facts if valid is None else facts.union(valid.positives().triples)
    with torch_threads(settings.threads):
        pbe = build(beliefs, settings, facts)
        if not resume:
            fit_words(pbe, beliefs, every_valid, settings)
        metric = None if valid is None else validation_metric(pbe, valid, known, settings)
        inputs = beliefs.checksum() + ("" if valid is None else valid.checksum())
        loop = TrainingLoop(Steps(pbe, beliefs, settings), metric, report, checkpoint, inputs)
        if resume and checkpoint is not None:
            loop.resume(Checkpoint.load(checkpoint))
        state = loop.run()
    return TrainingResult(beliefs, valid, unseen, settings, facts, known, pbe.eval(), state, loop.interrupted)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use this many threads meanwhile."""
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
    report: Report | None = None,
    resume: bool = False,
    force: bool = False,
) -> Model:
    """Train into a model folder: keep a checkpoint there, resume from one, and save the model at the end.

    A run that fails leaves nothing behind; one that is interrupted leaves a usable model and its checkpoint.
    """
    store.check_vacant(folder, force, resume)
    checkpoint = folder / store.CHECKPOINT
    before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
    try:
        result = train(
            beliefs, valid, settings=settings, on_error=on_error, report=report, checkpoint=checkpoint, resume=resume
        )
        model = calibrated(result)
    except DoxaError:
        if not resume and checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
            store.discard_run(folder)
        raise
    store.save(model, folder, force=True, keep_checkpoint=model.origin["interrupted"])
    return model


def calibrated(result: TrainingResult) -> Model:
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
        },
        curve=tuple(asdict(record) for record in state.curve),
    )


def _prepared(
    beliefs: Beliefs, valid: Beliefs | None, settings: Settings, on_error: str
) -> tuple[Beliefs, Beliefs | None, Settings]:
    """The positives to train on, in vocabularies of the names they use, and the validation beliefs encoded in these.

    The settings have the mention term decided, on which the words depend.
    """
    positives = beliefs.positives()
    if not len(positives):
        raise UsageError("no belief of the training set is labeled true; there is nothing to train on")
    if not positives.uses_all_names():
        positives = positives.compact()
    positives, settings = prepare_words(positives, settings)
    if valid is None and settings.validation_fraction:
        positives, valid = split(positives, (settings.validation_fraction,), settings.seed)
    elif valid is not None:
        valid = _encoded_validation(positives, valid, on_error)
    return positives, valid if valid is not None and len(valid) else None, settings


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
