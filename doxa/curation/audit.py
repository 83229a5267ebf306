"""Audit: which known beliefs are likely wrong, and what may stand in their place.

    suspicion = − logit credence + Σ surprise of a second answer + ALTERNATIVE · Σ [log Pr(best other) − log Pr(own)]₊

both sums over the two questions (h, r, ?) and (?, r, t). The surprise counts where another known belief answers the
question and the model finds it likelier: − log of the share of such questions of the relation that have several known
answers, so that a second capital is suspect and a second neighbor is not. All three are logarithms of odds or of
probabilities; the sum orders beliefs and is no probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from doxa.calibration.thresholds import Numbers
from doxa.curation.bare import bare
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.inference import judge
from doxa.model import Model
from doxa.pbe import PBE

ALTERNATIVE = 0.2
"""What the advantage of the best other answer counts; credence has heard most of it already."""

NOTABLE = 1.0
"""Surprise or advantage, as a logarithm, from which it is given as a reason."""


@dataclass(frozen=True, eq=False)
class Suspects:
    """Known beliefs, the most suspect first. `rows` are their places in what was audited.

    `better_tail` is the likeliest other tail, UNKNOWN where the belief's own is likelier; `surprise` and `advantage`,
    (n, 2), are the parts of the suspicion for heads and tails. `rival`, (n, 2), is the known answer that contradicts,
    UNKNOWN where none does. `strange` counts beliefs with names the model never saw, which are not judged.
    """

    beliefs: Beliefs
    rows: Ids
    suspicion: Numbers
    credence: Numbers
    better_tail: Ids
    better_known: NDArray[np.bool_]
    surprise: Numbers
    advantage: Numbers
    rival: NDArray[np.int64]
    strange: int

    def __len__(self) -> int:
        return len(self.rows)

    def belief(self, place: int) -> str:
        """The belief in that place of the list, as text."""
        vocabularies, belief = self.beliefs.vocabularies, self.beliefs
        head, tail = vocabularies.entities[belief.head[place]], vocabularies.entities[belief.tail[place]]
        return f"{head} · {vocabularies.relations[belief.relation[place]]} · {tail}"

    def reason(self, place: int) -> str:
        """Why the belief in that place of the list is suspect, in a few words."""
        entities, belief = self.beliefs.vocabularies.entities, self.beliefs
        relation = belief.vocabularies.relations[belief.relation[place]]
        said = [f"credence {self.credence[place]:.2g}"]
        for side, given in ((1, belief.head), (0, belief.tail)):
            rival = int(self.rival[place, side])
            if rival >= 0 and self.surprise[place, side] >= NOTABLE:
                pair = (given[place], rival) if side else (rival, given[place])
                said.append(f"contradicts the known {entities[pair[0]]} · {relation} · {entities[pair[1]]}")
        if self.better_tail[place] >= 0 and self.advantage[place, 1] >= NOTABLE:
            times = np.exp(min(self.advantage[place, 1], 20.0))
            said.append(f"{entities[self.better_tail[place]]} is {times:,.0f} times as likely a tail")
        return "; ".join(said)

    def to_frame(self) -> pl.DataFrame:
        """By name, with the suggested tail where one is likelier, and the reason."""
        names = self.beliefs.vocabularies.entities.names
        suggested = pl.Series("suggestion", np.where(self.better_tail >= 0, self.better_tail, 0))
        suggestion = names.gather(suggested).set(pl.Series(self.better_tail < 0), None).alias("suggestion")
        known = pl.Series("suggestion_known", self.better_known).set(pl.Series(self.better_tail < 0), None)
        return self.beliefs.to_frame().with_columns(
            pl.Series("suspicion", self.suspicion).round(4),
            pl.Series("credence", self.credence).round_sig_figs(6),
            suggestion,
            known,
            pl.Series("reason", [self.reason(place) for place in range(len(self))], dtype=pl.String),
        )


def audit(
    model: Model,
    beliefs: Beliefs | None = None,
    top: int | None = None,
    report: Callable[[float], None] | None = None,
) -> Suspects:
    """Beliefs by suspicion, the `top` first ones or all; the model's own known facts when none are given.

    Given beliefs bring the words that stated them, which credence hears.
    """
    model.must_answer("classification")
    model.must_answer("entity")
    if beliefs is None:
        beliefs = bare(model.vocabularies, model.known.triples)
    beliefs = beliefs.encode(model.vocabularies)
    seen = np.flatnonzero(beliefs.seen)
    audited = beliefs.take(seen)
    credence = judge(model, audited).credence
    found = _compared(model, audited, report)
    odds = np.log(np.clip(credence, 1e-12, 1)) - np.log(np.clip(1 - credence, 1e-12, 1))
    advantage = np.maximum(found.best, 0.0)
    suspicion = -odds + found.surprise.sum(axis=1) + ALTERNATIVE * advantage.sum(axis=1)
    order = np.argsort(-suspicion.round(9), kind="stable")[:top]
    better = np.where(found.best[:, 1] > 0, found.best_tail, -1)
    head, relation = audited.head[order], audited.relation[order]
    return Suspects(
        beliefs=audited.take(order),
        rows=seen[order],
        suspicion=suspicion[order],
        credence=credence[order],
        better_tail=better[order],
        better_known=model.known.contains(head, relation, better[order]),
        surprise=found.surprise[order],
        advantage=advantage[order],
        rival=found.rival[order],
        strange=len(beliefs) - len(seen),
    )


def several_answers(known: TripleIndex, column: int) -> Numbers:
    """Per relation, the share of its heads (column 0) or tails (2) that have more than one known answer, (R,).

    Counted as if one more had several and one more had not.
    """
    triples = known.triples
    pairs, counts = np.unique(triples[:, 1] * known.entities + triples[:, column], return_counts=True)
    relation = pairs // known.entities
    several = np.bincount(relation, counts > 1, minlength=known.relations)
    return np.asarray((several + 1) / (np.bincount(relation, minlength=known.relations) + 2))


@dataclass(eq=False)
class _Compared:
    """Of each belief, for heads and tails, (n, 2): the log probability of the best other answer less its own; the
    surprise of a likelier known answer, and which that is. `best_tail` is the best other tail."""

    best: Numbers
    surprise: Numbers
    rival: NDArray[np.int64]
    best_tail: Ids


@torch.no_grad()
def _compared(model: Model, beliefs: Beliefs, report: Callable[[float], None] | None) -> _Compared:
    count, known, pbe = len(beliefs), model.known, model.pbe
    found = _Compared(np.zeros((count, 2)), np.zeros((count, 2)), np.full((count, 2), -1), np.full(count, -1, np.int64))
    surprise = [-np.log(several_answers(known, column)) for column in (2, 0)]
    order = np.argsort(beliefs.relation, kind="stable")
    done = 0
    for block in pbe.blocks(count, pbe.entities):
        rows = order[block]
        for side in (0, 1):
            best, other, rival = _side(pbe, known, beliefs, rows, side)
            found.best[rows, side], found.rival[rows, side] = best, rival
            found.surprise[rows, side] = np.where(rival >= 0, surprise[side][beliefs.relation[rows]], 0.0)
            if side == 1:
                found.best_tail[rows] = other
        done += len(rows)
        if report:
            report(done / count)
    return found


def _side(pbe: PBE, known: TripleIndex, beliefs: Beliefs, rows: Ids, side: int) -> tuple[Numbers, Ids, Ids]:
    """For heads (side 0) or tails (1) of some beliefs: by how much the best other entity seen there leads, which it is,
    and the best other known answer where that leads too."""
    batch = Batch.of(beliefs, rows)
    if side == 0:
        logits, own, seen = pbe.head_logits(batch.relation, batch.tail), batch.head, pbe.seen_heads
        question, answer = known.heads(beliefs.relation[rows], beliefs.tail[rows])
    else:
        logits, own, seen = pbe.tail_logits(batch.head, batch.relation), batch.tail, pbe.seen_tails
        question, answer = known.tails(beliefs.head[rows], beliefs.relation[rows])
    logits = logits - logits.gather(1, own[:, None])
    others = answer != own.numpy()[question]
    question, answer = question[others], answer[others]
    leads = logits[torch.from_numpy(question), torch.from_numpy(answer)].double().numpy()
    order = np.lexsort((-answer, leads))  # the last written is the one that leads most, the first of equals
    order = order[leads[order] > 0]
    rival = np.full(len(rows), -1)
    rival[question[order]] = answer[order]
    among = logits.index_select(1, seen)
    among.masked_fill_(seen[None] == own[:, None], -torch.inf)
    best, place = among.max(1)
    return best.double().numpy(), seen[place].numpy(), rival
