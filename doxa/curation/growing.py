"""Growth: room for new names in a learnt model, and vectors for them while the others stay as they are.

A new entity starts at the mean of those that stand where its beliefs put it: for ⟨x, r, t⟩ the known heads of (r, t).
From there its vectors are fitted to its beliefs by the model's own objective; gradients of rows that are to stay are
dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import polars as pl
import torch
from torch import Tensor

from doxa.beliefs import Beliefs, Ids, Names, Vocabulary
from doxa.calibrator import Calibrator
from doxa.credence import Thresholds
from doxa.errors import UsageError
from doxa.facts import Facts
from doxa.learning.constraints import constraints
from doxa.learning.negatives import Candidates, corrupted_head_share, every_candidate
from doxa.learning.optimiser import RowAdagrad
from doxa.learning.touched import Step
from doxa.learnt import Learnt
from doxa.pbe import PBE, Batch
from doxa.settings import Settings
from doxa.systems import assemble

AnyLearnt = TypeVar("AnyLearnt", bound=Learnt)

STEPS, RATE = 24, 0.1
"""Steps of a fold-in, and the size of the first; it falls linearly to zero."""

FEWEST_CANDIDATES = 512
"""Candidates a step compares with, or all there are."""

LIKE = 64
"""Known entities in the same place that a new one's start is the mean of, at most, for each of its beliefs."""


def fold_in(learnt: AnyLearnt, beliefs: Beliefs, seed: int = 0) -> AnyLearnt:
    """A model that also knows the new entities of these beliefs; the given one stays as it is.

    Only the vectors of the new entities are fitted. Relations must be known ones; unknown words drop out.
    """
    beliefs = beliefs.true_ones()
    relations = learnt.names.relations.ids(beliefs.names.relations.names)[beliefs.relation]
    if (relations < 0).any():
        name = beliefs.names.relations[int(beliefs.relation[int(np.argmax(relations < 0))])]
        raise UsageError(f"no relation {name!r} in this model", "learn it: `doxa update MODEL NEW.tsv --out MODEL2`")
    grown, told = with_room(learnt, beliefs, words=False, seed=seed)
    first = len(learnt.names.entities)
    about_new = np.flatnonzero((told.head >= first) | (told.tail >= first))
    if not len(about_new):
        raise UsageError("these beliefs name no new entity; there is nothing to fold in")
    told = told.take(about_new)
    fitting = Refit(grown.pbe, learnt.settings, rows_from(grown.pbe, entities=first), learnt.trained_facts)
    random = np.random.default_rng([seed, 12])
    batch = max(len(told), 1)
    for number in range(STEPS):
        fitting.step(told, np.arange(batch), RATE * (1 - number / STEPS), random)
    return grown


def with_room(learnt: AnyLearnt, beliefs: Beliefs, words: bool = True, seed: int = 0) -> tuple[AnyLearnt, Beliefs]:
    """The model with rows for every new name of the beliefs, and these in its ids; its facts have joined the known.

    Nothing learnt is changed. Rows of new entities start at the mean of like ones, those of relations at random, those
    of words at zero. Without `words` none are added.
    """
    old, more = learnt.names, beliefs.names
    names = Names(
        _joined(old.entities, more.entities),
        _joined(old.relations, more.relations),
        _joined(old.words, more.words) if words and learnt.pbe.mention is not None else old.words,
    )
    told = beliefs.encoded(names)
    facts = learnt.trained_facts.grown(len(names.entities), len(names.relations)).union(told.triples)
    pbe = _larger(learnt, names, told, seed)
    pbe.score.prepare(facts)
    relations = len(names.relations) - len(old.relations)
    grown = replace(
        learnt,
        names=names,
        pbe=pbe,
        train=facts.triples,
        thresholds=Thresholds(np.append(learnt.thresholds.by_relation, np.full(relations, np.nan)),
                              learnt.thresholds.overall),
        strangers=None if relations else learnt.strangers,
        calibrator=_with_relations(learnt.calibrator, relations),
        expected=None if learnt.expected is None else _with_relations(learnt.expected, relations),
    )  # fmt: skip
    vars(grown)["trained_facts"] = facts
    _start(grown, told, len(old.entities))
    return grown, told


def rows_from(pbe: PBE, entities: int | Ids, relations: int | Ids | None = None, words: int | None = None) -> Movable:
    """Which rows may move: those from a number on, or those listed; none where None."""

    def mask(count: int, chosen: int | Ids | None) -> Tensor:
        found = torch.zeros(count, dtype=torch.bool)
        if isinstance(chosen, np.ndarray):
            found[torch.from_numpy(chosen)] = True
        elif chosen is not None:
            found[chosen:] = True
        return found

    movable = {f"score.{name}.weight": mask(pbe.entities, entities) for name in pbe.score.entity_tables}
    movable |= {f"score.{name}.weight": mask(pbe.relations, relations) for name in pbe.score.relation_tables}
    if pbe.mention is not None:
        movable["mention.word.weight"] = mask(pbe.mention.word.num_embeddings, words)
        if pbe.mention.relation is not None:
            movable["mention.relation.weight"] = mask(pbe.relations, relations)
    return Movable(movable)


@dataclass(frozen=True, eq=False)
class Movable:
    """By the name of each table, which of its rows may move."""

    masks: dict[str, Tensor]

    def keep(self, pbe: PBE) -> None:
        """Drop the gradients of all that is to stay."""
        for name, parameter in pbe.named_parameters():
            mask = self.masks.get(name)
            if parameter.grad is None or mask is None or not mask.any():
                parameter.grad = None
            elif parameter.grad.is_sparse:
                gradient = parameter.grad.coalesce()
                rows = gradient.indices()[0]
                kept = mask[rows]
                parameter.grad = torch.sparse_coo_tensor(
                    rows[kept][None], gradient.values()[kept], gradient.shape, is_coalesced=True
                )
            else:
                parameter.grad[~mask] = 0.0


class Refit:
    """Steps of the model's own objective that move some rows only."""

    def __init__(self, pbe: PBE, settings: Settings, movable: Movable, facts: Facts) -> None:
        self.pbe, self.movable = pbe, movable
        ranking = settings.objective == "margin"
        share = corrupted_head_share(facts.grown(pbe.entities, pbe.relations), settings.corruption) if ranking else None
        self.objective = Step(pbe, settings, share)
        self.optimiser = RowAdagrad(pbe, constraints(pbe, settings.entity_norm))
        self.every = every_candidate(pbe).for_terms(settings, with_words=pbe.mention is not None)
        self.candidates = max(FEWEST_CANDIDATES, settings.candidates)

    def step(self, beliefs: Beliefs, rows: Ids, rate: float, random: np.random.Generator) -> None:
        """One step on some of the beliefs against candidates drawn anew."""
        heads, tails = self._some(self.every.heads, random), self._some(self.every.tails, random)
        drawn = Candidates(heads, self._some(self.every.relations, random), tails)
        loss = self.objective.loss(Batch.of(beliefs, rows), drawn)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        self.move(rate)

    def move(self, rate: float) -> None:
        """Move along the gradients gathered so far, as far as rows may move."""
        self.movable.keep(self.pbe)
        self.optimiser.step(rate)

    def _some(self, ids: Tensor, random: np.random.Generator) -> Tensor:
        """About so many distinct ones, sorted; drawn with repetition, which is quick."""
        if len(ids) <= self.candidates:
            return ids
        return ids[torch.from_numpy(np.unique(random.integers(0, len(ids), self.candidates)))]


def _joined(old: Vocabulary, more: Vocabulary) -> Vocabulary:
    new = more.names.filter(pl.Series(old.ids(more.names) < 0))
    return Vocabulary(pl.concat([old.names, new]), old.kind) if len(new) else old


def _with_relations(calibrator: Calibrator, count: int) -> Calibrator:
    if not count:
        return calibrator
    return replace(
        calibrator,
        slopes=np.append(calibrator.slopes, np.full(count, calibrator.slope)),
        offsets=np.append(calibrator.offsets, np.full(count, calibrator.offset)),
    )


def _larger(learnt: Learnt, names: Names, told: Beliefs, seed: int) -> PBE:
    """The same weights with rows for more names; what has been seen as head and tail includes the new beliefs."""
    old = learnt.pbe
    seen = [torch.from_numpy(np.union1d(part.numpy(), ids))
            for part, ids in ((old.seen_heads, told.head), (old.seen_tails, told.tail))]  # fmt: skip
    made = assemble(
        learnt.settings,
        entities=len(names.entities),
        relations=len(names.relations),
        words=len(names.words),
        seen_heads=seen[0],
        seen_tails=seen[1],
        draw=False,
    )
    state = {}
    generator = torch.Generator().manual_seed(seed)
    own = old.state_dict()
    for name, shape in ((name, tensor.shape) for name, tensor in made.state_dict().items()):
        if name in ("seen_heads", "seen_tails"):
            state[name] = seen[name == "seen_tails"]
            continue
        kept = own[name]
        if kept.shape != shape:
            fresh = kept.new_zeros(shape[0] - kept.shape[0], *shape[1:])
            if name.startswith("score.") or name == "mention.relation.weight":
                fresh.normal_(std=shape[-1] ** -0.5, generator=generator)
            kept = torch.cat([kept, fresh])
        else:
            kept = kept.clone()
        state[name] = kept
    made.load_state_dict(state, assign=True)
    made.memory = old.memory
    return made.eval()


@torch.no_grad()
def _start(grown: Learnt, told: Beliefs, first: int) -> None:
    """Put each new entity at the mean of known ones in its places, if there are any."""
    known = grown.trained_facts
    count = len(grown.names.entities) - first
    tables = [grown.pbe.get_parameter(f"score.{name}.weight") for name in grown.pbe.score.entity_tables]
    sums = [table.new_zeros(count, table.shape[1]) for table in tables]
    weights = torch.zeros(count)
    for own in (told.head, told.tail):
        rows = np.flatnonzero(own >= first)
        head, relation, tail = told.head[rows], told.relation[rows], told.tail[rows]
        question, answer = known.heads(relation, tail) if own is told.head else known.tails(head, relation)
        fitting = answer < first
        question, answer = question[fitting], answer[fitting]
        within = np.arange(len(question)) - np.searchsorted(question, question)
        question, answer = question[within < LIKE], answer[within < LIKE]
        if not len(question):
            continue
        sizes = np.bincount(question, minlength=len(rows))
        share = torch.from_numpy(1 / sizes[question])
        target = torch.from_numpy(own[rows][question] - first)
        for table, total in zip(tables, sums, strict=True):
            total.index_add_(0, target, table[torch.from_numpy(answer)] * share[:, None].to(table.dtype))
        weights.index_add_(0, target, share.float())
    placed = weights > 0
    for table, total in zip(tables, sums, strict=True):
        table[first:][placed] = total[placed] / weights[placed, None].to(table.dtype)
