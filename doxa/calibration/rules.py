"""Triplet classification: how plausible is a belief, and is it held true (Section 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from doxa.calibration.thresholds import Numbers, Thresholds, Weighing
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Ids
from doxa.model import Model
from doxa.pbe import PBE


@dataclass(frozen=True, eq=False)
class Judgment:
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


def signs(pbe: PBE, beliefs: Beliefs, facts: TripleIndex) -> Numbers:
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


def judge_by(pbe: PBE, labeled: Beliefs, facts: TripleIndex, rule: str) -> tuple[Thresholds, Weighing | None, Numbers]:
    """The thresholds that suit labeled beliefs best; weights, if the rule has such; and the beliefs' `grounds`."""
    assert labeled.label is not None
    weighing = None
    if rule == "weighed":
        given = signs(pbe, labeled, facts)
        weighing = Weighing.fit(given, labeled.relation, labeled.label, pbe.relations)
        scores, heard = weighing.evidence(given, labeled.relation), given[:, :2].sum(axis=1)
    else:
        scores = evidence(pbe, labeled, rule)
        heard = grounds(pbe, labeled, rule) if rule == "product" else scores
    return Thresholds.fit(scores, labeled.relation, labeled.label, pbe.relations), weighing, heard


def familiarity(known: TripleIndex, beliefs: Beliefs) -> tuple[Numbers, Ids]:
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


def judge(model: Model, beliefs: Beliefs) -> Judgment:
    """Credence and verdict of every belief.

    One with a name the model never saw has no credence. It is judged by how familiar the rest of it is, if validation
    showed how far to trust that, and is held false otherwise.
    """
    model.must_answer("classification")
    beliefs = beliefs.encode(model.vocabularies)
    credence = np.full(len(beliefs), np.nan)
    verdict = np.zeros(len(beliefs), bool)
    seen = np.flatnonzero(beliefs.seen)
    known = beliefs.take(seen)
    rule = model.settings.verdict
    if model.weighing is not None:
        given = signs(model.pbe, known, model.trained_facts)
        heard, held = given[:, :2].sum(axis=1), model.weighing.evidence(given, known.relation)
    else:
        heard = grounds(model.pbe, known, rule)
        silent = model.pbe.mention is None or not len(known.mention.values)
        held = (3 * heard if rule == "product" else heard) if silent else evidence(model.pbe, known, rule)
    credence[seen] = model.calibrator.credence(heard, known.relation)
    verdict[seen] = held >= model.thresholds.of(known.relation)
    if model.strangers is not None:
        strange = np.flatnonzero(~beliefs.seen)
        familiar, kind = familiarity(model.trained_facts, beliefs.take(strange))
        verdict[strange] = familiar >= model.strangers.of(kind)
    return Judgment(credence, verdict)
