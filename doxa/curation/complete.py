"""Completion: the most credible new beliefs of a whole knowledge base.

`doxa.curation.search` finds them without scoring every candidate; the result is the same.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.calibration.thresholds import Numbers
from doxa.curation.search import Search, SearchOptions
from doxa.data.beliefs import Beliefs
from doxa.data.results import Result
from doxa.data.vocabulary import Vocabularies
from doxa.errors import UsageError
from doxa.evaluation.protocol import ranks
from doxa.model import Model
from doxa.slots import ENTITY_SLOTS
from doxa.training.checkpoint import Checkpoint


@dataclass(frozen=True, eq=False)
class Proposals(Result):
    """New beliefs, the most credible first. `terms`, (n, 3), are Pr(h|r,t), Pr(r|h,t) and Pr(t|h,r).

    `head_rank` and `tail_rank` are filtered ranks among all entities.
    """

    vocabularies: Vocabularies
    triples: NDArray[np.int64]
    credence: Numbers
    terms: Numbers
    head_rank: Numbers
    tail_rank: Numbers

    def __len__(self) -> int:
        return len(self.triples)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.to_frame().iter_rows(named=True)

    def __repr__(self) -> str:
        span = f", credence {self.credence[0]:.3f} to {self.credence[-1]:.3f}" if len(self) else ""
        return f"Proposals({len(self):,} new beliefs{span})"

    @property
    def beliefs(self) -> Beliefs:
        """The proposed beliefs."""
        return Beliefs.from_triples(self.vocabularies, self.triples)

    def to_frame(self) -> pl.DataFrame:
        """By name, with rank in the list, credence, the three terms, and the ranks of head and tail."""
        numbers = {"credence": self.credence, "pr_head": self.terms[:, 0], "pr_relation": self.terms[:, 1],
                   "pr_tail": self.terms[:, 2]}  # fmt: skip
        return self.beliefs.to_frame().with_columns(
            pl.Series("rank", np.arange(1, len(self) + 1)),
            *(pl.Series(name, column).round_sig_figs(6) for name, column in numbers.items()),
            pl.Series("head_rank", self.head_rank),
            pl.Series("tail_rank", self.tail_rank),
        )

    def as_dict(self) -> dict[str, Any]:
        """The proposals as plain data."""
        return {"proposals": self.to_frame().to_dicts()}


@dataclass(frozen=True)
class SearchProgress:
    """Share of the work done, the current relation, candidates in the list, and the credence of the last of them."""

    fraction: float
    relation: str
    count: int
    last_credence: float


def complete(
    model: Model,
    *,
    relations: Sequence[str] | str = (),
    entities: Sequence[str] | str = (),
    min_credence: float = 0.8,
    top: int = 10_000,
    any_entity: bool = False,
    contradicting: bool = True,
    rows: int = 0,
    memory: int = 0,
    report: Callable[[SearchProgress], None] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> Proposals:
    """The `top` most credible new beliefs with credence `min_credence` or more.

    `relations` and `entities` restrict the search to beliefs about them. A candidate combines a head and a tail seen in
    these slots of the relation; with `any_entity` one of them may be new there. Without `contradicting`, no second
    answer is proposed where the relation rarely has two.

    `rows` is the number of queries scored at a time, 0 is automatic, within `memory` bytes. Neither changes the result.
    `checkpoint` is a file that keeps the state of the search; `resume` continues from it.
    """
    model.must_answer("classification")
    if not 0 <= min_credence <= 1:
        raise UsageError(f"min_credence is {min_credence}; expected a number from 0 to 1")
    if top < 1:
        raise UsageError(f"top is {top}; expected at least 1")
    names = model.vocabularies
    ids = names.relations.require(relations) if relations else np.arange(len(names.relations))
    about = np.unique(names.entities.require(entities)).tolist() if entities else None
    search = Search(model, SearchOptions(about, min_credence, top, any_entity, contradicting), rows, memory)
    work = [relation for relation in np.unique(ids).tolist() if search.can_search(relation)]
    _run(search, work, report, checkpoint, resume)
    best = search.finish()
    beliefs = Beliefs.from_triples(names, best.triples)
    if report:
        report(SearchProgress(1.0, "ranks", len(beliefs), search.last_credence))
    head_rank, tail_rank = (
        ranks(model.pbe, slot, beliefs, model.known, memory=memory).filtered for slot in ENTITY_SLOTS
    )
    return Proposals(names, best.triples, best.credence, np.exp(best.log_terms), head_rank, tail_rank)


def _run(
    search: Search,
    work: list[int],
    report: Callable[[SearchProgress], None] | None,
    checkpoint: Path | None,
    resume: bool,
) -> None:
    """Search relation by relation, with progress and checkpoints."""
    model = search.model
    fingerprint = _fingerprint(model, [work, asdict(search.options)])
    done = 0
    if resume and checkpoint is not None:
        done = search.restore(Checkpoint.load(checkpoint), fingerprint)
    cost = np.cumsum([0, *(search.cost(relation) for relation in work)])
    last_save = time.monotonic()
    for place, relation in enumerate(work[done:], done):
        if report:
            name = model.vocabularies.relations[relation]
            report(SearchProgress(cost[place] / cost[-1], name, len(search.best.triples), search.last_credence))
        search.search(relation)
        if checkpoint is not None and time.monotonic() - last_save > model.settings.checkpoint_seconds:
            search.state(fingerprint, place + 1).save(checkpoint)
            last_save = time.monotonic()


def _fingerprint(model: Model, options: Any) -> str:
    """A checksum of everything that must be the same for a search to be resumed."""
    weights = sum(float(parameter.detach().double().sum()) for parameter in model.pbe.parameters())
    inputs = [model.origin, model.settings.as_dict(), weights, len(model.known), options]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
