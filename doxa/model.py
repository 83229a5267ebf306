"""Model: weights, vocabularies, known facts and the judge. Its methods are thin; each names the module that works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.judge import Judge
from doxa.calibration.thresholds import Numbers
from doxa.config import Settings, takes_settings
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Vocabularies
from doxa.errors import CannotAnswer
from doxa.index.entity_index import EntityIndex
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS
from doxa.systems import why_not

if TYPE_CHECKING:
    from doxa.curation.audit import Suspects
    from doxa.curation.complete import Proposals, SearchProgress
    from doxa.curation.explanation import Explanation
    from doxa.curation.similar import Duplicates, Similar
    from doxa.curation.update import UpdateResult
    from doxa.evaluation.protocol import CandidateRule
    from doxa.evaluation.report import Evaluation, FilterRule
    from doxa.inference import Answer, Judgment, Question
    from doxa.inference.info import Info
    from doxa.storage.vectors import ModelVectors
    from doxa.training.loop import Progress

INDEX_FROM = 1_000_000
"""Entities from which on questions are answered by the index, if there is one; below, all entities are scored."""

TASKS = ("entity", "relation", "classification", "confidence", "calibration")
"""The tasks of `Model.evaluate`."""


@dataclass(frozen=True, eq=False)
class Model:
    """Everything needed to answer, judge and evaluate, without the training data.

    `train` and `valid` are the known facts as ids, (n, 3). `known_confidence` is the confidence of each of them in
    that order, NaN where it had none; of length 0 where no fact had any. `calibration` is what was fitted on
    validation data, `origin` says what the model was trained on, `curve` has one record per epoch. `index` answers
    entity questions over millions of entities, if it was built.
    """

    settings: Settings
    vocabularies: Vocabularies
    pbe: PBE
    train: NDArray[np.int64]
    valid: NDArray[np.int64]
    calibration: Judge
    known_confidence: Numbers = field(default_factory=lambda: np.zeros(0))
    origin: dict[str, Any] = field(default_factory=dict)
    curve: tuple[dict[str, Any], ...] = ()
    index: EntityIndex | None = None

    @classmethod
    @takes_settings
    def fit(
        cls,
        beliefs: Any,
        valid: Any = None,
        *,
        progress: bool = False,
        report: Callable[[Progress], None] | None = None,
        strict: bool = False,
        settings: Settings | None = None,
        checkpoint: Path | None = None,
        resume: bool = False,
        **values: Any,
    ) -> Model:
        """Train a model on Beliefs, a polars or pandas frame, a NumPy array of rows or a list of tuples.

        Keyword arguments are settings: `fit(beliefs, dimension=100, epochs=20)`. `valid` serves early stopping,
        thresholds and calibration; without it, a fraction of the beliefs does. `progress=True` draws a progress bar;
        `report` is called with the state of training. Validation beliefs with names that training never sees are
        counted and not ranked; with `strict` they are an error. `checkpoint` is a file that keeps the state of an
        unfinished run; `resume` goes on from it.
        """
        from doxa.training.deadline import Deadline
        from doxa.training.fit import calibrated, resolved, train

        drawn: Any = nullcontext()
        if progress:
            from doxa.render.terminal import training_progress

            drawn = training_progress()
        with drawn as draw:
            chosen, listener = resolved(settings, values), _together(draw, report)
            result = train(
                beliefs,
                valid,
                settings=chosen,
                strict=strict,
                report=listener,
                checkpoint=checkpoint,
                resume=resume,
                deadline=Deadline(chosen.time_budget),
            )
            return calibrated(result, listener)

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """Read a model folder."""
        from doxa.storage.models import load

        return load(Path(folder))

    def save(self, folder: str | Path, force: bool = False) -> None:
        """Write the model folder; an existing model is replaced only with `force`."""
        from doxa.storage.models import save

        save(self, Path(folder), force)

    @cached_property
    def trained_facts(self) -> TripleIndex:
        """The facts of train."""
        return TripleIndex(self.train, len(self.vocabularies.entities), len(self.vocabularies.relations))

    @cached_property
    def known(self) -> TripleIndex:
        """The facts of train and valid."""
        return self.trained_facts.union(self.valid)

    def must_answer(self, question: str) -> None:
        """Refuse a question (entity, relation, classification) that the model's system cannot answer."""
        reason = why_not(self.settings, question, words=self.pbe.mention is not None)
        if reason:
            hint = "doxa.systems.describe() lists what each system can answer"
            raise CannotAnswer(f"this model cannot answer that: {reason}", hint, remedy="list_systems")

    def __repr__(self) -> str:
        return repr(self.info()).replace("Info", "Model", 1)

    def _repr_html_(self) -> str:
        from doxa.render.pages import result_html

        return result_html(repr(self), self.info().to_frame(), rows=100)

    def tails(self, head: str, relation: str, top: int = 10, new_only: bool = False) -> Answer:
        """The most probable tails by Pr(t|h,r); with `new_only`, among the tails not yet known."""
        return self.ask([(head, relation, "?")], top, new_only)[0]

    def heads(self, relation: str, tail: str, top: int = 10, new_only: bool = False) -> Answer:
        """The most probable heads by Pr(h|r,t); with `new_only`, among the heads not yet known."""
        return self.ask([("?", relation, tail)], top, new_only)[0]

    def relations(
        self, head: str, tail: str, mention: str | None = None, top: int = 10, new_only: bool = False
    ) -> Answer:
        """The most probable relations by Pr(r|h,t,m); with `new_only`, among the relations not yet known."""
        return self.ask([(head, "?", tail, mention)], top, new_only)[0]

    def ask(
        self,
        questions: Sequence[Question],
        top: int = 10,
        new_only: bool = False,
        memory: int = 0,
        use_index: bool | None = None,
    ) -> list[Answer]:
        """Answer many questions ⟨head, relation, tail[, mention]⟩ at once, each with '?' for the missing part.

        `use_index` says whether the index answers; by default it does from a million entities on, if there is one.
        """
        from doxa.inference.query import ask

        return ask(self, questions, top, new_only, memory, use_index)

    def answering_index(self, wanted: bool | None = None) -> EntityIndex | None:
        """The index of these weights, where it is wanted; None stands for wanted from `INDEX_FROM` entities on."""
        index = self.index if self.index is not None and self.index.pbe is self.pbe else None
        if wanted and index is None:
            raise CannotAnswer(
                "the model has no index of its weights", "build one: model.build_index()", remedy="index"
            )
        large = len(self.vocabularies.entities) >= INDEX_FROM
        return index if wanted or (wanted is None and large) else None

    def build_index(
        self, recall: float = 0.95, cells: int = 0, memory: int = 0, report: Callable[[float, str], None] | None = None
    ) -> Model:
        """The model with an index that returns this share of the best answers; see `doxa.index.build`."""
        from doxa.index.build import build

        facts = self.valid if len(self.valid) else self.train
        temperatures = {slot: getattr(self.calibration.temperatures, str(slot)) for slot in ENTITY_SLOTS}
        index = build(self.pbe, facts, recall, cells, self.settings.seed, memory, report, temperatures)
        return replace(self, index=index)

    def judge(self, beliefs: Any, memory: int = 0, base_rate: float | None = None) -> Judgment:
        """Credence and verdict (true, false or unknown) of each belief.

        Credence holds where the share `base_rate` of the judged beliefs is true; by default as in calibration, where it
        is ½ without labels. It falls where a known fact contradicts the belief.
        """
        from doxa.inference.judgment import judge

        return judge(self, Beliefs.of(beliefs), memory, base_rate)

    def credence(self, beliefs: Any, base_rate: float | None = None) -> Numbers:
        """The probability that each belief is true; NaN for a name that the model does not know."""
        return self.judge(beliefs, base_rate=base_rate).credence

    def confidence(self, beliefs: Any, memory: int = 0, stated: bool = True) -> Numbers:
        """The confidence each belief is expected to carry; NaN for a name that the model does not know.

        With `stated`, all of them are taken to be stated by some source. Without, half of them are taken to be
        corrupted triples, which carry 0.
        """
        encoded = Beliefs.of(beliefs).encode(self.vocabularies)
        return self.calibration.confidence(self.pbe, self.settings, encoded, memory, stated)

    def evaluate(
        self,
        beliefs: Any,
        tasks: Sequence[str] | str = TASKS,
        filter: FilterRule = "all",
        candidates: CandidateRule = "all",
        rank_all: bool = False,
        seed: int = 0,
        report: Callable[[str], None] | None = None,
        memory: int = 0,
        popularity: bool = True,
    ) -> Evaluation:
        """Measure the model on test beliefs; see `doxa.evaluation.report.evaluate`."""
        from doxa.evaluation.report import evaluate

        return evaluate(
            self, Beliefs.of(beliefs), tasks, filter, candidates, rank_all, seed, report, memory, popularity
        )

    def calibrate(
        self,
        valid: Any,
        *,
        strict: bool = False,
        decision_rule: str | None = None,
        negatives_from: str | None = None,
        base_rate: float | None = None,
        checkpoint_seconds: float | None = None,
        workers: int | None = None,
        threads: int | None = None,
    ) -> Model:
        """The same weights with everything that validation decides fitted to these beliefs.

        Beliefs with unknown names only serve to classify such beliefs; with `strict` they are an error. The other
        keyword arguments replace settings of judging, and settings of running, which are stored in the model. Positive
        beliefs join the known facts.
        """
        from doxa.curation.calibrate import calibrate

        return calibrate(
            self,
            Beliefs.of(valid),
            strict,
            decision_rule=decision_rule,
            negatives_from=negatives_from,
            base_rate=base_rate,
            checkpoint_seconds=checkpoint_seconds,
            workers=workers,
            threads=threads,
        )

    def complete(
        self,
        *,
        relations: Sequence[str] | str = (),
        entities: Sequence[str] | str = (),
        min_credence: float = 0.2,
        top: int = 10_000,
        base_rate: float | None = None,
        contradicting: bool = True,
        exclude: Any = None,
        memory: int = 0,
        report: Callable[[SearchProgress], None] | None = None,
        use_index: bool | None = None,
    ) -> Proposals:
        """The most credible new beliefs of the whole knowledge base; see `doxa.curation.complete.complete`."""
        from doxa.curation.complete import complete

        return complete(
            self,
            relations=relations,
            entities=entities,
            min_credence=min_credence,
            top=top,
            base_rate=base_rate,
            contradicting=contradicting,
            exclude=exclude,
            memory=memory,
            report=report,
            use_index=use_index,
        )

    def audit(
        self, beliefs: Any = None, top: int | None = None, memory: int = 0, base_rate: float | None = None
    ) -> Suspects:
        """The known beliefs, or these, with the most suspicious first; see `doxa.curation.audit`."""
        from doxa.curation.audit import audit

        return audit(self, beliefs, top, memory=memory, base_rate=base_rate)

    def explain(
        self,
        head: str,
        relation: str,
        tail: str,
        mention: str | None = None,
        *,
        top: int = 5,
        influences: int = 6,
    ) -> Explanation:
        """Why this belief has its credence; see `doxa.curation.explain.explain`."""
        from doxa.curation.explain import explain

        return explain(self, str(head), str(relation), str(tail), mention, top=top, influences=influences)

    def similar(self, entity: str, top: int = 10, relation: str | None = None) -> Similar:
        """The entities with the most similar vectors; with `relation`, among the entities of its facts."""
        from doxa.curation.similar import similar

        return similar(self, str(entity), top, relation)

    def duplicates(self, top: int = 100, min_similarity: float = 0.5) -> Duplicates:
        """Pairs of entities that may be the same, of `min_similarity` or more; see `doxa.curation.similar`."""
        from doxa.curation.similar import duplicates

        return duplicates(self, top, min_similarity)

    def fold_in(self, beliefs: Any, seed: int = 0) -> Model:
        """A model that also knows the new entities of these beliefs; this model is not changed."""
        from doxa.curation.fold_in import fold_in

        return fold_in(self, Beliefs.of(beliefs), seed)

    def update(
        self,
        new: Any = None,
        retracted: Any = None,
        labels: Any = None,
        *,
        epochs: int = 5,
        seed: int = 0,
        report: Callable[[float, str], None] | None = None,
    ) -> UpdateResult:
        """A model that has learned new beliefs and unlearned retracted ones; see `doxa.curation.update.update`."""
        from doxa.curation.update import update

        parts = [None if part is None else Beliefs.of(part) for part in (new, retracted, labels)]
        return update(self, *parts, epochs=epochs, seed=seed, report=report)

    def vectors(self) -> ModelVectors:
        """Names and vectors of entities, relations and words."""
        from doxa.storage.vectors import vectors

        return vectors(self)

    def export(self, path: str | Path, format: str = "") -> None:
        """Write the vectors for other tools; the file name's ending decides the format, see `doxa.storage.vectors`."""
        from doxa.storage.vectors import export

        export(self, Path(path), format)

    def info(self) -> Info:
        """A summary: sizes, settings by group, training and calibration."""
        from doxa.inference.info import info

        return info(self)


def _together(*listeners: Callable[[Progress], None] | None) -> Callable[[Progress], None] | None:
    """One function that calls each of these; None where there is none."""
    present = [listener for listener in listeners if listener is not None]

    def report(now: Progress) -> None:
        for listener in present:
            listener(now)

    return report if present else None


fit = Model.fit
load = Model.load
