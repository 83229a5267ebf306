"""Audit: which known beliefs are likely wrong, and which tail may be right instead.

    suspicion = − logit credence + Σ surprise + ADVANTAGE_WEIGHT · Σ [log Pr(best other answer) − log Pr(answer)]₊

with both sums over the two queries (?, r, t) and (h, r, ?), and credence that of the belief alone. The surprise is that
of a second answer (`doxa.calibration.contradictions`), so a second capital is suspect and a second neighbor is not.
Suspicion orders beliefs; it is not a probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from doxa.calibration.contradictions import surprise
from doxa.calibration.labels import logistic
from doxa.calibration.thresholds import Numbers
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.results import Result
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import UNKNOWN, Ids
from doxa.inference import judge
from doxa.inference.rows import RowRunner
from doxa.model import Model
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS, Slot

ADVANTAGE_WEIGHT = 0.2
"""Weight of the advantage of the best other answer; credence contains most of it already."""

NOTABLE = 1.0
"""Surprise or advantage, as a logarithm, from which it is stated as a reason."""


@dataclass(frozen=True, eq=False)
class Suspects(Result):
    """Beliefs, the most suspect first. `rows` are their rows in the audited beliefs.

    `better_tail` is the most probable other tail, UNKNOWN where the belief's own is more probable. Columns of
    `surprise`, `advantage` and `contradicting`, (n, 2), belong to the slots head and tail. `contradicting` is the known
    answer that contradicts the belief, UNKNOWN where none does. `unseen` counts beliefs with names the model does not
    know; they are left out. `base_rate` is the share of true beliefs that the credence holds for, None without
    calibration.
    """

    beliefs: Beliefs
    rows: Ids
    suspicion: Numbers
    credence: Numbers
    better_tail: Ids
    better_known: NDArray[np.bool_]
    surprise: Numbers
    advantage: Numbers
    contradicting: NDArray[np.int64]
    unseen: int
    base_rate: float | None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.to_frame().iter_rows(named=True)

    def __repr__(self) -> str:
        first = f", first {self.belief(0)}" if len(self) else ""
        return f"Suspects({len(self):,} beliefs{first})"

    @property
    def expected_wrong(self) -> float | None:
        """How many of the suspects are expected to be wrong, the sum of 1 − credence; None without calibration."""
        return None if self.base_rate is None else float((1 - self.credence).sum())

    def belief(self, place: int) -> str:
        """The belief at that place of the list, as text."""
        return _text(self.beliefs, self._triple(place))

    def _triple(self, place: int) -> list[int]:
        beliefs = self.beliefs
        return [int(column[place]) for column in (beliefs.head, beliefs.relation, beliefs.tail)]

    def reason(self, place: int) -> str:
        """Why the belief at that place of the list is suspect, in a few words."""
        credence = self.credence[place]
        reasons = [f"credence {credence:.2g}" if credence < 0.9 else f"credence {credence:.4f}"]
        for column, slot in reversed(list(enumerate(ENTITY_SLOTS))):
            contradicting = self.contradicting[place, column]
            if contradicting != UNKNOWN and self.surprise[place, column] >= NOTABLE:
                triple = self._triple(place)
                triple[slot] = int(contradicting)
                reasons.append(f"contradicts the known {_text(self.beliefs, triple)}")
        advantage = self.advantage[place, ENTITY_SLOTS.index(Slot.TAIL)]
        if self.better_tail[place] != UNKNOWN and advantage >= NOTABLE:
            name = self.beliefs.vocabularies.entities[self.better_tail[place]]
            reasons.append(f"{name} is {np.exp(min(advantage, 20.0)):,.0f} times as likely a tail")
        return "; ".join(reasons)

    def to_frame(self) -> pl.DataFrame:
        """By name, with the suggested tail where one is more probable, and the reason."""
        names, none = self.beliefs.vocabularies.entities.names, pl.Series(self.better_tail == UNKNOWN)
        suggestion = names.gather(np.maximum(self.better_tail, 0)).set(none, None).alias("suggestion")
        return self.beliefs.to_frame().with_columns(
            pl.Series("suspicion", self.suspicion).round(4),
            pl.Series("credence", self.credence).round_sig_figs(6),
            suggestion,
            pl.Series("suggestion_known", self.better_known).set(none, None),
            pl.Series("reason", [self.reason(place) for place in range(len(self))], dtype=pl.String),
        )

    def as_dict(self) -> dict[str, Any]:
        """The suspects as plain data, how many are expected to be wrong, and how many beliefs name something unseen."""
        numbers = {"expected_wrong": self.expected_wrong, "base_rate": self.base_rate, "unseen": self.unseen}
        return {"suspects": self.to_frame().to_dicts()} | numbers


def _text(beliefs: Beliefs, triple: list[int]) -> str:
    entities, relations = beliefs.vocabularies.entities, beliefs.vocabularies.relations
    head, relation, tail = triple
    return f"{entities[head]} · {relations[relation]} · {entities[tail]}"


def audit(
    model: Model,
    beliefs: Any = None,
    top: int | None = None,
    *,
    memory: int = 0,
    base_rate: float | None = None,
    report: Callable[[float], None] | None = None,
    runner: RowRunner | None = None,
) -> Suspects:
    """The `top` most suspect beliefs, all without `top`; of the model's known facts if `beliefs` is None.

    `beliefs` is anything `Beliefs.of` takes; their mentions count in credence. `memory` bounds the tables of scores in
    bytes, 0 is automatic. `base_rate` is the share of true beliefs that credence shall hold for; it changes no order.
    `report` receives the finished share of the work. `runner` is where blocks of beliefs are audited, by default here.
    """
    model.must_answer("classification")
    model.must_answer("entity")
    if beliefs is None:
        beliefs = Beliefs.from_triples(model.vocabularies, model.known.triples)
    beliefs = Beliefs.of(beliefs).encode(model.vocabularies)
    seen = np.flatnonzero(beliefs.seen)
    audited = beliefs.take(seen)
    judgment = judge(model, audited, memory, base_rate, contradictions=False, runner=runner)
    others = _others_by_blocks(model, audited, memory, report, runner)
    alone = np.clip(judgment.credence, 1e-12, 1 - 1e-12)
    log_odds = np.log(alone) - np.log1p(-alone)
    credence = judgment.credence
    if judgment.base_rate is not None:
        against = model.calibration.contradictions.against(surprise(model.pbe, audited, model.known))
        credence = logistic(log_odds - against)
    advantage = np.maximum(others.advantage, 0.0)
    suspicion = -log_odds + others.surprise.sum(axis=1) + ADVANTAGE_WEIGHT * advantage.sum(axis=1)
    order = np.argsort(-suspicion.round(9), kind="stable")[:top]
    tail = ENTITY_SLOTS.index(Slot.TAIL)
    better = np.where(others.advantage[:, tail] > 0, others.best[:, tail], UNKNOWN)[order]
    return Suspects(
        beliefs=audited.take(order),
        rows=seen[order],
        suspicion=suspicion[order],
        credence=credence[order],
        better_tail=better,
        better_known=model.known.contains(audited.head[order], audited.relation[order], better),
        surprise=others.surprise[order],
        advantage=advantage[order],
        contradicting=others.contradicting[order],
        unseen=len(beliefs) - len(seen),
        base_rate=judgment.base_rate,
    )


@dataclass(eq=False)
class _Others:
    """The other answers of each belief's two queries, (n, 2) each, columns by `ENTITY_SLOTS`.

    `best` is the most probable other entity, `advantage` its log probability minus that of the belief's own.
    `contradicting` is the most probable other known answer if it is more probable, with its `surprise`.
    """

    best: NDArray[np.int64]
    advantage: Numbers
    contradicting: NDArray[np.int64]
    surprise: Numbers


def _others_by_blocks(
    model: Model,
    beliefs: Beliefs,
    memory: int,
    report: Callable[[float], None] | None,
    runner: RowRunner | None,
) -> _Others:
    """The other answers, of all beliefs here or of blocks of them elsewhere."""
    if runner is None:
        return _compare(model, beliefs, memory, report)
    by_relation = np.argsort(beliefs.relation, kind="stable")
    table = runner.run(other_rows, len(beliefs), lambda rows: beliefs.take(by_relation[rows]), memory)
    columns = {}
    for name in ("best", "advantage", "contradicting", "surprise"):
        column = table.select(f"{name}_head", f"{name}_tail").to_numpy()
        columns[name] = np.empty_like(column)
        columns[name][by_relation] = column
    return _Others(**columns)


def other_rows(model: Model, beliefs: Beliefs, memory: int) -> pl.DataFrame:
    """The other answers of each belief as a table."""
    others = _compare(model, beliefs, memory, None)
    return pl.DataFrame({
        f"{name}_{slot}": getattr(others, name)[:, column]
        for name in ("best", "advantage", "contradicting", "surprise")
        for column, slot in enumerate(ENTITY_SLOTS)
    })  # fmt: skip


@torch.no_grad()
def _compare(model: Model, beliefs: Beliefs, memory: int, report: Callable[[float], None] | None) -> _Others:
    count, known, pbe = len(beliefs), model.known, model.pbe
    unknown = np.full((count, 2), UNKNOWN)
    others = _Others(unknown, np.zeros((count, 2)), unknown.copy(), np.zeros((count, 2)))
    surprise = [-np.log(known.several_answers(slot)) for slot in ENTITY_SLOTS]
    order = np.argsort(beliefs.relation, kind="stable")
    done = 0
    for block in pbe.blocks(count, pbe.entities, memory):
        rows = order[block]
        for column, slot in enumerate(ENTITY_SLOTS):
            best, advantage, contradicting = _compare_slot(pbe, known, beliefs, rows, slot)
            others.best[rows, column], others.advantage[rows, column] = best, advantage
            others.contradicting[rows, column] = contradicting
            others.surprise[rows, column] = np.where(
                contradicting != UNKNOWN, surprise[column][beliefs.relation[rows]], 0.0
            )
        done += len(rows)
        if report:
            report(done / count)
    return others


def _compare_slot(pbe: PBE, known: TripleIndex, beliefs: Beliefs, rows: Ids, slot: Slot) -> tuple[Ids, Numbers, Ids]:
    """The other answers of one slot: best entity, its advantage, and the contradicting known answer, (B,) each."""
    batch = Batch.of(beliefs, rows)
    truth, seen, logits = batch.column(slot), pbe.seen[slot], pbe.answer_logits(slot, batch)
    logits = logits - logits.gather(1, truth[:, None])
    query, answer = known.answers(slot, beliefs.head[rows], beliefs.relation[rows], beliefs.tail[rows])
    others = answer != truth.numpy()[query]
    query, answer = query[others], answer[others]
    advantage = logits[torch.from_numpy(query), torch.from_numpy(answer)].double().numpy()
    order = np.lexsort((-answer, advantage))  # the last one written is the most probable, of equal ones the first
    order = order[advantage[order] > 0]
    contradicting = np.full(len(rows), UNKNOWN)
    contradicting[query[order]] = answer[order]
    candidates = logits.index_select(1, seen)
    candidates.masked_fill_(seen[None] == truth[:, None], -torch.inf)
    best, place = candidates.max(1)
    return seen[place].numpy(), best.double().numpy(), contradicting
