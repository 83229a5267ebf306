"""Completion: the most credible new beliefs of a whole knowledge base.

Candidates are the best new answers to the queries (h, r, ?) and (?, r, t) of every relation
(`doxa.calibration.candidates`). Their credence is the share of such candidates that is right, measured on validation
facts that were hidden (`doxa.calibration.proposals`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from doxa.calibration.candidates import BEST, CandidateTable, Pools, candidates
from doxa.calibration.proposals import MISSING, ProposalCurve, missing_facts
from doxa.calibration.rules import log_terms
from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.data.results import Result
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids, Vocabularies
from doxa.errors import UsageError
from doxa.index.entity_index import EntityIndex
from doxa.inference.rows import RowRunner
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.training.checkpoint import Checkpoint

RARELY = 0.1
"""Share of a relation's queries with several answers, below which a second answer contradicts the first."""

PRECISION = 9
"""Decimals of credence that decide the order; equal candidates are ordered by their odds, then by their ids."""

DEPTH = 200
"""Answers to a query about a named entity that are looked at: it may be among the best answers about each of them."""

GATHER = 100_000
"""Candidates that are collected before the best of them are sorted out."""


@dataclass(frozen=True, eq=False)
class Proposals(Result):
    """New beliefs, the most credible first. `terms`, (n, 3), are Pr(h|r,t), Pr(r|h,t) and Pr(t|h,r).

    `head_rank` and `tail_rank` are the ranks among the new answers of the relation's kind; BEST + 1 stands for a lower
    rank. `hidden` counts the validation facts that credence was fitted on, 0 if they were too few. `base_rate` is the
    assumed share of missing facts: missing / (missing + facts of training).
    """

    vocabularies: Vocabularies
    triples: NDArray[np.int64]
    credence: Numbers
    terms: Numbers
    head_rank: Numbers
    tail_rank: Numbers
    hidden: int
    base_rate: float

    def __len__(self) -> int:
        return len(self.triples)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.to_frame().iter_rows(named=True)

    def __repr__(self) -> str:
        if not len(self):
            return "Proposals(no new beliefs)"
        expected = f", {self.expected_right:,.0f} expected to be right" if self.hidden else ""
        span = f"credence {self.credence[0]:.3f} to {self.credence[-1]:.3f}"
        return f"Proposals({len(self):,} new beliefs, {span}{expected})"

    @property
    def beliefs(self) -> Beliefs:
        """The proposed beliefs."""
        return Beliefs.from_triples(self.vocabularies, self.triples)

    @property
    def expected_right(self) -> float | None:
        """How many of the proposals are expected to be right, the sum of credence; None without a fit."""
        return float(self.credence.sum()) if self.hidden else None

    @property
    def basis(self) -> str:
        """How the credence was measured, in a sentence."""
        if not self.hidden:
            return (
                "not calibrated: too few validation facts were among the candidates, so credence is the geometric mean "
                "of Pr(h|r,t) and Pr(t|h,r) among the answers not yet known; take its order seriously, not its size"
            )
        return (
            f"credence is the share of such proposals that was right when {self.hidden:,} validation facts "
            f"were hidden, if {self.base_rate:.2g} of the facts are missing"
        )

    def to_frame(self) -> pl.DataFrame:
        """By name, with rank in the list, credence, the three terms, and the ranks of head and tail."""
        numbers = {"credence": self.credence, "pr_head": self.terms[:, 0], "pr_relation": self.terms[:, 1],
                   "pr_tail": self.terms[:, 2]}  # fmt: skip
        return self.beliefs.to_frame().with_columns(
            pl.Series("rank", np.arange(1, len(self) + 1)),
            *(pl.Series(name, column).round_sig_figs(6) for name, column in numbers.items()),
            pl.Series("head_rank", self.head_rank.astype(np.int64)),
            pl.Series("tail_rank", self.tail_rank.astype(np.int64)),
        )

    def as_dict(self) -> dict[str, Any]:
        """The proposals as plain data, how many of them are expected to be right, and how that was measured."""
        return {
            "proposals": self.to_frame().to_dicts(),
            "expected_right": self.expected_right,
            "base_rate": self.base_rate,
            "hidden": self.hidden,
            "basis": self.basis,
        }


@dataclass(frozen=True)
class SearchProgress:
    """Share of the work done, what is being done, candidates in the list, and the credence of the last of them."""

    fraction: float
    relation: str
    count: int
    last_credence: float


@dataclass(frozen=True)
class SearchOptions:
    """What to search for; see `complete`. `entities` are ids, None for all; `missing` is the number of facts."""

    entities: list[int] | None
    min_credence: float
    top: int
    missing: float
    contradicting: bool


def complete(
    model: Model,
    *,
    relations: Sequence[str] | str = (),
    entities: Sequence[str] | str = (),
    min_credence: float = 0.2,
    top: int = 10_000,
    base_rate: float | None = None,
    contradicting: bool = True,
    exclude: Any = None,
    memory: int = 0,
    report: Callable[[SearchProgress], None] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    use_index: bool | None = None,
    runner: RowRunner | None = None,
) -> Proposals:
    """The `top` most credible new beliefs with credence `min_credence` or more.

    A candidate combines entities seen in these slots of the relation or in similar ones, and is one of the best new
    answers to one of its two queries. `relations` and `entities` restrict the search to beliefs about them; of a
    frequent entity, the DEPTH best answers to each query are looked at.
    `base_rate` is the share of facts that the training facts lack, a tenth by default; a larger share raises every
    credence. Without `contradicting`, no second answer is proposed where the relation rarely has two. `exclude` are
    beliefs that are not proposed, beside those the model knows.

    `memory` bounds the tables of scores in bytes, 0 is automatic. `checkpoint` is a file that keeps the state of the
    search; `resume` continues from it. With `use_index`, sums over all entities are estimated by the model's index; by
    default so from a million entities on, if there is one. `runner` searches the relations elsewhere, exactly.
    """
    model.must_answer("classification")
    if not 0 <= min_credence <= 1:
        raise UsageError(f"min_credence is {min_credence}; expected a number from 0 to 1")
    if base_rate is not None and not 0 < base_rate < 1:
        raise UsageError(f"base_rate is {base_rate}; expected a number between 0 and 1")
    if top < 1:
        raise UsageError(f"top is {top}; expected at least 1")
    names = model.vocabularies
    ids = names.relations.require(relations) if relations else np.arange(len(names.relations))
    about = np.unique(names.entities.require(entities)).tolist() if entities else None
    missing = missing_facts(len(model.trained_facts), base_rate or MISSING)
    options = SearchOptions(about, min_credence, top, missing, contradicting)
    index = model.answering_index(use_index) if runner is None else None
    search = _Search(model, options, _excluded(model, exclude), memory, report, index)
    if runner is None:
        search.run(np.unique(ids).tolist(), checkpoint, resume)
    else:
        search.run_elsewhere(np.unique(ids), runner)
    best = search.finish()
    terms = log_terms(model.pbe, Beliefs.from_triples(names, best.triples), memory=memory, index=index)
    return Proposals(
        vocabularies=names,
        triples=best.triples,
        credence=best.credence,
        terms=np.exp(terms),
        head_rank=best.ranks[:, 0],
        tail_rank=best.ranks[:, 1],
        hidden=search.curve.count if search.curve else 0,
        base_rate=base_rate or MISSING,
    )


def _excluded(model: Model, exclude: Any) -> NDArray[np.int64] | None:
    """The beliefs not to propose whose names the model knows, (n, 3)."""
    if exclude is None:
        return None
    beliefs = Beliefs.of(exclude).encode(model.vocabularies)
    return np.unique(beliefs.where(beliefs.seen).triples, axis=0)


_KEPT: list[tuple[Model, Any, _Search]] = []


def searched_rows(model: Model, relations: Ids, options: Any) -> pl.DataFrame:
    """The best candidates of these relations; the process keeps its search, whose pools are those of all relations."""
    if not any(kept is model and same is options for kept, same, _ in _KEPT):
        wanted, excluded, memory = options
        _KEPT[:] = [(model, options, _Search(model, wanted, excluded, memory, None))]
    (search := _KEPT[0][2]).run(relations.tolist(), None, False)
    best, search.best = search.finish(), _Scored.empty()
    return pl.DataFrame({
        "head": best.triples[:, 0], "relation": best.triples[:, 1], "tail": best.triples[:, 2],
        "credence": best.credence, "order": best.order,
        "head_rank": best.ranks[:, 0], "tail_rank": best.ranks[:, 1],
    })  # fmt: skip


class _Scored(NamedTuple):
    """Scored candidates: ids (n, 3), credence (n,), what orders equal credence (n,), ranks of head and tail (n, 2)."""

    triples: NDArray[np.int64]
    credence: Numbers
    order: Numbers
    ranks: Numbers

    @classmethod
    def empty(cls) -> _Scored:
        return cls(np.zeros((0, 3), np.int64), np.zeros(0), np.zeros(0), np.zeros((0, 2)))

    def take(self, rows: Ids | NDArray[np.bool_]) -> _Scored:
        return _Scored(self.triples[rows], self.credence[rows], self.order[rows], self.ranks[rows])

    def best_with(self, others: Sequence[_Scored], count: int) -> _Scored:
        """The `count` most credible of these and others, in order."""
        every = _Scored(*(np.concatenate(columns) for columns in zip(self, *others, strict=True)))
        order = np.lexsort((*every.triples.T[::-1], -every.order.round(PRECISION), -every.credence.round(PRECISION)))
        return every.take(order[:count])


class _Search:
    """The best candidates so far."""

    def __init__(
        self,
        model: Model,
        options: SearchOptions,
        excluded: NDArray[np.int64] | None,
        memory: int,
        report: Callable[[SearchProgress], None] | None,
        index: EntityIndex | None = None,
    ) -> None:
        self.model, self.options, self.memory, self.report, self.index = model, options, memory, report, index
        self.excluded = excluded
        names = model.vocabularies
        self._left_out = None if excluded is None else TripleIndex(excluded, len(names.entities), len(names.relations))
        self.about = None if options.entities is None else np.array(options.entities)
        self.pools = Pools(model.trained_facts)
        self.single = {slot: model.known.several_answers(slot) < RARELY for slot in ENTITY_SLOTS}
        self.best = _Scored.empty()
        self._collected: list[_Scored] = []
        self.curve, self._every = model.calibration.proposals, None
        if self.curve is None:
            self.curve, self._every = self._fitted()

    def _fitted(self) -> tuple[ProposalCurve | None, CandidateTable | None]:
        """The curve of a model that was saved without one, and the candidates if all were needed for it."""
        model = self.model
        return ProposalCurve.fit(
            model.pbe, model.trained_facts, model.valid, model.settings.seed,
            lambda share: self._tell(0.9 * share, "calibration"),
        )  # fmt: skip

    @property
    def last_credence(self) -> float:
        """Credence of the last candidate of a full list, otherwise the smallest credence allowed."""
        full = len(self.best.credence) == self.options.top
        return float(self.best.credence[-1]) if full else self.options.min_credence

    def _tell(self, fraction: float, what: str) -> None:
        if self.report:
            self.report(SearchProgress(fraction, what, len(self.best.triples), self.last_credence))

    def run(self, relations: list[int], checkpoint: Path | None, resume: bool) -> None:
        """Search relation by relation, with progress and checkpoints."""
        model, done = self.model, 0
        work = [relation for relation in relations if self.pools.cost(relation)]
        parts: list[Any] = [work, asdict(self.options)]
        if self.excluded is not None:
            parts.append(len(self.excluded))
        if self.index is not None:
            parts.append(self.index.summary.as_dict())
        fingerprint = "" if checkpoint is None else _fingerprint(model, parts)
        if resume and checkpoint is not None:
            done = self._restore(Checkpoint.load(checkpoint), fingerprint)
        cost = np.cumsum([0, *(self.pools.cost(relation) for relation in work)])
        last_save = time.monotonic()
        for place, relation in enumerate(work[done:], done):
            start = 0.9 if self._every is not None else 0.0  # the candidates are at hand
            self._tell(start + (1 - start) * cost[place] / cost[-1], model.vocabularies.relations[relation])
            self._search(relation)
            if checkpoint is not None and time.monotonic() - last_save > model.settings.checkpoint_seconds:
                self._state(fingerprint, place + 1).save(checkpoint)
                last_save = time.monotonic()

    def run_elsewhere(self, relations: Ids, runner: RowRunner) -> None:
        """Search every relation where the runner does; the best of all are the best of the best of each."""
        work = np.array([relation for relation in relations.tolist() if self.pools.cost(relation)], np.int64)
        options = (self.options, self.excluded, self.memory)
        table = runner.run(searched_rows, len(work), lambda rows: work[rows], options, block=1)
        triples = table.select("head", "relation", "tail").to_numpy()
        ranks = table.select("head_rank", "tail_rank").to_numpy()
        self._collected.append(_Scored(triples, table["credence"].to_numpy(), table["order"].to_numpy(), ranks))

    def _search(self, relation: int) -> None:
        """Add the candidates of one relation that are credible enough."""
        table = self._candidates(relation)
        table = table.take(self._allowed(table, relation))
        if self.curve is None:
            credence = order = np.exp(table.log_pr.mean(axis=1))
        else:
            order = self.curve.odds(table)
            credence = self.curve.credence(table, self.options.missing)
        enough = credence.round(PRECISION) >= round(self.options.min_credence, PRECISION)
        self._collected.append(_Scored(table.triples, credence, order, table.ranks).take(enough))
        if sum(len(part.credence) for part in self._collected) > max(self.options.top, GATHER):
            self._gather()

    def _candidates(self, relation: int) -> CandidateTable:
        """The candidates of one relation, about the entities asked for."""
        if self._every is None:
            model, depth = self.model, BEST if self.about is None else DEPTH
            return candidates(model.pbe, model.known, self.pools, relation, self.about, self.memory, depth, self.index)
        first, last = np.searchsorted(self._every.relation, [relation, relation + 1])
        table = self._every.take(np.arange(first, last))
        if self.about is None:
            return table
        return table.take(np.flatnonzero(np.isin(table.triples[:, ENTITY_SLOTS], self.about).any(axis=1)))

    def _allowed(self, table: CandidateTable, relation: int) -> NDArray[np.bool_]:
        """Which candidates are not excluded, and neither rare self-loops nor second answers, unless these are usual."""
        allowed = np.ones(len(table), bool)
        if self._left_out is not None:
            allowed &= ~self._left_out.contains(*table.triples.T)
        if self.model.pbe.log_loop_factor[relation] < 0:
            allowed &= table.triples[:, Slot.HEAD] != table.triples[:, Slot.TAIL]
        if not self.options.contradicting:
            for column, slot in enumerate(ENTITY_SLOTS):
                if self.single[slot][relation]:
                    allowed &= table.known[:, column] == 0
        return allowed

    def _gather(self) -> None:
        self.best = self.best.best_with(self._collected, self.options.top)
        self._collected = []

    def finish(self) -> _Scored:
        """The best candidates of all relations."""
        self._gather()
        self._tell(1.0, "probabilities")
        return self.best

    def _state(self, fingerprint: str, done: int) -> Checkpoint:
        """The state of the search after `done` relations."""
        self._gather()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in self.best._asdict().items()}
        return Checkpoint(tensors, {"inputs": fingerprint, "done": done})

    def _restore(self, checkpoint: Checkpoint, fingerprint: str) -> int:
        """Continue from the state of an earlier search; returns how many relations are done."""
        if checkpoint.state.get("inputs") != fingerprint:
            raise UsageError("the unfinished search was of another model or had other options",
                             "resume=False starts a new search", remedy="new_search")  # fmt: skip
        self.best = _Scored(**{name: tensor.numpy() for name, tensor in checkpoint.tensors.items()})
        return int(checkpoint.state["done"])


def _fingerprint(model: Model, options: Any) -> str:
    """A checksum of everything that must be the same for a search to be resumed."""
    weights = sum(float(parameter.detach().sum(dtype=torch.float64)) for parameter in model.pbe.parameters())
    inputs = [model.origin, model.settings.as_dict(), weights, len(model.known), options]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
