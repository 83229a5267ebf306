"""Answers: the candidates of a question with their probabilities, most probable first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import Tensor

from doxa.data.results import Result
from doxa.data.triples import Pairs
from doxa.data.vocabulary import Vocabulary
from doxa.index.entity_index import IndexSummary
from doxa.pbe import Distribution
from doxa.slots import Slot

SCHEMA = {
    "head": pl.String,
    "relation": pl.String,
    "tail": pl.String,
    "mention": pl.String,
    "probability": pl.Float64,
    "known": pl.Boolean,
}


class Candidate(NamedTuple):
    """One possible answer; `known` says that the knowledge base already holds the belief it completes."""

    name: str
    probability: float
    known: bool


@dataclass(frozen=True, repr=False)
class Answer(Result):
    """A question ⟨head, relation, tail, mention⟩, with '?' for the missing part, and its most probable candidates.

    `note` says what the answer rests on where the model does not know an entity. Where an index answered,
    `standard_error` is that of each probability as a share of it, as far as the sample tells, and `index` says what
    was measured when the index was built.
    """

    question: tuple[str, str, str, str | None]
    answers: tuple[Candidate, ...]
    note: str | None = None
    standard_error: float | None = None
    index: IndexSummary | None = None

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, place: int) -> Candidate:
        return self.answers[place]

    @property
    def slot(self) -> Slot:
        """The missing part."""
        return Slot(self.question[:3].index("?"))

    def __repr__(self) -> str:
        best = f", best {self[0].name!r} {self[0].probability:.2%}" if len(self) else ""
        return f"Answer({' · '.join(self.question[:3])}: {len(self):,} candidates{best})"

    def __str__(self) -> str:
        mention = f'   "{self.question[3]}"' if self.question[3] else ""
        lines = [" · ".join(self.question[:3]) + mention]
        for candidate in self.answers:
            lines.append(f"  {candidate.probability:7.2%}  {candidate.name}{'  (known)' if candidate.known else ''}")
        if self.standard_error is not None and self.index is not None:
            lines.append(f"  by the index: standard error {100 * self.standard_error:.1f} % of each probability")
            lines.append(f"  measured: recall {self.index.recall:.3f}, probabilities within "
                         f"{100 * self.index.probability_error:.1f} % for 95 % of questions")  # fmt: skip
        return "\n".join(lines + ([f"  {self.note}"] if self.note else []))

    def to_frame(self) -> pl.DataFrame:
        """The completed beliefs, one per candidate: head, relation, tail, mention, probability, known."""
        rows = []
        for candidate in self:
            triple = [*self.question[:3]]
            triple[self.slot] = candidate.name
            rows.append((*triple, self.question[3], candidate.probability, candidate.known))
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")

    def as_dict(self) -> dict[str, Any]:
        answers = [{"name": c.name, "probability": c.probability, "known": c.known} for c in self.answers]
        result: dict[str, Any] = {"question": list(self.question), "answers": answers}
        if self.standard_error is not None and self.index is not None:
            result["relative_standard_error"] = self.standard_error
            result["index"] = {"recall": self.index.recall, "probability_error": self.index.probability_error}
        return result | ({"note": self.note} if self.note else {})


def completed(answers: Iterable[Answer]) -> pl.DataFrame:
    """The beliefs that answers complete, with their probability as confidence; probability 0 is left out."""
    frames = [answer.to_frame() for answer in answers]
    frame = pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
    frame = frame.rename({"probability": "confidence"}).drop("known").filter(pl.col("confidence") > 0)
    return frame if frame["mention"].count() else frame.drop("mention")


def best_candidates(
    distribution: Distribution, names: Vocabulary, known: Pairs, top: int
) -> list[tuple[Candidate, ...]]:
    """The `top` most probable candidates of each query, ties in the order of ids.

    `names` are those of all ids; `known` pairs queries with the ids of their known answers.
    """
    logits, ids = distribution.logits, distribution.columns.numpy()
    top = min(top, len(ids))
    place = largest(logits, top)
    values = np.take_along_axis(logits.numpy(), place, 1)
    shown = np.isfinite(values)
    total = distribution.log_total.numpy()[:, None]
    probability = np.exp(np.subtract(values, total, where=shown, out=np.full_like(values, -np.inf)))
    keys = np.sort(known[0] * len(names) + known[1])
    wanted = np.arange(len(logits))[:, None] * len(names) + ids[place]
    is_known = np.searchsorted(keys, wanted, "right") > np.searchsorted(keys, wanted)
    texts = names.texts_of(ids[place].ravel())
    every = zip(texts, probability.ravel().tolist(), is_known.ravel().tolist(), strict=True)
    candidates = map(Candidate._make, every)
    return [tuple(islice(candidates, top))[:count] for count in shown.sum(1).tolist()]  # those not shown come last


def largest(table: Tensor, count: int) -> NDArray[np.int64]:
    """Columns of the `count` largest numbers of each row, largest first, ties in order, (B, C) → (B, count)."""
    if not count:
        return np.zeros((len(table), 0), np.int64)
    value, place = (part.numpy() for part in table.topk(min(count + 1, table.shape[1]), dim=1))
    order = np.lexsort((place, -value))[:, :count]
    places = np.take_along_axis(place, order, 1)
    if value.shape[1] > count:  # a tie at the edge: its first columns must be in
        for row in np.flatnonzero(value[:, count] == value[:, count - 1]):
            places[row] = np.argsort(-table[row].numpy(), kind="stable")[:count]
    return places


def sentence_note(unseen: Sequence[str], result: str = "answered from the sentence") -> str:
    """The note of a result about entities that the model does not know."""
    names = " and ".join(repr(name) for name in dict.fromkeys(unseen))
    verb = "is" if len(set(unseen)) == 1 else "are"
    return f"{names} {verb} not known to the model: {result}"
