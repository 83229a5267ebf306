"""Validation: the metric that tells the weights of one epoch from those of another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from doxa.calibration.confidence import fitted_confidence, with_confidence
from doxa.calibration.rules import decision_score
from doxa.calibration.thresholds import Thresholds
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.systems import answers

COMPARISONS = 3e10
"""Validation beliefs × entities × dimension at most, so that validation stays short beside an epoch."""

FEWEST = 100
"""Validation beliefs evaluated at least, where there are as many."""


def validation_metric(pbe: PBE, valid: Beliefs, known: TripleIndex, settings: Settings) -> Callable[[], float]:
    """A function that evaluates the present weights on a fixed sample of the validation beliefs; larger is better.

    Ranking: mean filtered MRR of head, relation and tail, as far as the system answers them; entity: of head and tail
    alone. Accuracy: of triplet classification at the best thresholds. Confidence: minus the mean squared error of the
    fitted confidence.
    """
    size = min(settings.validation_sample, max(FEWEST, int(COMPARISONS / (pbe.entities * settings.dimension))))
    random = np.random.default_rng([settings.seed, 4])
    if settings.metric == "confidence":
        sample, target = with_confidence(_sample(valid, size, random), known, settings)
        if not len(sample):
            raise UsageError("stop_on=confidence: no validation belief carries confidence", "set stop_on=ranking")
        return lambda: -float(((fitted_confidence(pbe, settings, sample) - target) ** 2).mean())
    if settings.metric == "accuracy":
        labeled = _sample(labeled_beliefs(valid, known, settings.seed, settings.negatives_from), size, random)
        if not len(labeled):
            raise UsageError(
                "stop_on=accuracy: the validation beliefs have no labels and cannot be corrupted",
                "use labeled validation beliefs, or leave stop_on out",
            )
        return lambda: accuracy(pbe, labeled, settings)
    return _ranking(pbe, _sample(valid.positives(), size, random), known, settings)


def _ranking(pbe: PBE, sample: Beliefs, known: TripleIndex, settings: Settings) -> Callable[[], float]:
    slots = _ranked_slots(pbe, settings)

    def mean_mrr() -> float:
        total = 0.0
        for slot in slots:
            total += Metrics.of(ranks(pbe, slot, sample, known).filtered).mrr
        return total / len(slots)

    return mean_mrr


def _ranked_slots(pbe: PBE, settings: Settings) -> list[Slot]:
    """The slots whose ranks the metric averages: those that the system answers, or entities alone."""
    by_task: dict[str, tuple[Slot, ...]] = {"entity": ENTITY_SLOTS, "relation": (Slot.RELATION,)}
    tasks = ["entity"] if settings.metric == "entity" else answers(settings, words=pbe.mention is not None)
    slots = [slot for task in tasks for slot in by_task.get(task, ())]
    if pbe.relations == 1 and len(slots) > 1:  # nothing to tell apart
        slots = [slot for slot in slots if slot is not Slot.RELATION]
    return slots


def metric_name(pbe: PBE, settings: Settings) -> str:
    """What the validation metric is, in words."""
    if settings.metric == "confidence":
        return "minus squared error of the confidence"
    if settings.metric == "accuracy":
        return "accuracy of verdicts"
    slots = _ranked_slots(pbe, settings)
    kinds = ["entities"] * (Slot.HEAD in slots) + ["relations"] * (Slot.RELATION in slots)
    return f"filtered MRR of {' and '.join(kinds)}"


def accuracy(pbe: PBE, labeled: Beliefs, settings: Settings) -> float:
    """Accuracy of triplet classification at the best thresholds for these labels."""
    assert labeled.label is not None
    scores = decision_score(pbe, labeled, settings.decision_rule)
    thresholds = Thresholds.fit(scores, labeled.relation, labeled.label, pbe.relations)
    return float(((scores >= thresholds.of(labeled.relation)) == (labeled.label == 1)).mean())


def _sample(beliefs: Beliefs, size: int, random: np.random.Generator) -> Beliefs:
    return beliefs.take(random.permutation(len(beliefs))[:size])
