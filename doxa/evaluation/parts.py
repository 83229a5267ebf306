"""The parts of an evaluation: figures of ranked entities, of ranked relations and of verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from doxa.evaluation.ranks import Metrics


@dataclass(frozen=True)
class EntityReport:
    """Ranks of missing heads and tails, together and apart.

    `by_category` is by mapping kind of the relation, `by_frequency` by its number of training facts; both filtered.
    `filtered_seen` leaves out the beliefs with unseen names, which the others rank as a guess; None if there are none.
    """

    raw: Metrics
    filtered: Metrics
    filtered_heads: Metrics
    filtered_tails: Metrics
    by_category: dict[str, Metrics]
    by_frequency: dict[str, Metrics]
    filtered_seen: Metrics | None = None

    def as_dict(self) -> dict[str, Any]:
        parts = {
            name: getattr(self, name).as_dict() for name in ("raw", "filtered", "filtered_heads", "filtered_tails")
        }
        return (
            parts
            | _as_dict(filtered_seen=self.filtered_seen)
            | {
                name: {kind: metrics.as_dict() for kind, metrics in getattr(self, name).items()}
                for name in ("by_category", "by_frequency")
            }
        )


@dataclass(frozen=True)
class RelationReport:
    """Ranks of missing relations; for beliefs with mentions also by the entities alone and by the words alone.

    `filtered_seen` is as in `EntityReport`.
    """

    raw: Metrics
    filtered: Metrics
    filtered_seen: Metrics | None = None
    entities: RelationReport | None = None
    words: RelationReport | None = None

    def as_dict(self) -> dict[str, Any]:
        parts = {name: part.as_dict() for name in ("entities", "words") if (part := getattr(self, name)) is not None}
        return _as_dict(raw=self.raw, filtered=self.filtered, filtered_seen=self.filtered_seen) | parts


def _as_dict(**metrics: Metrics | None) -> dict[str, Any]:
    return {name: value.as_dict() for name, value in metrics.items() if value is not None}


@dataclass(frozen=True)
class ClassificationReport:
    """Accuracy on labeled beliefs: over all, over the beliefs with known names, and per relation."""

    accuracy: float
    accuracy_of_seen: float
    by_relation: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {"accuracy": self.accuracy, "accuracy_of_seen": self.accuracy_of_seen, "by_relation": self.by_relation}
