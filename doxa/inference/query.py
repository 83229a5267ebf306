"""Many questions of any kind at once."""

from __future__ import annotations

from collections.abc import Sequence

from doxa.errors import UsageError
from doxa.inference.answer import Answer
from doxa.inference.entities import heads, tails
from doxa.inference.relations import relations
from doxa.model import Model

Question = tuple[str, str, str] | tuple[str, str, str, str | None]
"""⟨head, relation, tail⟩ with '?' for the one missing, and a mention when that is the relation."""


def ask(model: Model, questions: Sequence[Question], top: int = 10, new_only: bool = False) -> list[Answer]:
    """The answers, in the order of the questions; those of one kind are worked out together, block by block."""
    kinds: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for number, question in enumerate(questions):
        kinds[_missing(question, number)].append(number)
    found: dict[int, Answer] = {}
    for kind, numbers in kinds.items():
        if not numbers:
            continue
        of_kind = [questions[number] for number in numbers]
        head, relation, tail = [q[0] for q in of_kind], [q[1] for q in of_kind], [q[2] for q in of_kind]
        if kind == 0:
            answers = heads(model, relation, tail, top, new_only)
        elif kind == 2:
            answers = tails(model, head, relation, top, new_only)
        else:
            mentions = [q[3] if len(q) > 3 else None for q in of_kind]
            answers = relations(model, head, tail, mentions, top, new_only)
        found |= dict(zip(numbers, answers, strict=True))
    return [found[number] for number in range(len(questions))]


def _missing(question: Question, number: int) -> int:
    """Which part is asked for."""
    missing = [place for place in range(3) if question[place] == "?"]
    if len(missing) != 1:
        raise UsageError(
            f"question {number + 1}, {' '.join(question[:3])!r}: {len(missing) or 'none'} of head, relation and tail "
            f"{'is' if len(missing) < 2 else 'are'} '?'; expected exactly one",
            "for example: doxa ask MODEL Lyon 'located in' '?'",
        )
    if missing != [1] and len(question) > 3 and question[3]:
        raise UsageError(f"question {number + 1}: a mention helps to find the relation, which here is given")
    return missing[0]
