"""Queries: which head, relation or tail is missing (Eqs 6, 8–10, 12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs, no_confidence
from doxa.data.mentions import Ragged, encode_words, words
from doxa.data.vocabulary import Ids
from doxa.errors import UsageError
from doxa.inference.answer import Answer, Candidate, best_candidates, columns_of
from doxa.model import Model
from doxa.pbe import PBE
from doxa.slots import Slot

Question = tuple[str, str, str] | tuple[str, str, str, str | None]
"""⟨head, relation, tail⟩ with '?' for the missing part, and a mention if that is the relation."""


@torch.no_grad()
def ask(model: Model, questions: Sequence[Question], top: int = 10, new_only: bool = False) -> list[Answer]:
    """The `top` most probable candidates of each question, in the order of the questions.

    Candidates are the entities seen in that slot in training, or all relations. With `new_only` known answers are
    left out, and the probabilities sum to 1 over the others. Questions of one kind are answered together, in blocks.
    """
    pbe = model.pbe
    answers: dict[int, tuple[Candidate, ...]] = {}
    for group in _groups(model, questions):
        slot, queries = group.slot, group.queries
        names = model.vocabularies.relations if slot is Slot.RELATION else model.vocabularies.entities
        for rows in pbe.blocks(len(queries), len(names)):
            logits, ids = _logits(pbe, slot, Batch.of(queries, rows))
            logits.div_(group.temperature)
            triples = (queries.head[rows], queries.relation[rows], queries.tail[rows])
            known = columns_of(model.known.answers(slot, *triples), ids)
            if new_only:
                logits[torch.from_numpy(known[0]), torch.from_numpy(known[1])] = -torch.inf
            candidates = best_candidates(logits, logits.logsumexp(1), ids, names, known, top)
            answers |= dict(zip(group.numbers[rows].tolist(), candidates, strict=True))
    return [Answer(_with_mention(question), answers[number]) for number, question in enumerate(questions)]


def _logits(pbe: PBE, slot: Slot, batch: Batch) -> tuple[Tensor, Ids]:
    """Logits of all candidates, (B, C), and their ids; -inf for an entity never seen in that slot."""
    if slot is Slot.RELATION:
        logs = pbe.log_relations_with_mention(batch.head, batch.tail, batch.words, batch.offsets)
        return logs, np.arange(pbe.relations)
    seen = pbe.seen_heads if slot is Slot.HEAD else pbe.seen_tails
    few = 2 * len(seen) < pbe.entities
    if slot is Slot.HEAD:
        logits = pbe.head_logits(batch.relation, batch.tail, seen if few else None)
    else:
        logits = pbe.tail_logits(batch.head, batch.relation, seen if few else None)
    if few:
        return logits, seen.numpy()
    unseen = torch.ones(pbe.entities, dtype=torch.bool).index_fill_(0, seen, False).nonzero().squeeze(1)
    return logits.index_fill_(1, unseen, -torch.inf), np.arange(pbe.entities)


class _Group(NamedTuple):
    """Questions with the same missing slot and temperature: their numbers, and their ids as beliefs.

    The column of the missing slot is 0 and is not read.
    """

    slot: Slot
    temperature: float
    numbers: Ids
    queries: Beliefs


def _groups(model: Model, questions: Sequence[Question]) -> Iterator[_Group]:
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
        for rows, heat in ((~mentioned, temperatures.relation), (mentioned, temperatures.relation_with_mention)):
            if rows.any():
                yield _Group(slot, heat, numbers[rows], queries.where(rows))


def _encode(model: Model, questions: Sequence[Question], slot: Slot) -> Beliefs:
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
        text = pl.Series([_with_mention(question)[3] for question in questions], dtype=pl.String)
        mention = encode_words(words(text), vocabularies.words.ids)
    return Beliefs(vocabularies, head, relation, tail, mention, no_confidence(count))


def _missing(question: Question, number: int) -> Slot:
    """The slot that is asked for."""
    missing = [slot for slot in Slot if question[slot] == "?"]
    if len(missing) != 1:
        raise UsageError(
            f"question {number + 1}, {' '.join(question[:3])!r}: {len(missing) or 'none'} of head, relation and tail "
            f"{'is' if len(missing) < 2 else 'are'} '?'; expected exactly one",
            "for example: ('Lyon', 'located in', '?')",
        )
    if missing != [Slot.RELATION] and _with_mention(question)[3]:
        raise UsageError(f"question {number + 1}: a mention helps to predict the relation, which is already given")
    return missing[0]


def _with_mention(question: Question) -> tuple[str, str, str, str | None]:
    """The question with its mention, None where it has none."""
    return (*question[:3], question[3] if len(question) > 3 else None)
