"""Answers: the candidates of a question with their probabilities, most probable first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import Tensor

from doxa.data.results import Result
from doxa.data.triples import Pairs
from doxa.data.vocabulary import Ids, Vocabulary
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
    """A question ⟨head, relation, tail, mention⟩, with '?' for the missing part, and its most probable candidates."""

    question: tuple[str, str, str, str | None]
    answers: tuple[Candidate, ...]

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
        return "\n".join(lines)

    def to_frame(self) -> pl.DataFrame:
        """The completed beliefs, one per candidate: head, relation, tail, mention, probability, known."""
        rows = []
        for candidate in self:
            triple = [*self.question[:3]]
            triple[self.slot] = candidate.name
            rows.append((*triple, self.question[3], candidate.probability, candidate.known))
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")

    def as_dict(self) -> dict[str, Any]:
        return {
            "question": list(self.question),
            "answers": [{"name": c.name, "probability": c.probability, "known": c.known} for c in self.answers],
        }


def completed(answers: Iterable[Answer]) -> pl.DataFrame:
    """The beliefs that answers complete, with their probability as confidence; probability 0 is left out."""
    frames = [answer.to_frame() for answer in answers]
    frame = pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
    frame = frame.rename({"probability": "confidence"}).drop("known").filter(pl.col("confidence") > 0)
    return frame if frame["mention"].count() else frame.drop("mention")


def best_candidates(
    logits: Tensor, log_total: Tensor, ids: Ids, names: Vocabulary, known: Pairs, top: int
) -> list[tuple[Candidate, ...]]:
    """The `top` most probable candidates of each query; ties in the order of ids.

    `logits`, (B, C), are those of the candidates `ids`, -inf for a candidate that is not to be shown; `log_total`,
    (B,), their logsumexp. `known` pairs queries with the columns of their known answers.
    """
    query, column = known
    top = min(top, len(ids))
    place = largest(logits, top)
    values = np.take_along_axis(logits.numpy(), place, 1)
    probability = np.exp(values - log_total.numpy()[:, None], where=np.isfinite(values), out=np.zeros_like(values))
    keys = np.sort(query * len(ids) + column)
    wanted = np.arange(len(logits))[:, None] * len(ids) + place
    is_known = np.searchsorted(keys, wanted, "right") > np.searchsorted(keys, wanted)
    shown = names.names.gather(ids[place].ravel()).to_list()
    every = zip(shown, probability.ravel().tolist(), is_known.ravel().tolist(), strict=True)
    candidates = map(Candidate._make, every)
    return [
        tuple(islice(candidates, top))[:count]  # -inf comes last
        for count in np.isfinite(values).sum(1).tolist()
    ]


def columns_of(known: Pairs, ids: Ids) -> Pairs:
    """Pairs of query and id as pairs of query and column among sorted ids; pairs with other ids are left out."""
    query, answer = known
    column = np.searchsorted(ids, answer)
    present = column < len(ids)
    present[present] = ids[column[present]] == answer[present]
    return query[present], column[present]


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
