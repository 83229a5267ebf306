"""A learnt model one can talk to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doxa import answering, store
from doxa.answering import Answer, Question
from doxa.beliefs import Beliefs
from doxa.credence import Numbers
from doxa.learnt import Learnt

if TYPE_CHECKING:
    from doxa.curation.auditing import Suspects
    from doxa.curation.completion import Proposals
    from doxa.curation.explaining import Explanation
    from doxa.curation.neighbours import Likeness


class Model(Learnt):
    """Answers questions about a knowledge base, with probabilities."""

    def tails(self, head: str, relation: str, top: int = 10, new_only: bool = False) -> Answer:
        """Which tail? Pr(t|h,r), most probable first."""
        return answering.tails(self, [head], [relation], top, new_only)[0]

    def heads(self, relation: str, tail: str, top: int = 10, new_only: bool = False) -> Answer:
        """Which head? Pr(h|r,t), most probable first."""
        return answering.heads(self, [relation], [tail], top, new_only)[0]

    def relations(
        self, head: str, tail: str, mention: str | None = None, top: int = 10, new_only: bool = False
    ) -> Answer:
        """Which relation? Pr(r|h,t,m), most probable first."""
        return answering.relations(self, [head], [tail], [mention], top, new_only)[0]

    def ask(self, questions: Sequence[Question], top: int = 10, new_only: bool = False) -> list[Answer]:
        """Many questions at once, each ⟨head, relation, tail[, mention]⟩ with '?' for the one that is missing."""
        return answering.ask(self, questions, top, new_only)

    def credence(self, beliefs: Beliefs) -> Numbers:
        """The probability that each belief is true; NaN where it names something the model never saw."""
        return answering.judge(self, beliefs).credence

    def confidence(self, beliefs: Beliefs) -> Numbers:
        """The confidence each belief would be expected to carry; NaN where it names something the model never saw."""
        return answering.confidence(self, beliefs)

    def complete(self, **wanted: Any) -> Proposals:
        """The most credible new beliefs of the whole knowledge base; see `doxa.curation.completion.complete`."""
        from doxa.curation.completion import complete

        return complete(self, **wanted)

    def audit(self, beliefs: Beliefs | None = None, top: int | None = None) -> Suspects:
        """Known beliefs, or those given, the most suspect first; see `doxa.curation.auditing`."""
        from doxa.curation.auditing import audit

        return audit(self, beliefs, top)

    def explain(self, head: str, relation: str, tail: str, mention: str | None = None, **wanted: int) -> Explanation:
        """Why this belief has its credence; see `doxa.curation.explaining.explain`."""
        from doxa.curation.explaining import explain

        return explain(self, head, relation, tail, mention, **wanted)

    def similar(self, entity: str, top: int = 10, relation: str | None = None) -> list[Likeness]:
        """The entities most alike to one, most alike first."""
        from doxa.curation.neighbours import similar

        return similar(self, entity, top, relation)

    def fold_in(self, beliefs: Beliefs) -> Model:
        """A model that also answers about the new entities of these beliefs; this one is not changed."""
        from doxa.curation.growing import fold_in

        return fold_in(self, beliefs)

    def save(self, folder: str | Path, force: bool = False) -> None:
        """Write the model folder; an existing model is replaced only with `force`."""
        store.save(self, Path(folder), force)

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """The model of a folder."""
        return cls(**vars(store.load(Path(folder))))
