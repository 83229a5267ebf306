"""Queries: which head, relation or tail is missing (Eqs 6, 8–10, 12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from doxa.calibration.sentences import relation_log_probabilities
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs, no_confidence
from doxa.data.mentions import Ragged, encode_words, words
from doxa.data.places import encode_with_places
from doxa.data.vocabulary import UNKNOWN, Ids
from doxa.errors import UsageError
from doxa.index.entity_index import EntityIndex
from doxa.inference.answer import Answer, Candidate, best_candidates, sentence_note
from doxa.model import Model
from doxa.pbe import softmax, with_mention
from doxa.slots import ENTITY_SLOTS, Slot

Question = tuple[str, str, str] | tuple[str, str, str, str | None]
"""⟨head, relation, tail⟩ with '?' for the missing part, and a mention if that is the relation."""

INDEX_BLOCK = 64
"""Questions that the index answers together."""

FullQuestion = tuple[str, str, str, str | None]

NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.int64))
"""No known answers: the knowledge base says nothing of an unseen entity."""


@torch.no_grad()
def ask(
    model: Model,
    questions: Sequence[Question],
    top: int = 10,
    new_only: bool = False,
    memory: int = 0,
    use_index: bool | None = None,
) -> list[Answer]:
    """The `top` most probable candidates of each question, in the order of the questions.

    Candidates are the entities seen in that slot in training, or all relations. With `new_only` known answers are
    left out, and the probabilities sum to 1 over the others. Questions of one kind are answered together, in blocks;
    `memory` bounds their tables of scores in bytes, 0 = automatic. `use_index` is as in `Model.ask`.
    """
    if top < 1:
        raise UsageError(f"top is {top}; expected at least 1")
    asked = [_complete(question, number) for number, question in enumerate(questions, start=1)]
    pbe, exponent, index = model.pbe, model.calibration.mention_exponent, model.answering_index(use_index)
    answers: dict[int, tuple[Candidate, ...]] = {}
    notes: dict[int, str] = {}
    errors: dict[int, float] = {}
    for group in _groups(model, asked):
        slot, queries, temperature = group.slot, group.queries, group.temperature
        if index is not None and slot is not Slot.RELATION:
            for number, best, error in _by_index(model, index, group, top, new_only):
                answers[number], errors[number] = best, error
            continue
        names = model.vocabularies.relations if slot is Slot.RELATION else model.vocabularies.entities
        for rows in pbe.blocks(len(queries), len(names), memory):
            batch, known = Batch.of(queries, rows), model.known.answers(slot, *queries.triples[rows].T)
            without = known if new_only else None
            if group.from_sentence:
                part, known = queries.take(rows), NOTHING
                notes |= {number: _note(asked[number], ids) for number, *ids in zip(group.numbers[rows].tolist(),
                          part.head.tolist(), part.tail.tolist(), strict=True)}  # fmt: skip
                logs = relation_log_probabilities(pbe, model.trained_facts, part, model.calibration.sentence)
                distribution = softmax(logs, torch.arange(pbe.relations))
            elif slot is Slot.RELATION:
                pair, mention = pbe.distribution(slot, batch), pbe.mention_distribution(batch)
                distribution = with_mention(pair, mention, exponent, temperature, without)
            else:
                distribution = pbe.distribution(slot, batch, temperature=temperature, without=without)
            candidates = best_candidates(distribution, names, known, top)
            answers |= dict(zip(group.numbers[rows].tolist(), candidates, strict=True))
    summary = None if index is None else index.summary
    return [
        Answer(question, answers[number], notes.get(number), *((errors[number], summary) if number in errors else ()))
        for number, question in enumerate(asked)
    ]


class _Group(NamedTuple):
    """Questions with the same missing slot and temperature: their numbers, and their ids as beliefs.

    The column of the missing slot is 0 and is not read. `from_sentence`: an entity is unseen, the mention answers.
    """

    slot: Slot
    temperature: float
    numbers: Ids
    queries: Beliefs
    from_sentence: bool = False


def _by_index(
    model: Model, index: EntityIndex, group: _Group, top: int, new_only: bool
) -> Iterator[tuple[int, tuple[Candidate, ...], float]]:
    """The number of each question of a group, its best candidates, and the standard error of its probabilities."""
    names, slot = model.vocabularies.entities, group.slot
    for start in range(0, len(group.queries), INDEX_BLOCK):
        rows = np.arange(start, min(start + INDEX_BLOCK, len(group.queries)))
        batch, known = Batch.of(group.queries, rows), model.known.answers(slot, *group.queries.triples[rows].T)
        without = known if new_only else None
        distributions = index.distributions(slot, batch, top, temperature=group.temperature, without=without)
        for row, distribution in enumerate(distributions):
            answers = known[1][known[0] == row]
            pairs = np.zeros(len(answers), np.int64), answers
            error = 0.0 if distribution.relative_error is None else float(distribution.relative_error[0])
            yield int(group.numbers[rows[row]]), best_candidates(distribution, names, pairs, top)[0], error


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
        unseen = (queries.head == UNKNOWN) | (queries.tail == UNKNOWN)
        if unseen.any():
            yield _Group(slot, 1.0, numbers[unseen], queries.where(unseen), from_sentence=True)
        for rows, temperature in ((~mentioned, temperatures.relation), (mentioned, temperatures.relation_with_mention)):
            if (rows & ~unseen).any():
                yield _Group(slot, temperature, numbers[rows & ~unseen], queries.where(rows & ~unseen))


def _encode(model: Model, questions: Sequence[FullQuestion], slot: Slot) -> Beliefs:
    """Questions with the same missing slot in the ids of the model.

    An unknown name is an error, but for an entity of a relation question that its mention can answer.
    """
    vocabularies, count = model.vocabularies, len(questions)
    kinds = (vocabularies.entities, vocabularies.relations, vocabularies.entities)
    head, relation, tail = (
        np.zeros(count, np.int64)
        if place is slot
        else kinds[place].ids_of([question[place] or "" for question in questions])
        for place in Slot
    )
    mention = Ragged.empty(count)
    if slot is Slot.RELATION and model.pbe.mention is not None:
        text = pl.Series([question[3] for question in questions], dtype=pl.String)
        if vocabularies.places:
            heads, tails = (pl.Series([question[place] for question in questions]) for place in ENTITY_SLOTS)
            mention = encode_with_places(text, heads, tails, vocabularies.words)
        else:
            mention = encode_words(words(text), vocabularies.words.ids)
    for place, ids in zip(Slot, (head, relation, tail), strict=True):
        refused = np.flatnonzero((ids == UNKNOWN) & (mention.lengths == 0))
        if len(refused):
            kinds[place].require(str(questions[refused[0]][place]))
    return Beliefs(vocabularies, head, relation, tail, mention, no_confidence(count))


def _note(question: FullQuestion, ids: Sequence[int]) -> str:
    """What an answer about entities with these ids, of which at least one is unseen, rests on."""
    names = zip((question[0], question[2]), ids, strict=True)
    return sentence_note([name for name, number in names if number == UNKNOWN])


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
