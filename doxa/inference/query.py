"""Queries: which head, relation or tail is missing (Eqs 6, 8–10, 12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs, no_confidence
from doxa.data.mentions import Ragged, encode_words, words
from doxa.data.vocabulary import Ids
from doxa.errors import UsageError
from doxa.inference.answer import Answer, Candidate, best_candidates
from doxa.model import Model
from doxa.pbe import with_mention
from doxa.slots import Slot

Question = tuple[str, str, str] | tuple[str, str, str, str | None]
"""⟨head, relation, tail⟩ with '?' for the missing part, and a mention if that is the relation."""

FullQuestion = tuple[str, str, str, str | None]


@torch.no_grad()
def ask(
    model: Model, questions: Sequence[Question], top: int = 10, new_only: bool = False, memory: int = 0
) -> list[Answer]:
    """The `top` most probable candidates of each question, in the order of the questions.

    Candidates are the entities seen in that slot in training, or all relations. With `new_only` known answers are
    left out, and the probabilities sum to 1 over the others. Questions of one kind are answered together, in blocks;
    `memory` bounds their tables of scores in bytes, 0 = automatic.
    """
    if top < 1:
        raise UsageError(f"top is {top}; expected at least 1")
    asked = [_complete(question, number) for number, question in enumerate(questions, start=1)]
    pbe, exponent = model.pbe, model.calibration.mention_exponent
    answers: dict[int, tuple[Candidate, ...]] = {}
    for group in _groups(model, asked):
        slot, queries, temperature = group.slot, group.queries, group.temperature
        names = model.vocabularies.relations if slot is Slot.RELATION else model.vocabularies.entities
        for rows in pbe.blocks(len(queries), len(names), memory):
            batch, known = Batch.of(queries, rows), model.known.answers(slot, *queries.triples[rows].T)
            without = known if new_only else None
            if slot is Slot.RELATION:
                pair, mention = pbe.distribution(slot, batch), pbe.mention_distribution(batch)
                distribution = with_mention(pair, mention, exponent, temperature, without)
            else:
                distribution = pbe.distribution(slot, batch, temperature=temperature, without=without)
            candidates = best_candidates(distribution, names, known, top)
            answers |= dict(zip(group.numbers[rows].tolist(), candidates, strict=True))
    return [Answer(question, answers[number]) for number, question in enumerate(asked)]


class _Group(NamedTuple):
    """Questions with the same missing slot and temperature: their numbers, and their ids as beliefs.

    The column of the missing slot is 0 and is not read.
    """

    slot: Slot
    temperature: float
    numbers: Ids
    queries: Beliefs


def _groups(model: Model, questions: Sequence[FullQuestion]) -> Iterator[_Group]:
    """The questions by missing slot, those about relations also by whether they have a mention of known words."""
    slots = np.array([_missing(question, number) for number, question in enumerate(questions)], np.int64)
    for slot in Slot:
        numbers = np.flatnonzero(slots == slot)
        if not len(numbers):
            continue
        model.must_answer("relation" if slot is Slot.RELATION else "entity")
        queries = _encode(model, [questions[number] for number in numbers.tolist()], slot)
        temperatures, mentioned = model.calibration.temperatures, queries.mention.lengths > 0
        if slot is not Slot.RELATION:
            yield _Group(slot, getattr(temperatures, str(slot)), numbers, queries)
            continue
        for rows, temperature in ((~mentioned, temperatures.relation), (mentioned, temperatures.relation_with_mention)):
            if rows.any():
                yield _Group(slot, temperature, numbers[rows], queries.where(rows))


def _encode(model: Model, questions: Sequence[FullQuestion], slot: Slot) -> Beliefs:
    """Questions with the same missing slot in the ids of the model; an unknown name is an error."""
    vocabularies, count = model.vocabularies, len(questions)
    kinds = (vocabularies.entities, vocabularies.relations, vocabularies.entities)
    head, relation, tail = (
        np.zeros(count, np.int64)
        if place is slot
        else kinds[place].require([str(question[place]) for question in questions])
        for place in Slot
    )
    mention = Ragged.empty(count)
    if slot is Slot.RELATION and model.pbe.mention is not None:
        text = pl.Series([question[3] for question in questions], dtype=pl.String)
        mention = encode_words(words(text), vocabularies.words.ids)
    return Beliefs(vocabularies, head, relation, tail, mention, no_confidence(count))


def _missing(question: FullQuestion, number: int) -> Slot:
    """The slot that is asked for."""
    missing = [slot for slot in Slot if question[slot] == "?"]
    if len(missing) != 1:
        raise UsageError(
            f"question {number + 1}, {' '.join(question[:3])!r}: {len(missing) or 'none'} of head, relation and tail "
            f"{'is' if len(missing) < 2 else 'are'} '?'; expected exactly one",
            "for example: ('Lyon', 'located in', '?')",
            remedy="question",
        )
    if missing != [Slot.RELATION] and question[3]:
        raise UsageError(f"question {number + 1}: a mention helps to predict the relation, which is already given")
    return missing[0]


def _complete(question: Question, number: int) -> FullQuestion:
    """The question as text with its mention, None where it has none; `number` is its place from 1."""
    if not isinstance(question, tuple | list) or len(question) not in (3, 4):
        raise UsageError(
            f"question {number} is {question!r}; expected (head, relation, tail), with a mention or without",
            "for example: ('Lyon', 'located in', '?')",
            remedy="question",
        )
    mention = question[3] if len(question) > 3 else None
    return str(question[0]), str(question[1]), str(question[2]), None if mention is None else str(mention)
