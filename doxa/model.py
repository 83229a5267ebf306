"""A trained model: weights, vocabularies, known facts and what was fitted on validation data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.calibration.curves import Calibrator
from doxa.calibration.thresholds import Numbers, Temperatures, Thresholds, Weighing
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Vocabularies
from doxa.errors import UsageError
from doxa.pbe import PBE
from doxa.systems import why_not

if TYPE_CHECKING:
    from doxa.curation.audit import Suspects
    from doxa.curation.complete import Proposals
    from doxa.curation.explain import Explanation
    from doxa.curation.similar import Likeness
    from doxa.inference import Answer, Question


@dataclass(frozen=True, eq=False)
class Model:
    """Everything needed to answer, judge and evaluate, without the training data.

    `train` and `valid` are the known facts as ids, (n, 3), and `given` the confidence of each of them in that order,
    NaN where it came without; of length 0 where none came with any.
    """

    settings: Settings
    vocabularies: Vocabularies
    pbe: PBE
    train: NDArray[np.int64]
    valid: NDArray[np.int64]
    thresholds: Thresholds
    strangers: Thresholds | None
    temperatures: Temperatures
    calibrator: Calibrator
    expected: Calibrator | None = None
    weighing: Weighing | None = None
    given: Numbers = field(default_factory=lambda: np.zeros(0))
    origin: dict[str, Any] = field(default_factory=dict)
    curve: tuple[dict[str, Any], ...] = ()

    @cached_property
    def trained_facts(self) -> TripleIndex:
        return TripleIndex(self.train, len(self.vocabularies.entities), len(self.vocabularies.relations))

    @cached_property
    def known(self) -> TripleIndex:
        """The facts of train and valid."""
        return self.trained_facts.union(self.valid)

    def must_answer(self, question: str) -> None:
        """Refuse a question (entity, relation, classification) this model's system cannot answer."""
        reason = why_not(self.settings, question, words=self.pbe.mention is not None)
        if reason:
            raise UsageError(f"this model cannot answer that: {reason}", "`doxa systems` lists what each can answer")

    def __repr__(self) -> str:
        sizes = f"{len(self.vocabularies.entities):,} entities, {len(self.vocabularies.relations):,} relations"
        words = f", {len(self.vocabularies.words):,} words" if self.pbe.mention is not None else ""
        return (
            f"Model({self.settings.system} on {self.settings.score}, {sizes}{words}, {len(self.known):,} known facts)"
        )

    def tails(self, head: str, relation: str, top: int = 10, new_only: bool = False) -> Answer:
        """Which tail? Pr(t|h,r), most probable first."""
        from doxa import inference

        return inference.tails(self, [head], [relation], top, new_only)[0]

    def heads(self, relation: str, tail: str, top: int = 10, new_only: bool = False) -> Answer:
        """Which head? Pr(h|r,t), most probable first."""
        from doxa import inference

        return inference.heads(self, [relation], [tail], top, new_only)[0]

    def relations(
        self, head: str, tail: str, mention: str | None = None, top: int = 10, new_only: bool = False
    ) -> Answer:
        """Which relation? Pr(r|h,t,m), most probable first."""
        from doxa import inference

        return inference.relations(self, [head], [tail], [mention], top, new_only)[0]

    def ask(self, questions: Sequence[Question], top: int = 10, new_only: bool = False) -> list[Answer]:
        """Many questions at once, each ⟨head, relation, tail[, mention]⟩ with '?' for the one that is missing."""
        from doxa import inference

        return inference.ask(self, questions, top, new_only)

    def credence(self, beliefs: Beliefs) -> Numbers:
        """The probability that each belief is true; NaN where it names something the model never saw."""
        from doxa.calibration.rules import judge

        return judge(self, beliefs).credence

    def confidence(self, beliefs: Beliefs) -> Numbers:
        """The confidence each belief would be expected to carry; NaN where it names something the model never saw."""
        from doxa.calibration.confidence import confidence

        return confidence(self, beliefs)

    def complete(self, **wanted: Any) -> Proposals:
        """The most credible new beliefs of the whole knowledge base; see `doxa.curation.complete.complete`."""
        from doxa.curation.complete import complete

        return complete(self, **wanted)

    def audit(self, beliefs: Beliefs | None = None, top: int | None = None) -> Suspects:
        """Known beliefs, or those given, the most suspect first; see `doxa.curation.audit`."""
        from doxa.curation.audit import audit

        return audit(self, beliefs, top)

    def explain(self, head: str, relation: str, tail: str, mention: str | None = None, **wanted: int) -> Explanation:
        """Why this belief has its credence; see `doxa.curation.explain.explain`."""
        from doxa.curation.explain import explain

        return explain(self, head, relation, tail, mention, **wanted)

    def similar(self, entity: str, top: int = 10, relation: str | None = None) -> list[Likeness]:
        """The entities most alike to one, most alike first."""
        from doxa.curation.similar import similar

        return similar(self, entity, top, relation)

    def fold_in(self, beliefs: Beliefs) -> Model:
        """A model that also answers about the new entities of these beliefs; this one is not changed."""
        from doxa.curation.fold_in import fold_in

        return fold_in(self, beliefs)

    def save(self, folder: str | Path, force: bool = False) -> None:
        """Write the model folder; an existing model is replaced only with `force`."""
        from doxa.storage import models

        models.save(self, Path(folder), force)

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """The model of a folder."""
        from doxa.storage import models

        return models.load(Path(folder))
