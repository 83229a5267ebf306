"""Completion: the best new beliefs of a whole knowledge base.

A pair of entities is a candidate for relation r where one of them has been seen in its place of r; by default both. An
entity is not paired with itself, unless a known belief of the relation does; on demand, nor is a second answer proposed
where the relation seldom has two. The log of Pr(h, r, t) is a mean of three logarithms, none above 0, so a
candidate may be dropped as soon as those already known leave it no way into the list:

    log Pr(t|h,r) / 3  ≥  (log Pr(t|h,r) + log Pr(h|r,t)) / 3  ≥  log Pr(h,r,t)

What remains is exactly what scoring every candidate would have found.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from doxa.calibration.thresholds import Numbers
from doxa.curation.audit import several_answers
from doxa.curation.bare import bare, precise
from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Ids, Vocabularies
from doxa.errors import DoxaError, UsageError
from doxa.evaluation.protocol import ranks
from doxa.model import Model
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS
from doxa.training.checkpoint import Checkpoint

PRECISION = 9
"""Decimals of credence and its logarithm that decide the order; equal ones stand in order of their ids."""

SELDOM = 0.1
"""Share of a relation's heads (tails) with several answers below which a second answer contradicts the first."""

SLACK = 1e-7
"""How far below the last place of the list a candidate is still looked at."""

WEIGHTS = {"product": (1 / 3, 1 / 3, 1 / 3), "entities": (1.0, 0.0, 1.0), "learned": (1.0, 0.0, 1.0),
           "tail": (0.0, 0.0, 1.0), "score": (0.0, 0.0, 0.0)}  # fmt: skip
"""What the three logarithms count in the evidence credence is calibrated from, by the decision rule."""


@dataclass(frozen=True, eq=False)
class Proposals:
    """New beliefs, best first. `terms`, (n, 3), are Pr(h|r,t), Pr(r|h,t) and Pr(t|h,r); the ranks are filtered ones:
    how many unknown heads (tails) the model finds better in that place, and one."""

    names: Vocabularies
    triples: NDArray[np.int64]
    credence: Numbers
    terms: Numbers
    head_rank: Numbers
    tail_rank: Numbers

    def __len__(self) -> int:
        return len(self.triples)

    @property
    def beliefs(self) -> Beliefs:
        return bare(self.names, self.triples)

    def to_frame(self) -> pl.DataFrame:
        """Rank, belief, credence, the probability of each direction and the ranks in each, by name."""
        by_name = self.beliefs.to_frame()
        numbers = {"credence": self.credence, "pr_head": self.terms[:, 0], "pr_relation": self.terms[:, 1],
                   "pr_tail": self.terms[:, 2]}  # fmt: skip
        return by_name.with_columns(
            pl.Series("rank", np.arange(1, len(self) + 1)),
            *(pl.Series(name, column).round_sig_figs(6) for name, column in numbers.items()),
            pl.Series("head_rank", self.head_rank),
            pl.Series("tail_rank", self.tail_rank),
        )


@dataclass(frozen=True)
class Advance:
    """How far the search has come: share of the work, relation at hand, and the credence of the last place so far."""

    fraction: float
    relation: str
    found: int
    last_credence: float


class _Found(NamedTuple):
    """Candidates: ids (n, 3), credence (n,), evidence (n,), logarithms of the three terms (n, 3)."""

    triples: NDArray[np.int64]
    credence: Numbers
    evidence: Numbers
    terms: Numbers

    @classmethod
    def none(cls) -> _Found:
        return cls(np.zeros((0, 3), np.int64), np.zeros(0), np.zeros(0), np.zeros((0, 3)))

    def take(self, rows: Ids) -> _Found:
        return _Found(self.triples[rows], self.credence[rows], self.evidence[rows], self.terms[rows])

    def and_(self, others: Sequence[_Found]) -> _Found:
        return _Found(*(np.concatenate(columns) for columns in zip(self, *others, strict=True)))

    def best(self, count: int) -> _Found:
        order = np.lexsort((*self.triples.T[::-1], -self.evidence.round(PRECISION), -self.credence.round(PRECISION)))
        return self.take(order[:count])


def complete(
    model: Model,
    *,
    relations: Sequence[str] = (),
    entities: Sequence[str] = (),
    min_credence: float = 0.8,
    top: int = 10_000,
    any_entity: bool = False,
    contradicting: bool = True,
    rows: int = 0,
    report: Callable[[Advance], None] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> Proposals:
    """The `top` most credible new beliefs of credence `min_credence` or more, over all relations or some.

    `entities` keeps beliefs about these alone. `any_entity` also proposes entities in places of a relation they were
    never seen in. Without `contradicting` no second answer is proposed where the relation seldom has two. `rows` is how
    many questions are scored at a time, 0 as many as fit the memory; it does not change what is found. `checkpoint` is
    a file that keeps the state of the search, from which it can be resumed.
    """
    model.must_answer("classification")
    if not 0 <= min_credence <= 1:
        raise UsageError(f"min_credence is {min_credence}; expected a number from 0 to 1")
    if top < 1:
        raise UsageError(f"top is {top}; expected at least 1")
    wanted = (
        model.vocabularies.relations.require(relations) if relations else np.arange(len(model.vocabularies.relations))
    )
    about = np.unique(model.vocabularies.entities.require(entities)) if entities else None
    search = _Search(model, about, min_credence, top, any_entity, contradicting, rows)
    work = [number for number in np.unique(wanted).tolist() if search.tells(number)]
    asked = [work, None if about is None else about.tolist(), min_credence, top, any_entity, contradicting]
    inputs = _fingerprint(model, asked)
    done = 0
    if resume and checkpoint is not None:
        done = search.resume(Checkpoint.load(checkpoint), inputs)
    cost = np.cumsum([0, *(search.cost(number) for number in work)])
    saved = time.monotonic()
    for place, number in enumerate(work):
        if place < done:
            continue
        if report:
            name, count = model.vocabularies.relations[number], len(search.found.credence)
            report(Advance(cost[place] / cost[-1], name, count, search.last))
        search.look(number)
        if checkpoint is not None and time.monotonic() - saved > model.settings.checkpoint_seconds:
            search.save(checkpoint, inputs, place + 1)
            saved = time.monotonic()
    found = search.finish()
    beliefs = bare(model.vocabularies, found.triples)
    if report:
        report(Advance(1.0, "ranks", len(beliefs), search.last))
    filtered = [ranks(model.pbe, slot, beliefs, model.known).filtered for slot in ENTITY_SLOTS]
    return Proposals(model.vocabularies, found.triples, found.credence, np.exp(found.terms), *filtered)


class _Search:
    """The best candidates so far, and what it takes to be among them."""

    def __init__(
        self,
        model: Model,
        about: Ids | None,
        least: float,
        top: int,
        any_entity: bool,
        contradicting: bool,
        rows: int,
    ) -> None:
        self.model, self.about, self.least, self.top, self.rows = model, about, least, top, rows
        self.any_entity = any_entity
        self.pbe: PBE = precise(model.pbe)
        self.known = model.known
        self.weights = np.array(WEIGHTS[model.calibration.rule])
        self.of_score = float(model.calibration.rule == "score")
        self.places = {column: model.trained_facts.positions(column) for column in (0, 2)}
        loops = self.known.triples[self.known.triples[:, 0] == self.known.triples[:, 2], 1]
        self.loops = np.bincount(loops, minlength=self.known.relations) > 0
        self.single = [(several_answers(self.known, column) < SELDOM) & (not contradicting) for column in (0, 2)]
        self.seen = {0: self.pbe.seen_heads, 2: self.pbe.seen_tails}
        self.found = _Found.none()
        self.more: list[_Found] = []
        self.full = False

    @property
    def last(self) -> float:
        """Credence of the last place of a full list, else the least that is asked for."""
        return float(self.found.credence[-1]) if self.full else self.least

    def tells(self, relation: int) -> bool:
        """Whether the relation has facts to go by and credence rises with the evidence, as it must to mean anything."""
        return self.model.calibration.curve.rises(relation) and len(self.pool(relation, 0)) > 0

    def pool(self, relation: int, column: int) -> Ids:
        """Entities seen in that place of the relation."""
        of_relation, entity = self.places[column]
        return entity[slice(*np.searchsorted(of_relation, [relation, relation + 1]))]

    def cost(self, relation: int) -> int:
        heads, tails = len(self.pool(relation, 0)), len(self.pool(relation, 2))
        return (heads + tails) if self.any_entity else min(heads, tails)

    @torch.no_grad()
    def look(self, relation: int) -> None:
        """Search the candidates of one relation."""
        normalizers = {column: np.full(self.pbe.entities, np.nan) for column in (0, 2)}
        heads, tails = self.pool(relation, 0), self.pool(relation, 2)
        if self.any_entity:
            self._look(relation, 2, heads, self.seen[2].numpy(), normalizers)
            self._look(relation, 0, tails, np.setdiff1d(self.seen[0].numpy(), heads), normalizers)
        elif len(heads) <= len(tails):
            self._look(relation, 2, heads, tails, normalizers)
        else:
            self._look(relation, 0, tails, heads, normalizers)

    def _look(self, relation: int, asked: int, given: Ids, pool: Ids, normalizers: dict[int, Numbers]) -> None:
        """Ask for heads (asked = 0) or tails (2) of every given entity of the other place, among a pool."""
        for block in self._blocks(len(given), max(len(pool), len(self.seen[asked]))):
            some = given[block]
            here = pool
            if self.about is not None and not np.isin(some, self.about).all():
                here = pool if np.isin(some, self.about).any() else np.intersect1d(pool, self.about)
            if not len(here):
                continue
            self._normalize(relation, asked, some, normalizers)
            logits = self._logits(relation, asked, some, torch.from_numpy(here))
            own = (logits - torch.from_numpy(normalizers[asked][some])[:, None]).clamp_max_(0.0)
            bound = own * self.weights[asked] + logits * self.of_score
            place, column = (ids.numpy() for ids in torch.nonzero(bound >= self._floor(relation), as_tuple=True))
            triples = np.full((len(place), 3), relation)
            triples[:, 2 - asked], triples[:, asked] = some[place], here[column]
            new = ~self.known.contains(triples[:, 0], relation + np.zeros_like(place), triples[:, 2])
            new &= self._allowed(relation, triples)
            if self.about is not None:
                new &= np.isin(triples[:, [0, 2]], self.about).any(axis=1)
            self._judge(relation, asked, triples[new], own[place, column].numpy()[new],
                        logits[place, column].numpy()[new], normalizers)  # fmt: skip

    def _allowed(self, relation: int, triples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which are neither of an entity with itself nor a second answer, in a relation that has none such."""
        allowed = np.ones(len(triples), bool)
        if not self.loops[relation]:
            allowed &= triples[:, 0] != triples[:, 2]
        facts = self.known.triples
        for column, single in zip((0, 2), self.single, strict=True):
            if single[relation]:
                allowed &= ~np.isin(triples[:, column], facts[facts[:, 1] == relation, column])
        return allowed

    def _judge(
        self, relation: int, asked: int, triples: NDArray[np.int64], own: Numbers, logits: Numbers,
        normalizers: dict[int, Numbers],
    ) -> None:  # fmt: skip
        """The other two terms of candidates, dropping those that cannot be among the best after each."""
        other = 2 - asked
        self._normalize(relation, other, np.unique(triples[:, asked]), normalizers)
        terms = np.zeros((len(triples), 3))
        terms[:, asked] = own
        terms[:, other] = np.minimum(logits - normalizers[other][triples[:, asked]], 0.0)
        kept = terms @ self.weights + self.of_score * logits >= self._floor(relation)
        triples, terms, logits = triples[kept], terms[kept], logits[kept]
        for block in self._blocks(len(triples), self.pbe.relations):
            head, tail = (torch.from_numpy(np.ascontiguousarray(triples[block, column])) for column in (0, 2))
            all_relations = self.pbe.relation_logits(head, tail).logsumexp(1).numpy()
            terms[block, 1] = np.minimum(logits[block] - all_relations, 0.0)
        evidence = terms @ self.weights + self.of_score * logits
        kept = evidence >= self._floor(relation)
        triples, terms, evidence = triples[kept], terms[kept], evidence[kept]
        self.more.append(_Found(triples, self._credence(evidence, relation), evidence, terms))
        if sum(len(part.credence) for part in self.more) > max(self.top, 100_000):
            self._gather()

    def _gather(self) -> None:
        self.found = self.found.and_(self.more).best(self.top)
        self.more = []
        self.full = len(self.found.credence) == self.top

    def finish(self) -> _Found:
        """The best of all, those too little credible left out."""
        self._gather()
        enough = self.found.credence.round(PRECISION) >= round(self.least, PRECISION)
        return self.found.take(np.flatnonzero(enough))

    def _floor(self, relation: int) -> float:
        """The least evidence with which a belief of this relation can be in the list."""
        least, evidence = self.least, -np.inf
        if self.full:
            least, evidence = max(self.last, self.least), float(self.found.evidence[-1])

        def enough(value: float) -> bool:
            credence = float(self._credence(np.array([value]), relation)[0])
            return credence > least + SLACK or (
                credence >= least - SLACK and (evidence == -np.inf or value >= evidence)
            )

        low, high = -1e4, 1e4
        if enough(low):
            return -np.inf
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return low - SLACK

    def _credence(self, evidence: Numbers, relation: int) -> Numbers:
        return self.model.calibration.curve.probability(evidence, np.full(len(evidence), relation))

    def _normalize(self, relation: int, asked: int, given: Ids, normalizers: dict[int, Numbers]) -> None:
        """log Σ exp over all entities seen as head (tail) anywhere, for given tails (heads) that lack it."""
        lacking = given[np.isnan(normalizers[asked][given])]
        for block in self._blocks(len(lacking), len(self.seen[asked])):
            logits = self._logits(relation, asked, lacking[block], self.seen[asked])
            normalizers[asked][lacking[block]] = logits.logsumexp(1).numpy()

    def _logits(self, relation: int, asked: int, given: Ids, candidates: Tensor) -> Tensor:
        entity = torch.from_numpy(given)
        relations = torch.full_like(entity, relation)
        every = None if len(candidates) == self.pbe.entities else candidates
        if asked == 0:
            return self.pbe.head_logits(relations, entity, every)
        return self.pbe.tail_logits(entity, relations, every)

    def _blocks(self, count: int, width: int) -> Iterator[Ids]:
        if not self.rows:
            return self.pbe.blocks(count, 2 * width)
        return (np.arange(start, min(start + self.rows, count)) for start in range(0, count, self.rows))

    def save(self, path: Path, inputs: str, done: int) -> None:
        """Write the state of the search."""
        self._gather()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(c)) for name, c in self.found._asdict().items()}
        Checkpoint(tensors, {"inputs": inputs, "done": done}).save(path)

    def resume(self, checkpoint: Checkpoint, inputs: str) -> int:
        """Take up the state of an earlier search; returns how many relations it had done."""
        if checkpoint.memory.get("inputs") != inputs:
            raise DoxaError("the unfinished search was of another model or asked for something else",
                            "start anew without --resume")  # fmt: skip
        self.found = _Found(**{name: tensor.numpy() for name, tensor in checkpoint.tensors.items()})
        self.full = len(self.found.credence) == self.top
        return int(checkpoint.memory["done"])


def _fingerprint(model: Model, asked: Any) -> str:
    """What must be the same for a search to be resumed."""
    weights = sum(float(parameter.detach().double().sum()) for parameter in model.pbe.parameters())
    said = json.dumps([model.origin, model.settings.as_dict(), weights, len(model.known), asked], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()
