"""An answer: the candidates of a question, most probable first. Text and JSON only draw it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.data.triples import Pairs
from doxa.data.vocabulary import Ids, Vocabulary


class Candidate(NamedTuple):
    """One possible answer. `known` says the belief it completes was already in the knowledge base."""

    name: str
    probability: float
    known: bool


@dataclass(frozen=True)
class Answer:
    """The question ⟨head, relation, tail, mention⟩ with '?' for what is missing, and its best candidates."""

    question: tuple[str, str, str, str | None]
    answers: tuple[Candidate, ...]

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, place: int) -> Candidate:
        return self.answers[place]

    def __str__(self) -> str:
        head, relation, tail, mention = self.question
        said = f'   "{mention}"' if mention else ""
        lines = [f"{head} · {relation} · {tail}{said}"]
        for candidate in self.answers:
            lines.append(f"  {candidate.probability:7.2%}  {candidate.name}{'  (known)' if candidate.known else ''}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        return {
            "question": list(self.question),
            "answers": [{"name": c.name, "probability": c.probability, "known": c.known} for c in self.answers],
        }


def completed(answers: Iterable[Answer]) -> pl.DataFrame:
    """The beliefs that answers complete, with their probability as confidence; one of 0 is left out."""
    rows = []
    for answer in answers:
        place = answer.question[:3].index("?")
        for candidate in answer:
            triple = [*answer.question[:3]]
            triple[place] = candidate.name
            rows.append((*triple, answer.question[3], candidate.probability))
    schema = {
        "head": pl.String,
        "relation": pl.String,
        "tail": pl.String,
        "mention": pl.String,
        "confidence": pl.Float64,
    }
    table = pl.DataFrame(rows, schema=schema, orient="row").filter(pl.col("confidence") > 0)
    return table if table["mention"].count() else table.drop("mention")


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions of one kind, to be answered in blocks: who the candidates are, and what is known of them.

    `logits` scores questions (their numbers) against all candidates, (B, C); `known` pairs questions, numbered within
    the block, with the ids of their known answers.
    """

    candidates: Ids
    names: Vocabulary
    logits: Callable[[Ids], Tensor]
    known: Callable[[Ids], Pairs]

    def answers(self, blocks: Iterable[Ids], top: int, new_only: bool) -> list[tuple[Candidate, ...]]:
        """The `top` most probable candidates of each question; equal ones in order of their ids."""
        found: list[tuple[Candidate, ...]] = []
        for block in blocks:
            logits = self.logits(block)
            question, answer = self.known(block)
            column = np.searchsorted(self.candidates, answer)
            present = column < len(self.candidates)
            present[present] = self.candidates[column[present]] == answer[present]
            question, column = question[present], column[present]
            top_here = min(top, len(self.candidates))
            if new_only:
                logits[torch.from_numpy(question), torch.from_numpy(column)] = -torch.inf
            probability = logits.softmax(1)
            place = largest(logits, top_here)
            shown = np.isfinite(np.take_along_axis(logits.numpy(), place, 1))
            keys = np.sort(question * len(self.candidates) + column)
            wanted = np.arange(len(block))[:, None] * len(self.candidates) + place
            is_known = np.searchsorted(keys, wanted, "right") > np.searchsorted(keys, wanted)
            names = self.names.names.gather(self.candidates[place].ravel()).to_list()
            chances = np.take_along_axis(probability.numpy(), place, 1)
            every = zip(names, chances.ravel().tolist(), is_known.ravel().tolist(), strict=True)
            candidates = map(Candidate._make, every)
            for count in shown.sum(1).tolist():  # those that are not shown come last
                of_row = tuple(islice(candidates, top_here))
                found.append(of_row[:count])
        return found


def largest(table: Tensor, count: int) -> NDArray[np.int64]:
    """Columns of the `count` largest numbers of each row, largest first, equal ones in order, (B, C) → (B, count)."""
    if not count:
        return np.zeros((len(table), 0), np.int64)
    value, place = (part.numpy() for part in table.topk(min(count + 1, table.shape[1]), dim=1))
    order = np.lexsort((place, -value))[:, :count]
    places = np.take_along_axis(place, order, 1)
    if value.shape[1] > count:  # equal ones at the edge: the first of them must be in
        for row in np.flatnonzero(value[:, count] == value[:, count - 1]):
            places[row] = np.argsort(-table[row].numpy(), kind="stable")[:count]
    return places
