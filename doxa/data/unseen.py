"""Held-out beliefs that do not fit: with names that training never sees, or known to training already."""

from __future__ import annotations

import logging

import numpy as np

from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import UNKNOWN
from doxa.errors import UsageError
from doxa.slots import Slot

log = logging.getLogger(__name__)


def check_names(valid: Beliefs, encoded: Beliefs, strict: bool, use: str = "they are not ranked") -> None:
    """Report how many validation beliefs have names that training never sees; with `strict`, the first is an error.

    `encoded` are the beliefs `valid` in the vocabularies of training. `use` says what becomes of the reported beliefs.
    """
    if encoded.seen.all():
        return
    if strict:
        raise _first_unseen(valid, encoded)
    log.warning(
        "validation: %s of %s beliefs have names training never sees; %s",
        f"{int((~encoded.seen).sum()):,}",
        f"{len(encoded):,}",
        use,
    )


def report_known(name: str, beliefs: Beliefs | None, trained: TripleIndex) -> None:
    """Report how many true beliefs of a validation or test set are facts of training."""
    if beliefs is None:
        return
    true = beliefs.positives()
    known = int(trained.contains(true.head, true.relation, true.tail).sum())
    if known:
        log.warning(
            "%s: %s of %s true beliefs are in the training data too: they say little about new beliefs",
            name,
            f"{known:,}",
            f"{len(true):,}",
        )


def _first_unseen(valid: Beliefs, encoded: Beliefs) -> UsageError:
    """The error that names the first unseen name."""
    row = int(np.argmin(encoded.seen))
    slot = next(slot for slot in Slot if encoded.triples[row, slot] == UNKNOWN)
    relations, entities = valid.vocabularies.relations, valid.vocabularies.entities
    kind, names = ("relation", relations) if slot is Slot.RELATION else ("entity", entities)
    name = names[int(valid.triples[row, slot])]
    return UsageError(
        f"belief {row + 1} of the validation set has the {kind} {name!r}, which training never sees",
        "strict=False counts such beliefs and goes on",
        remedy="not_strict",
    )
