"""Triplet classification: how plausible is a belief, and is it held true (Section 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.beliefs import Beliefs, Ids
from doxa.credence import Numbers, Thresholds, Weighing
from doxa.facts import Facts
from doxa.learnt import Learnt
from doxa.pbe import PBE, Batch


@dataclass(frozen=True, eq=False)
class Judgement:
    """Per belief: calibrated credence (NaN for a name the model never saw) and the verdict at the threshold."""

    credence: Numbers
    verdict: NDArray[np.bool_]

    @property
    def unknown(self) -> NDArray[np.bool_]:
        return np.isnan(self.credence)


@torch.no_grad()
def log_terms(pbe: PBE, beliefs: Beliefs) -> Numbers:
    """(n, 3): log Pr(h|r,t), log Pr(r|h,t,m), log Pr(t|h,r) of each belief, in blocks; all names must be known."""
    terms = np.zeros((len(beliefs), 3))
    for rows in _blocks(pbe, beliefs):
        terms[rows] = pbe.log_terms(Batch.of(beliefs, rows)).double().numpy()
    return terms


def _blocks(pbe: PBE, beliefs: Beliefs) -> Iterator[Ids]:
    """Rows in blocks of bounded memory, those of one relation together."""
    order = np.argsort(beliefs.relation, kind="stable")
    return (order[block] for block in pbe.blocks(len(beliefs)))


def log_products(pbe: PBE, beliefs: Beliefs) -> Numbers:
    """log [Pr(h|r,t) · Pr(r|h,t) · Pr(t|h,r)] of each triple, its mention left aside (Section 5.4)."""
    return np.asarray(log_terms(pbe, beliefs.without_mentions()).sum(axis=1))


@torch.no_grad()
def evidence(pbe: PBE, beliefs: Beliefs, rule: str) -> Numbers:
    """The log product above, without Pr(r|h,t), log Pr(t|h,r) alone, or the scaled D: what is held against a relation's
    threshold. For `weighed` without weights, what credence is calibrated from."""
    if rule == "product":
        return log_products(pbe, beliefs)
    if rule in ("entities", "weighed", "tail"):
        terms = log_terms(pbe, beliefs.without_mentions())
        return terms[:, 2] if rule == "tail" else terms[:, 0] + terms[:, 2]
    scores = np.zeros(len(beliefs))
    for rows in _blocks(pbe, beliefs):
        batch = Batch.of(beliefs, rows)
        scores[rows] = pbe.logits(batch.head, batch.relation, batch.tail).double().numpy()
    return scores


def signs(pbe: PBE, beliefs: Beliefs, facts: Facts) -> Numbers:
    """(n, 4), what a `weighed` verdict weighs: log Pr(h|r,t), log Pr(t|h,r), and log(1 + how many others are known) of
    the answers of each of the two questions."""
    terms = log_terms(pbe, beliefs.without_mentions())
    own = facts.contains(beliefs.head, beliefs.relation, beliefs.tail)
    heads = facts.head_counts(beliefs.relation, beliefs.tail) - own
    tails = facts.tail_counts(beliefs.head, beliefs.relation) - own
    return np.column_stack([terms[:, 0], terms[:, 2], np.log1p(heads), np.log1p(tails)])


def grounds(pbe: PBE, beliefs: Beliefs, rule: str) -> Numbers:
    """What credence is calibrated from: the evidence, or where that is the product, log credence (Eq. 1).

    The latter hears the mention too.
    """
    return log_terms(pbe, beliefs).mean(axis=1) if rule == "product" else evidence(pbe, beliefs, rule)


def judge_by(pbe: PBE, labelled: Beliefs, facts: Facts, rule: str) -> tuple[Thresholds, Weighing | None, Numbers]:
    """The thresholds that suit labelled beliefs best; weights, if the rule has such; and the beliefs' `grounds`."""
    assert labelled.label is not None
    weighing = None
    if rule == "weighed":
        given = signs(pbe, labelled, facts)
        weighing = Weighing.fit(given, labelled.relation, labelled.label, pbe.relations)
        scores, heard = weighing.evidence(given, labelled.relation), given[:, :2].sum(axis=1)
    else:
        scores = evidence(pbe, labelled, rule)
        heard = grounds(pbe, labelled, rule) if rule == "product" else scores
    return Thresholds.fit(scores, labelled.relation, labelled.label, pbe.relations), weighing, heard


def familiarity(known: Facts, beliefs: Beliefs) -> tuple[Numbers, Ids]:
    """For beliefs with an entity never seen: log(1 + in how many facts the other one stands where it stands here).

    Also the kind of each, 2 · relation + (whether the tail is the stranger), by which thresholds are kept.
    """
    counts = np.zeros(len(beliefs))
    related = beliefs.relation >= 0
    rows = np.flatnonzero(related & (beliefs.tail >= 0))
    counts[rows] = known.head_counts(beliefs.relation[rows], beliefs.tail[rows])
    rows = np.flatnonzero(related & (beliefs.head >= 0))
    counts[rows] = known.tail_counts(beliefs.head[rows], beliefs.relation[rows])
    kind = np.where(related, 2 * beliefs.relation + (beliefs.tail < 0), -1)
    return np.log1p(counts), kind


def judge(learnt: Learnt, beliefs: Beliefs) -> Judgement:
    """Credence and verdict of every belief.

    One with a name the model never saw has no credence. It is judged by how familiar the rest of it is, if validation
    showed how far to trust that, and is held false otherwise.
    """
    learnt.must_answer("classification")
    beliefs = beliefs.encoded(learnt.names)
    credence = np.full(len(beliefs), np.nan)
    verdict = np.zeros(len(beliefs), bool)
    seen = np.flatnonzero(beliefs.seen)
    known = beliefs.take(seen)
    rule = learnt.settings.verdict
    if learnt.weighing is not None:
        given = signs(learnt.pbe, known, learnt.trained_facts)
        heard, held = given[:, :2].sum(axis=1), learnt.weighing.evidence(given, known.relation)
    else:
        heard = grounds(learnt.pbe, known, rule)
        silent = learnt.pbe.mention is None or not len(known.mention.values)
        held = (3 * heard if rule == "product" else heard) if silent else evidence(learnt.pbe, known, rule)
    credence[seen] = learnt.calibrator.credence(heard, known.relation)
    verdict[seen] = held >= learnt.thresholds.of(known.relation)
    if learnt.strangers is not None:
        strange = np.flatnonzero(~beliefs.seen)
        familiar, kind = familiarity(learnt.trained_facts, beliefs.take(strange))
        verdict[strange] = familiar >= learnt.strangers.of(kind)
    return Judgement(credence, verdict)
