"""An answer: the candidates of a question, most probable first. Text and JSON only draw it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from doxa.beliefs import Ids, Vocabulary


@dataclass(frozen=True)
class Candidate:
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


def ranked(
    logits: Tensor, candidates: Ids, known: Ids, names: Vocabulary, top: int, new_only: bool
) -> tuple[Candidate, ...]:
    """The `top` most probable candidates by the softmax of their logits; equal ones in order of their ids."""
    probability = logits.double().softmax(0).numpy()
    is_known = np.isin(candidates, known)
    open_places = np.flatnonzero(~is_known) if new_only else np.arange(len(candidates))
    return tuple(
        Candidate(names[candidates[place]], float(probability[place]), bool(is_known[place]))
        for place in open_places[first(probability[open_places], top)]
    )


def first(values: NDArray[np.float64], count: int) -> Ids:
    """Places of the `count` largest values, largest first, equal ones in order."""
    count = min(max(count, 0), len(values))
    places = np.arange(len(values))
    if 0 < count < len(values) // 2:
        least = np.partition(values, len(values) - count)[len(values) - count]
        places = np.flatnonzero(values >= least)
    return places[np.argsort(-values[places], kind="stable")[:count]]
