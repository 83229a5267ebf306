"""Judge: everything fitted on validation data, from which credence, verdict and expected confidence are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.calibration.confidence import confidence_input, fit_expected_confidence, fit_stated_confidence
from doxa.calibration.contradictions import Contradictions, fit_contradictions, surprise
from doxa.calibration.curves import MIN_LABELS, Curve, fit_curve
from doxa.calibration.labels import PRIOR_LABELS
from doxa.calibration.missing import labeled_without_missing
from doxa.calibration.proposals import ProposalCurve, is_cheap
from doxa.calibration.rules import RuleWeights, calibration_input, decision_score, features
from doxa.calibration.sentences import (
    SentenceWeights,
    answerable,
    fit_sentence_weights,
    relation_log_probabilities,
)
from doxa.calibration.temperatures import Temperatures, fit_mention_exponent, fit_temperatures
from doxa.calibration.thresholds import Numbers, Thresholds
from doxa.calibration.unseen import degree_prior, fit_unseen_thresholds
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import UNKNOWN, Ids, Vocabulary
from doxa.errors import CannotAnswer
from doxa.pbe import PBE

MAX_JUDGED = 20_000
"""Validation beliefs used for thresholds and curves at most, where entities are many."""

MAX_SCORED = 1e9
"""Scores of validation beliefs against entities, within which more beliefs are used."""

FEWEST_JUDGED = 500
"""Validation beliefs used however short the time is."""

StageReport = Callable[[str, float], None]
"""Receives the name of a stage and how much of it is done, from 0 to 1."""


@dataclass(frozen=True, eq=False, repr=False)
class Judge:
    """Everything fitted on validation data.

    `rule` is the decision rule (`doxa.calibration.rules`), `thresholds` are its thresholds, and `weights` the weights
    of the rule `learned`. `curve` turns the calibration input into credence. `temperatures` scale the logits of
    answers, `mention_exponent` is the exponent of Pr(r|m) in Eq. 6 (1 in the paper). `unseen` are thresholds for
    triples with an unseen entity (`doxa.calibration.unseen`). `expected_confidence` is the curve to confidences of a
    mixture with as many negatives, `stated_confidence` that of stated beliefs, None where it is the same. `proposals`
    is the curve of new beliefs to credence (`doxa.calibration.proposals`). `contradictions` says how far other known
    answers lower credence. `sentence` are the weights for beliefs with an unseen entity and a mention
    (`doxa.calibration.sentences`).
    """

    rule: str
    thresholds: Thresholds
    curve: Curve
    temperatures: Temperatures = field(default_factory=Temperatures)
    mention_exponent: float = 1.0
    weights: RuleWeights | None = None
    unseen: Thresholds | None = None
    expected_confidence: Curve | None = None
    proposals: ProposalCurve | None = None
    stated_confidence: Curve | None = None
    contradictions: Contradictions = field(default_factory=Contradictions)
    sentence: SentenceWeights = field(default_factory=SentenceWeights)

    def __repr__(self) -> str:
        count = int((~np.isnan(self.thresholds.by_relation)).sum())
        return f"Judge(rule {self.rule}, {self.curve.kind} curve, {count:,} thresholds)"

    @classmethod
    def unfitted(cls, relations: int, rule: str = "product") -> Judge:
        """A judge without validation data: σ(log credence), thresholds 0, temperatures 1."""
        return cls(rule, Thresholds.unfitted(relations), Curve.unfitted(relations))

    @classmethod
    def fit(
        cls,
        pbe: PBE,
        settings: Settings,
        facts: TripleIndex,
        beliefs: Beliefs,
        unseen: Beliefs | None = None,
        *,
        held_out: bool = True,
        can_classify: bool = True,
        effort: float = 1.0,
        report: StageReport | None = None,
    ) -> Judge:
        """Fit everything to validation beliefs, in the model's ids and with known names only.

        `facts` are those of training; `unseen` are validation beliefs with unknown names. With `held_out` false the
        beliefs are those of training: temperatures and weights are not fitted, since the number of known answers would
        give positives away. `can_classify` says whether the system classifies triples. `effort` is the share of the
        usual samples that is used; below 1, proposals are left to `complete`. `report` receives stage and progress.
        """
        stage = report or (lambda name, done: None)
        positives = beliefs.positives()
        known = facts.union(positives.triples) if held_out else facts
        exponent = fit_mention_exponent(pbe, positives) if held_out and pbe.mention is not None else 1.0
        rule = "entities" if settings.decision_rule == "learned" and not held_out else settings.decision_rule
        judge = replace(cls.unfitted(pbe.relations, rule), mention_exponent=exponent)
        expected = stated = proposals = None
        if can_classify:
            stage("thresholds", 0.0)
            sample = _affordable(pbe, beliefs, np.random.default_rng([settings.seed, 5]), effort)
            labeled = judge._labeled(pbe, settings, facts, known, sample, held_out)
            if len(labeled):
                judge = judge.refit(pbe, settings, facts, labeled, known, lambda done: stage("thresholds", done))
            stage("calibration", 0.0)
            sample = _affordable(pbe, beliefs, np.random.default_rng([settings.seed, 9]), effort)
            expected = fit_expected_confidence(pbe, sample, known, settings, exponent)
            stated = fit_stated_confidence(pbe, sample, settings, exponent)
        stage("calibration", 0.5)
        temperatures = fit_temperatures(pbe, positives, facts, exponent, effort) if held_out else Temperatures()
        stage("calibration", 1.0)
        if can_classify and held_out and effort >= 1:
            proposals = _proposals(pbe, facts, positives, settings.seed, lambda done: stage("proposals", done))
        return replace(
            judge,
            contradictions=judge.contradictions if held_out else Contradictions(),
            unseen=fit_unseen_thresholds(facts, unseen),
            temperatures=temperatures,
            expected_confidence=expected,
            proposals=proposals,
            stated_confidence=stated,
            sentence=fit_sentence_weights(pbe, facts, positives) if held_out else SentenceWeights(),
        )

    def _labeled(
        self, pbe: PBE, settings: Settings, facts: TripleIndex, known: TripleIndex, beliefs: Beliefs, held_out: bool
    ) -> Beliefs:
        """The beliefs with labels, made where they have none; training beliefs say nothing about missing facts."""
        if not held_out:
            return labeled_beliefs(beliefs, known, settings.seed, settings.negatives_from)

        def inputs(rows: Beliefs) -> Numbers:
            return calibration_input(pbe, rows, self.rule, self.mention_exponent)

        return labeled_without_missing(beliefs, facts, known, inputs, settings.seed, settings.negatives_from)

    def refit(
        self,
        pbe: PBE,
        settings: Settings,
        facts: TripleIndex,
        labeled: Beliefs,
        known: TripleIndex | None = None,
        report: Callable[[float], None] | None = None,
    ) -> Judge:
        """The same with thresholds, weights and curve fitted to labeled beliefs with known names.

        `facts` contradict them. How often queries have several answers is counted in `known`, as in judging.
        """
        assert labeled.label is not None
        relation, label = labeled.relation, labeled.label
        weights = None
        if self.rule == "learned":
            table = features(pbe, labeled, facts)
            weights = RuleWeights.fit(table, relation, label, pbe.relations)
            scores, inputs = weights.decision_score(table, relation), table[:, :2].sum(axis=1)
        else:
            scores, inputs = self._scores(pbe, labeled, facts, 0, report)
        group = np.unique(labeled.triples, axis=0, return_inverse=True)[1].reshape(-1)
        curve = fit_curve(inputs, relation, label, pbe.relations, settings.base_rate, settings.seed, group)
        log_odds = curve.logit(inputs, relation) - curve.log_odds  # in the mixture of the labels
        return replace(
            self,
            weights=weights,
            thresholds=Thresholds.fit(scores, relation, label, pbe.relations),
            curve=curve,
            contradictions=fit_contradictions(log_odds, surprise(pbe, labeled, facts, known), label == 1),
        )

    def by_rule(self, rule: str, pbe: PBE, settings: Settings, facts: TripleIndex, beliefs: Beliefs) -> Judge:
        """The same with another decision rule, fitted to validation beliefs as in `fit`."""
        known = facts.union(beliefs.positives().triples)
        judge = replace(self, rule=rule, weights=None)
        sample = _affordable(pbe, beliefs, np.random.default_rng([settings.seed, 5]), 1.0)
        labeled = judge._labeled(pbe, settings, facts, known, sample, held_out=True)
        return judge.refit(pbe, settings, facts, labeled, known) if len(labeled) else judge

    def adjust(self, pbe: PBE, settings: Settings, facts: TripleIndex, labeled: Beliefs, known: TripleIndex) -> Judge:
        """The same with curve and thresholds moved by labeled beliefs as far as their number carries.

        A judge without a calibrated curve is fitted to the labels alone if there are enough of both kinds.
        """
        assert labeled.label is not None
        relation, label = labeled.relation, labeled.label
        if self.curve.kind == "none" and min((label == 1).sum(), (label == -1).sum()) >= MIN_LABELS:
            return replace(self, rule=settings.decision_rule).refit(pbe, settings, facts, labeled)
        scores, inputs = self._scores(pbe, labeled, facts, 0)
        against = self.contradictions.against(surprise(pbe, labeled, known)) if self.curve.kind != "none" else 0.0
        return replace(
            self,
            thresholds=self.thresholds.adjust(scores, relation, label, PRIOR_LABELS),
            curve=self.curve.adjust(inputs, relation, label, against),
        )

    def judge(
        self,
        pbe: PBE,
        beliefs: Beliefs,
        facts: TripleIndex,
        memory: int = 0,
        base_rate: float | None = None,
        known: TripleIndex | None = None,
    ) -> tuple[Numbers, NDArray[np.bool_]]:
        """Credence and verdict of each belief, (n,) each, in the model's ids; `facts` are those of training.

        Credence holds for a mixture with the share `base_rate` of true beliefs, by default that of `curve`. With the
        facts `known`, a contradiction lowers it (`doxa.calibration.contradictions`), and a belief whose credence it
        lowers below ½ is not accepted. A curve that is not calibrated has no use for contradictions.

        A belief with an unknown name has the credence NaN. Its verdict comes from the degree of its known entity, or is
        false where validation had no such beliefs. With a mention, credence is the probability of its relation by the
        sentence (`doxa.calibration.sentences`), whatever the base rate, and the verdict is true from ½ up. `memory`
        bounds the tables of scores in bytes; 0 = automatic.
        """
        credence, verdict = np.full(len(beliefs), np.nan), np.zeros(len(beliefs), bool)
        rows = np.flatnonzero(beliefs.seen)
        named = beliefs.take(rows)
        scores, inputs = self._scores(pbe, named, facts, memory)
        credence[rows] = self.curve.probability(inputs, named.relation, base_rate)
        verdict[rows] = scores >= self.thresholds.of(named.relation)
        if known is not None and self.curve.kind != "none":
            against = self.contradictions.against(surprise(pbe, named, known))
            credence[rows] = self.curve.probability(inputs, named.relation, base_rate, against)
            log_odds = self.curve.logit(inputs, named.relation)  # whatever the base rate
            verdict[rows] &= (log_odds < 0) | (log_odds >= against)
        if self.unseen is not None:
            rows = np.flatnonzero(~beliefs.seen)
            prior, kind = degree_prior(facts, beliefs.take(rows))
            verdict[rows] = prior >= self.unseen.of(kind)
        rows = np.flatnonzero(answerable(pbe, beliefs) & (beliefs.relation != UNKNOWN))
        if len(rows):
            logs = relation_log_probabilities(pbe, facts, beliefs.take(rows), self.sentence).numpy()
            credence[rows] = np.exp(logs[np.arange(len(rows)), beliefs.relation[rows]])
            verdict[rows] = credence[rows] >= 0.5
        return credence, verdict

    def _scores(
        self,
        pbe: PBE,
        beliefs: Beliefs,
        facts: TripleIndex,
        memory: int,
        report: Callable[[float], None] | None = None,
    ) -> tuple[Numbers, Numbers]:
        """Decision score and calibration input of each belief, (n,) each."""
        if self.weights is not None:
            table = features(pbe, beliefs, facts, memory)
            return self.weights.decision_score(table, beliefs.relation), table[:, :2].sum(axis=1)
        inputs = calibration_input(pbe, beliefs, self.rule, self.mention_exponent, memory, report)
        if self.rule != "product":
            return inputs, inputs
        mentioned = pbe.mention is not None and len(beliefs.mention.values)
        return decision_score(pbe, beliefs, self.rule, memory) if mentioned else 3 * inputs, inputs

    def confidence(
        self, pbe: PBE, settings: Settings, beliefs: Beliefs, memory: int = 0, stated: bool = True
    ) -> Numbers:
        """The confidence each belief is expected to carry, (n,), in the model's ids; NaN for an unknown name.

        With `stated` false, half of the beliefs are taken to be negatives, which carry 0.
        """
        if self.expected_confidence is None:
            raise CannotAnswer(
                "this model cannot predict confidence: none of its validation beliefs carried one",
                "train with validation beliefs that do",
            )
        confidence = np.full(len(beliefs), np.nan)
        rows = np.flatnonzero(beliefs.seen)
        known = beliefs.take(rows)
        inputs = confidence_input(pbe, settings, known, self.mention_exponent, memory)
        curve = (self.stated_confidence if stated else None) or self.expected_confidence
        confidence[rows] = curve.probability(inputs, known.relation)
        return confidence

    def grow(self, relations: int) -> Judge:
        """The same with `relations` more relations, which use what was fitted over all relations."""
        if not relations:
            return self
        return replace(
            self,
            thresholds=self.thresholds.grow(relations),
            curve=self.curve.grow(relations),
            weights=self.weights and self.weights.grow(relations),
            unseen=None,
            expected_confidence=self.expected_confidence and self.expected_confidence.grow(relations),
            proposals=self.proposals and self.proposals.grow(relations),
            stated_confidence=self.stated_confidence and self.stated_confidence.grow(relations),
        )

    def to_dict(self, relations: Vocabulary) -> dict[str, Any]:
        """Plain data for the model folder, with relations by name."""
        name, unseen, expected = relations.__getitem__, self.unseen, self.expected_confidence
        return {
            "rule": self.rule,
            "thresholds": self.thresholds.as_dict(name),
            "curve": self.curve.as_dict(name),
            "temperatures": asdict(self.temperatures),
            "mention_exponent": self.mention_exponent,
            "weights": self.weights and self.weights.as_dict(name),
            "unseen": unseen
            and {
                "overall": unseen.overall,
                "by_kind": [None if np.isnan(x) else float(x) for x in unseen.by_relation],
            },
            "expected_confidence": expected and expected.as_dict(name),
            "proposals": self.proposals and self.proposals.as_dict(name),
            "contradictions": asdict(self.contradictions),
            "sentence": asdict(self.sentence),
            "stated_confidence": self.stated_confidence and self.stated_confidence.as_dict(name),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], relations: Vocabulary) -> Judge:
        """The inverse of `to_dict`; a KeyError where a relation is not in the vocabulary."""
        count = len(relations)

        def ids(names: list[str]) -> Ids:
            rows = relations.ids(pl.Series(names, dtype=pl.String))
            if (rows == UNKNOWN).any():
                raise KeyError(names[int(np.argmin(rows))])
            return rows

        weights, unseen, expected = stored["weights"], stored["unseen"], stored["expected_confidence"]
        proposals, stated = stored.get("proposals"), stored.get("stated_confidence")  # earlier versions have none
        return cls(
            rule=stored["rule"],
            thresholds=Thresholds.from_dict(stored["thresholds"], count, ids),
            curve=Curve.from_dict(stored["curve"], count, ids),
            temperatures=Temperatures(**stored["temperatures"]),
            mention_exponent=float(stored["mention_exponent"]),
            weights=weights and RuleWeights.from_dict(weights, count, ids),
            unseen=unseen and Thresholds(np.array(unseen["by_kind"], float), unseen["overall"]),
            expected_confidence=expected and Curve.from_dict(expected, count, ids),
            proposals=proposals and ProposalCurve.from_dict(proposals, count, ids),
            contradictions=Contradictions(**stored.get("contradictions", {})),
            sentence=SentenceWeights(**stored.get("sentence", {})),
            stated_confidence=stated and Curve.from_dict(stated, count, ids),
        )


def _proposals(
    pbe: PBE, facts: TripleIndex, positives: Beliefs, seed: int, report: Callable[[float], None]
) -> ProposalCurve | None:
    """The curve of proposals if its fit is short; otherwise `complete` fits it when it is needed."""
    cheap = is_cheap(facts, positives.triples)
    return ProposalCurve.fit(pbe, facts, positives.triples, seed, report)[0] if cheap else None


def sample_size(entities: int, beliefs: int, effort: float = 1.0) -> int:
    """How many of so many validation beliefs are scored against all entities."""
    most = min(beliefs, max(MAX_JUDGED, int(MAX_SCORED // max(entities, 10_000))))
    return most if effort >= 1 else min(most, max(FEWEST_JUDGED, int(effort * most)))


def _affordable(pbe: PBE, beliefs: Beliefs, random: np.random.Generator, effort: float = 1.0) -> Beliefs:
    """A sample small enough to be scored against all entities."""
    most = sample_size(pbe.entities, len(beliefs), effort)
    return beliefs.take(random.permutation(len(beliefs))[:most]) if len(beliefs) > most else beliefs
